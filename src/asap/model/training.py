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
from asap.compose import tasks_text
from asap.config.schema import Config, PolicyConfig
from asap.config.toml import to_toml
from asap.experience.choose import choose
from asap.experience.protocol import EpisodeIds, Evaluation, Experience, OnProgress
from asap.learn.from_log import in_known_units
from asap.learn.loop import Loop
from asap.learn.source import NOTHING_TAKEN, TakenOver, found_start, num_tried, with_optimizer
from asap.learn.state import (
    Budget,
    Start,
    TrainState,
    drawn_policy,
    drawn_start,
    parameter_digest,
    restored,
    with_given_rules,
)
from asap.model.result import Result
from asap.model.verdict import random_play, verdict_of
from asap.policy.examine import warnings_about
from asap.policy.policy import ASAPPolicy
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
    source: TakenOver = NOTHING_TAKEN  # What else is taken over of who had the given policies.


def train(
    training: Training, saved: Arrays | None, stop: StopRequest, evaluates: bool = True
) -> tuple[TrainState, Result]:
    """From saved states of the learner, or from the start, until it is over or `stop` asks for it.

    Who stops gets no evaluation; before the first state there is nothing to return, and `Interrupted` is raised.
    """
    began, config, tasks, record = time.monotonic(), training.config, training.tasks, training.record
    player = choose(config, tasks, training.workers, training.folder, training.notice, stop=stop, record=record.append)
    with contextlib.closing(player) as experience:
        loop = Loop(config, experience, record, training.callbacks)
        if saved is None:
            starts = _starts(training, experience)
            training.phase("compiling")
            states = with_optimizer(loop.start(starts), training.source)
            loop.record_start(states)
        else:
            states = restored(loop.template(blank_start(config, tasks)), saved)
        before = np.asarray(states.iteration)
        states, finished = loop.run(states, stop)
        outcome = outcome_of(training, states)
        evaluates = evaluates and experience.plays and not stop.requested
        evaluation = _evaluated(training, experience, outcome) if evaluates else None
        seconds, curve = time.monotonic() - began, Curve.read(record)
        at_random = _random_returns(training, experience, outcome, stop) if finished else None
    after, is_out, verdict, nothing_left = np.asarray(states.iteration), _out_of_budget(config, states), None, None
    if at_random is not None:
        verdict = verdict_of(tasks, curve, evaluation, config.run.deterministic, at_random, is_out)
        verdict = verdict._replace(without_update=int(np.sum(after == 0)))
    if saved is not None and finished and np.array_equal(before, after):
        nothing_left = _nothing_left(config, states, is_out)
    ess = [event["ess"] for event in record.events() if "ess" in event]
    return states, Result(
        config=config,
        tasks=tasks,
        evaluation=evaluation,
        curve=curve,
        updates=after.tolist(),
        env_steps=int(states.env_steps.sum()),
        wall_seconds=seconds,
        compile_seconds=loop.compile_seconds,
        finished=finished,
        parameters_sha256=parameter_digest(outcome),
        ess=ess[-1] if ess else None,
        verdict=verdict,
        nothing_left=nothing_left,
        races=told_of_seeds(record, "race"),
        picks=told_of_seeds(record, "pick"),
    )


def told_of_seeds(record: Record, kind: str) -> list[dict]:
    """The last event of this kind of each seed: a run that was resumed may have told it twice."""
    found = {event["seed"]: event for event in record.events() if event.get("kind") == kind}
    return [{name: value for name, value in found[seed].items() if name != "kind"} for seed in sorted(found)]


def outcome_of(training: Training, states: TrainState) -> ASAPPolicy:
    """The policies that training has come to: without an update, given rules as they are."""
    if training.given is not None:
        return states.outcome
    return with_given_rules(training.config, training.tasks, states.outcome, states.iteration)


def _nothing_left(config: Config, states: TrainState, is_out: np.ndarray) -> str:
    """Why a run that is resumed makes no update."""
    option, spent = "--steps", f"{states.env_steps.max():,} steps"
    if config.run.steps is None:
        option, spent = "--episodes", f"{states.totals.episodes.sum(-1).max():,} episodes"
    return f"already trained for {spent}" + (f"; give a larger {option}" if is_out.any() else ", until it converged")


def _out_of_budget(config: Config, states: TrainState) -> np.ndarray:
    """Of each seed."""
    return (np.asarray(Budget.of(config).left(states.totals, states.env_steps)[:2]) == 0).any(0)


def _evaluated(training: Training, experience: Experience, policies: ASAPPolicy) -> Evaluation | None:
    """The policies at the end; None where somebody has asked to stop."""
    run = training.config.run
    total = run.final_episodes * training.tasks.size * run.seeds

    def on_progress(count: int) -> None:
        training.phase(f"evaluating, {count:,} of {total:,} episodes")

    with contextlib.suppress(Interrupted):
        ids = EpisodeIds(seeds_of(training.config), EVALUATION)
        return experience.evaluate(policies, ids, run.final_episodes, run.deterministic, on_progress)


def _random_returns(
    training: Training, experience: Experience, policies: ASAPPolicy, stop: StopRequest
) -> np.ndarray | None:
    """None where somebody has asked to stop. An environment that fails in random play costs no result."""
    config, returns = training.config, np.zeros(0)
    if stop.requested is None and experience.plays:
        training.phase("playing at random, to compare")
        try:
            returns = random_play(experience, policies, seeds_of(config), config, stop)
        except UserError as error:
            training.notice(f"random play was left out: {error}")
    return returns if stop.requested is None else None


def train_run(
    run: Run | None,
    config: Config,
    tasks: TaskSet,
    stop: StopRequest,
    callbacks: Sequence[Callback] = (),
    workers: str = "0",
    given: ASAPPolicy | None = None,
    saved: Arrays | None = None,
    evaluates: bool = True,
    phase: Phase = no_phase,
    source: TakenOver = NOTHING_TAKEN,
) -> tuple[TrainState, Result]:
    """A training that is recorded in a run directory: it goes on from the newest checkpoint there. Without one, nothing is
    written to disk unless something fails.

    `saved` states are those of a model that learns on.
    """
    if run is None:
        with temporary_folder() as folder:
            playing = workers, folder, print_note, given, phase, source
            training = Training(config, tasks, InMemory(), callbacks, *playing)
            return train(training, saved, stop, evaluates)

    def notice(text: str) -> None:
        run.notice(text)
        run.append({"kind": "notice", "message": text})

    training = Training(config, tasks, run, callbacks, workers, run.path, notice, given, phase, source)
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


def run_at(folder: Path, config: Config, tasks: TaskSet) -> Run:
    """The run that is there, or a new one."""
    return Run.open(folder) if holds_run(folder) else Run.create(folder, to_toml(config), tasks_text(config, tasks))


def holds_run(folder: Path) -> bool:
    return os.path.exists(folder / "config.toml")


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """For what workers print, made when it is needed; kept where something failed, because the error names it."""
    folder, is_kept = Path(tempfile.gettempdir()) / f"asap-{os.getpid()}-{os.urandom(4).hex()}", False
    try:
        yield folder
    except RunError:
        is_kept = True
        raise
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def seeds_of(config: Config) -> range:
    return range(config.run.seed, config.run.seed + config.run.seeds)


def blank_start(config: Config, tasks: TaskSet) -> Start:
    """Of all seeds, for its shapes."""
    return stack([drawn_start(config, tasks, seed) for seed in seeds_of(config)])


def _starts(training: Training, experience: Experience) -> Start:
    config, tasks, given = training.config, training.tasks, training.given
    if given is not None:
        given = fitting(given, stack([drawn_policy(config, tasks, seed) for seed in seeds_of(config)]), config)
        for note in training.source.notes:
            training.notice(note)
    found = []
    for index, seed in enumerate(seeds_of(config)):
        if given is None and config.policy.rules:
            from asap.learn.from_rules import start_from_rules

            start, notes = start_from_rules(config, experience, seed)
            for note in notes if not found else ():  # Of the first seed: others may differ in the last digits.
                training.notice(note)
            found.append(start)
            continue
        own = None if given is None else member(given, index)
        progress, source = _searching(training, index), training.source.of_seed(index)
        start, winner = found_start(config, experience, seed, own, progress, source)
        found.append(start)
        if winner is not None:
            training.notice(winner.note())
            training.record.append({"kind": "symmetries", **winner.as_dict()})
    known, is_drawn = experience.known_moments(), given is None and not config.policy.rules
    found = [in_known_units(start, known, is_drawn) for start in found]
    _warn(training, experience, found[0].policy)
    return stack(found)


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
    count, needed, source = given.partition.beta.shape[0], config.run.seeds, config.run.source or "the model"
    if shapes[0] != shapes[1]:
        what = f"its policies have {_size_in_words(given)}, this task needs {_size_in_words(drawn)}"
        cure = "choose tasks with the same observations and actions, K and features"
        raise UserError("run.source", what, source, cure)
    if count not in (1, needed):
        what = f"has {count} seeds, this run has {needed}"
        raise UserError("run.source", what, source, f"use --seeds {count}")
    taken = jax.tree.map(
        lambda leaf: np.broadcast_to(leaf, (needed, *leaf.shape[1:])), (*_learned(given), _slope(given))
    )
    found = eqx.tree_at(_scaling, with_parameters(drawn, taken[0]), taken[1])
    # Rules were made correctable by another slope: their planes are as sharp as they were only with it.
    return eqx.tree_at(_slope, found, taken[2]) if config.policy.rules else found


def _size_in_words(policies: ASAPPolicy) -> str:
    """What decides whether policies, stacked over seeds, fit."""
    (_, planes, features), (_, skills, actions, numbers) = policies.partition.beta.shape, policies.skills.theta.shape
    over = f"{len(policies.psi.inputs)} inputs, K = {planes} over {features} features"
    return f"{over}, {skills} skills over {actions} actions with {numbers} each"


def _learned(policy: ASAPPolicy) -> tuple:
    return parameters_of(policy), _scaling(policy)


def _slope(policy: ASAPPolicy) -> np.ndarray:
    return policy.partition.alpha_beta


def _scaling(policy: ASAPPolicy) -> tuple:
    """Of the observations under planes and skills."""
    return policy.psi.shift, policy.psi.scale, policy.phi.shift, policy.phi.scale


def _warn(training: Training, experience: Experience, policy: ASAPPolicy) -> None:
    """Tells of settings that hinder learning. The defaults do not, and need not wait for the look."""
    if training.config.policy == PolicyConfig() or (training.tasks.size == 1 and policy.psi.task != "none"):
        return  # The numbers of one task of a family are the same everywhere, as they should be.
    states, names = experience.random_states(), training.tasks.spec.observation_names
    for text in () if states is None else warnings_about(policy, *states, names):
        to_stderr(f"warning: {text}")
        training.record.append({"kind": "warning", "message": text})
