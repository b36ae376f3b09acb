"""What `model.learn` and `model.play` do: one training of a model's policies, and episodes of policies on its tasks."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from asap.base.arrays import member, stack, to_arrays
from asap.base.episodes import EVALUATION, require_episodes, require_integer, require_seed
from asap.base.errors import UserError
from asap.base.spec import TaskSet
from asap.compose import with_budget
from asap.config.schema import Config
from asap.experience.choose import choose
from asap.experience.protocol import EpisodeIds, Evaluation, OnProgress, ignore_progress
from asap.learn.source import TakenOver
from asap.learn.state import with_given_rules
from asap.model.another_task import on_task
from asap.model.result import Result
from asap.model.source import start_from
from asap.model.training import run_at, temporary_folder, train_run
from asap.policy.policy import ASAPPolicy
from asap.runs.directory import print_note
from asap.runs.events import Callback
from asap.runs.loggers import loggers
from asap.runs.signals import StopRequest

if TYPE_CHECKING:
    from asap.model.model import ASAP

Arrays = dict[str, np.ndarray]


class Held(NamedTuple):
    """What a model starts to learn from; without policies, they are drawn or come from where the config says."""

    policies: ASAPPolicy | None
    state: Arrays | None  # All of the learner, where it learns on.
    source: TakenOver  # What else is taken over where it does not.


class LearnedModel(NamedTuple):
    policies: ASAPPolicy
    state: Arrays
    counts: list[tuple[int, int]]  # Episodes and steps of each seed.
    result: Result
    stop: StopRequest


def with_more(config: Config, steps: Any, episodes: Any, spent: tuple[int, int] | None) -> Config:
    """The config with the budget of a call, in addition to what was spent."""
    if config.sequence.is_on:
        what = "the tasks are learned one after another, and not together"
        raise UserError(
            "sequence.planes", what, config.sequence.planes, "call learn_sequence, or transfer the model first"
        )
    return with_budget_of_call(config, steps, episodes, spent)


def with_budget_of_call(config: Config, steps: Any, episodes: Any, spent: tuple[int, int] | None = None) -> Config:
    steps = None if steps is None else require_integer("total_timesteps", steps, 1)
    episodes = None if episodes is None else require_integer("episodes", episodes, 1)
    return with_budget(config, episodes, steps, spent)


def learned(
    config: Config,
    tasks: TaskSet,
    held: Held,
    run: Path | None,
    workers: str,
    callback: Callback | Iterable[Callback] | None,
    *log_to: Any,
) -> LearnedModel:
    """One training; `log_to` are the places that `loggers` takes."""
    callbacks = [callback] if callable(callback) else list(callback or ())
    with StopRequest() as stop, loggers(config, *log_to) as (log, phase):
        given, source = start_from(config, tasks) if held.policies is None else (held.policies, held.source)
        recorded = None if run is None else run_at(run, config, tasks)
        training = recorded, config, tasks, stop, [*log, *callbacks], workers, given, held.state
        states, result = train_run(*training, evaluates=False, phase=phase, source=source)
    outcome = states.outcome
    if given is None or held.state is not None:
        outcome = with_given_rules(config, tasks, outcome, states.iteration)
    counts = list(zip(states.totals.episodes.sum(-1).tolist(), states.env_steps.tolist()))
    return LearnedModel(outcome, to_arrays(states), counts, result, stop)


@contextlib.contextmanager
def _player(config: Config, tasks: TaskSet, workers: str) -> Iterator[Any]:
    with temporary_folder() as folder:
        player = choose(config, tasks, workers, folder, print_note, learns=False)
        with contextlib.closing(player):
            yield player


def play(
    config: Config,
    tasks: TaskSet,
    workers: str,
    policies: ASAPPolicy,
    episodes: int | None,
    seeds: list[int],
    deterministic: bool | None,
    on_progress: OnProgress,
) -> Evaluation:
    """Episodes of stacked policies on every task; what is not said is as in the evaluation at the end of a training."""
    count = require_episodes("episodes", config.run.final_episodes if episodes is None else episodes)
    seeds = [require_seed("seed", seed) for seed in seeds]
    sure = config.run.deterministic if deterministic is None else bool(deterministic)
    with _player(config, tasks, workers) as player:
        return player.evaluate(policies, EpisodeIds(seeds, EVALUATION), count, sure, on_progress)


def play_learned(
    model: "ASAP",
    which: Sequence[int],
    episodes: int | None,
    seeds: list[int],
    deterministic: bool | None,
    on_progress: OnProgress = ignore_progress,
) -> Evaluation:
    """Episodes of every task by the policies of some of the trained seeds, by their indices; where tasks have planes of their own,
    under these."""

    def played(alone: "ASAP") -> Evaluation:
        policies = stack([member(alone.policies, index) for index in which])
        return alone.play(policies, episodes, seeds, deterministic, on_progress)

    if not model.planes or model.tasks.size == 1:
        return played(model)
    parts = [played(on_task(model, name))[:6] for name in model.tasks.names]
    return Evaluation(*(np.concatenate(columns, 1) for columns in zip(*parts)))
