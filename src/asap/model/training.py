"""One training from its config to its result: the experience, the start, the loop, and the evaluation at the end."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from asap.base.arrays import member, stack
from asap.base.episodes import EVALUATION
from asap.base.errors import Interrupted, RunError, UserError, to_stderr
from asap.base.spec import TaskSet
from asap.compose import tasks_text, with_budget
from asap.config.schema import Config, PolicyConfig
from asap.config.toml import to_toml
from asap.experience.choose import choose
from asap.experience.protocol import EpisodeIds, Evaluation, Experience, OnProgress
from asap.learn.loop import Loop
from asap.learn.search import found_start, no_totals, num_tried, stacked_starts
from asap.learn.state import Budget, Start, TrainState, drawn_critic, drawn_policy, parameter_digest, restored
from asap.model.result import Result
from asap.model.verdict import Verdict, random_play, verdict_of
from asap.policy.examine import warnings_about
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import no_moments
from asap.policy.score import parameters_of, with_parameters
from asap.runs.checkpoints import require_same
from asap.runs.directory import Run, print_note
from asap.runs.events import Callback, Curve, InMemory, Record
from asap.runs.loggers import Phase, no_phase
from asap.runs.signals import StopRequest

Arrays = dict[str, np.ndarray]


class Training(NamedTuple):
    """What is trained, and with what."""

    config: Config
    tasks: TaskSet
    record: Record
    callbacks: Sequence[Callback]
    workers: str
    folder: Path  # Takes what workers print, and recordings of episodes that failed.
    notice: Callable[[str], None]
    given: ASAPPolicy | None = None  # To start from, stacked over seeds, in place of policies that are drawn.
    phase: Phase = no_phase


def with_more(config: Config, asked: tuple[int | None, int | None], spent: tuple[int, int] | None) -> Config:
    """With a budget of episodes and steps in addition to what was spent; the config's own where none is asked for."""
    if spent is None:
        return with_budget(config, *asked)
    more = (config.run.episodes, config.run.steps) if asked == (None, None) else asked
    return with_budget(config, *(None if new is None else new + old for new, old in zip(more, spent)))


def train(
    training: Training, saved: Arrays | None, stop: StopRequest, evaluates: bool = True
) -> tuple[TrainState, Result]:
    """From saved states of the learner, or from the start, until it is over or `stop` asks for it.

    Who stops gets no evaluation; before the first state there is nothing to return, and `Interrupted` is raised.
    """
    began, config, record = time.monotonic(), training.config, training.record
    with _experience(training, stop) as experience:
        loop = Loop(config, experience, record, training.callbacks)
        if saved is None:
            starts = _starts(training, experience)
            training.phase("compiling")
            states = loop.start(starts)
            loop.record_start(states)
        else:
            states = restored(loop.template(blank_start(config, training.tasks)), saved)
        before = np.asarray(states.iteration)
        states, finished = loop.run(states, stop)
        evaluation = _evaluated(training, experience, states) if evaluates and not stop.requested else None
        seconds, curve = time.monotonic() - began, Curve.read(record)
        verdict = _judged(training, experience, states, curve, evaluation, stop) if finished else None
    made_none = np.array_equal(before, states.iteration)
    ess = [event["ess"] for event in record.events() if "ess" in event]
    return states, Result(
        config=config,
        tasks=training.tasks,
        evaluation=evaluation,
        curve=curve,
        updates=np.asarray(states.iteration).tolist(),
        env_steps=int(states.env_steps.sum()),
        wall_seconds=seconds,
        compile_seconds=loop.compile_seconds,
        finished=finished,
        parameters_sha256=parameter_digest(states.outcome),
        ess=ess[-1] if ess else None,
        verdict=verdict,
        nothing_left=_nothing_left(config, states) if saved is not None and finished and made_none else None,
    )


def _nothing_left(config: Config, states: TrainState) -> str:
    """Why a run that is resumed makes no update."""
    episodes, steps = states.totals.episodes.sum(-1).max(), states.env_steps.max()
    option, spent = (
        ("--episodes", f"{episodes:,} episodes") if config.run.steps is None else ("--steps", f"{steps:,} steps")
    )
    if _out_of_budget(config, states).any():
        return f"already trained for {spent}; give a larger {option}"
    return f"already trained for {spent}, until it converged"


def _out_of_budget(config: Config, states: TrainState) -> np.ndarray:
    """Of each seed."""
    return (np.asarray(Budget.of(config).left(states.totals, states.env_steps)) == 0).any(0)


def _evaluated(training: Training, experience: Experience, states: TrainState) -> Evaluation | None:
    """The policies at the end; None where somebody has asked to stop."""
    run = training.config.run
    total = run.final_episodes * training.tasks.size * run.seeds

    def on_progress(count: int) -> None:
        training.phase(f"evaluating, {count:,} of {total:,} episodes")

    with contextlib.suppress(Interrupted):
        ids = EpisodeIds(seeds_of(training.config), EVALUATION)
        return experience.evaluate(states.outcome, ids, run.final_episodes, run.deterministic, on_progress)


def _judged(
    training: Training,
    experience: Experience,
    states: TrainState,
    curve: Curve,
    evaluation: Evaluation | None,
    stop: StopRequest,
) -> Verdict | None:
    """None where somebody has asked to stop. An environment that fails in random play costs no result."""
    config, at_random = training.config, np.zeros(0)
    if stop.requested is None:
        training.phase("playing at random, to compare")
        try:
            at_random = random_play(experience, states.outcome, seeds_of(config), config, stop)
        except UserError as error:
            training.notice(f"random play was left out: {error}")
    if stop.requested is not None:
        return None
    is_out, deterministic = _out_of_budget(config, states), config.run.deterministic
    verdict = verdict_of(training.tasks, curve, evaluation, deterministic, at_random, is_out)
    return verdict._replace(without_update=int(np.sum(np.asarray(states.iteration) == 0)))


def train_run(
    run: Run,
    config: Config,
    tasks: TaskSet,
    stop: StopRequest,
    callbacks: Sequence[Callback] = (),
    workers: str = "0",
    given: ASAPPolicy | None = None,
    saved: Arrays | None = None,
    evaluates: bool = True,
    phase: Phase = no_phase,
) -> tuple[TrainState, Result]:
    """A training that is recorded in a run directory: it goes on from the newest checkpoint there.

    `saved` states are those of a model that begins to be recorded.
    """

    def notice(text: str) -> None:
        run.notice(text)
        run.append({"kind": "notice", "message": text})

    training = Training(config, tasks, run, callbacks, workers, run.path, notice, given, phase)
    with run.locked():
        checkpoint = run.latest()
        if checkpoint is not None:
            require_same(config, checkpoint, run.path, tasks.names_say_all)
        if run.config_text() != to_toml(config):  # Gone on with under a larger budget.
            run.write_config(to_toml(config))
        if run.tasks_text() != tasks_text(config, tasks):
            run.write_tasks(tasks_text(config, tasks))
        try:
            states, result = train(training, saved if checkpoint is None else checkpoint.arrays, stop, evaluates)
        except UserError as error:
            with contextlib.suppress(RunError):  # A full disk, say: what went wrong first is what counts.
                run.append({"kind": "error", "message": str(error)})
            raise
        if result.finished:
            verdict = None if result.verdict is None else result.verdict.as_dict()
            run.append({"kind": "end", "parameters_sha256": result.parameters_sha256, "verdict": verdict})
    return states, result


def learn_on(
    run: str | os.PathLike | None,
    config: Config,
    tasks: TaskSet,
    callbacks: Sequence[Callback],
    workers: str,
    given: ASAPPolicy | None,
    saved: Arrays | None,
    stop: StopRequest,
    phase: Phase,
) -> tuple[TrainState, Result]:
    """A model that learns: recorded in a run directory, or with nothing written to disk unless something fails."""
    if run is not None:
        text = tasks_text(config, tasks)
        recorded = Run.open(run) if holds_run(Path(run)) else Run.create(run, to_toml(config), text)
        return train_run(recorded, config, tasks, stop, callbacks, workers, given, saved, False, phase)
    with temporary_folder() as folder:
        training = Training(config, tasks, InMemory(), callbacks, workers, folder, print_note, given, phase)
        return train(training, saved, stop, evaluates=False)


def holds_run(folder: Path) -> bool:
    return os.path.exists(folder / "config.toml")


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """For what workers print, made when it is needed; kept where something failed, because the error names it."""
    folder = Path(tempfile.gettempdir()) / f"asap-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        yield folder
    except RunError:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def seeds_of(config: Config) -> range:
    return range(config.run.seed, config.run.seed + config.run.seeds)


def blank_start(config: Config, tasks: TaskSet) -> Start:
    """Of all seeds, for its shapes."""
    policies, critics = (
        stack([draw(config, tasks, seed) for seed in seeds_of(config)]) for draw in (drawn_policy, drawn_critic)
    )
    count, size = config.run.seeds, len(tasks.spec.observation_names)
    moments = stack([no_moments(size)] * count) if tasks.is_scaled else None
    return Start(policies, critics, stack([no_totals(tasks)] * count), moments)


@contextlib.contextmanager
def _experience(training: Training, stop: StopRequest):
    experience = choose(training.config, training.tasks, training.workers, training.folder, training.notice, stop=stop)
    try:
        yield experience
    finally:
        experience.close()


def _starts(training: Training, experience: Experience) -> Start:
    config, tasks, given = training.config, training.tasks, training.given
    if given is not None:
        given = fitting(given, stack([drawn_policy(config, tasks, seed) for seed in seeds_of(config)]), config)
    found = []
    for index, seed in enumerate(seeds_of(config)):
        own = None if given is None else member(given, index)
        found.append(found_start(config, experience, seed, own, _searching(training, index)))
    policies, moments, totals = stacked_starts(found)
    critics = stack([drawn_critic(config, tasks, seed) for seed in seeds_of(config)])
    _warn(training, experience, member(policies, 0))
    return Start(policies, critics, totals, moments)


def _searching(training: Training, index: int) -> OnProgress:
    """Tells how far the search for the start of a seed is; where there is none, nobody asks."""
    config = training.config
    total = num_tried(config, training.given is not None)
    of_seed = "" if config.run.seeds == 1 else f" (seed {index + 1} of {config.run.seeds})"

    def on_progress(count: int) -> None:
        training.phase(f"searching for a start{of_seed}, {count} of {max(count, total)}")

    return on_progress


def fitting(given: ASAPPolicy, drawn: ASAPPolicy, config: Config) -> ASAPPolicy:
    """The given policies for each seed of the config: as they are, or the only one again and again.

    What was learned and its scaling are taken over; all else, such as how sharp the planes are, is as the config says.
    """
    shapes = [[leaf.shape[1:] for leaf in jax.tree.leaves(_learned(tree))] for tree in (given, drawn)]
    count, needed, source = given.partition.beta.shape[0], config.run.seeds, config.run.source
    if shapes[0] != shapes[1]:
        what = f"its policies have {_size_in_words(given)}, this task needs {_size_in_words(drawn)}"
        raise UserError(
            "run.source", what, source, "choose tasks with the same observations and actions, K and features"
        )
    if count not in (1, needed):
        what = f"has {count} seeds, this run has {needed}"
        raise UserError("run.source", what, source, f"use --seeds {count}")
    taken = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (needed, *leaf.shape[1:])), _learned(given))
    return eqx.tree_at(_scaling, with_parameters(drawn, taken[0]), taken[1])


def _size_in_words(policies: ASAPPolicy) -> str:
    """What decides whether policies, stacked over seeds, fit."""
    (_, planes, features), (_, skills, actions, numbers) = policies.partition.beta.shape, policies.skills.theta.shape
    inputs = len(policies.psi.inputs)
    return (
        f"{inputs} inputs, K = {planes} over {features} features, {skills} skills over {actions} actions "
        f"with {numbers} each"
    )


def _learned(policy: ASAPPolicy) -> tuple:
    return parameters_of(policy), _scaling(policy)


def _scaling(policy: ASAPPolicy) -> tuple:
    """Of the observations under planes and skills."""
    return policy.psi.shift, policy.psi.scale, policy.phi.shift, policy.phi.scale


def _warn(training: Training, experience: Experience, policy: ASAPPolicy) -> None:
    """Tells of settings that hinder learning. The defaults do not, and need not wait for the look."""
    if training.config.policy == PolicyConfig():
        return
    states = experience.random_states()
    if states is None:
        return
    for text in warnings_about(policy, *states, training.tasks.spec.observation_names):
        to_stderr(f"warning: {text}")
        training.record.append({"kind": "warning", "message": text})
