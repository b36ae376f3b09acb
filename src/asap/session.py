"""A training run from its config to its result: compiled chunks, and between them logging, saving and stopping."""

import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from asap.base.errors import RunError, UserError
from asap.compose import tasks_of
from asap.config.schema import Config, PolicyConfig
from asap.config.settings import to_toml
from asap.envs import catalog
from asap.envs.gymnasium.determinism import watch_for_drift
from asap.envs.gymnasium.make import HostedSource
from asap.envs.gymnasium.task import HostedTask
from asap.envs.resolve import Task
from asap.evaluate import Evaluation, known_mean
from asap.learn.foreign import ForeignTrainer
from asap.learn.train import Metrics, Trainer, TrainState, is_active
from asap.offline.source import trainer_from_data
from asap.policy.examine import warnings_about
from asap.policy.policy import ASAPPolicy
from asap.policy.score import parameters_of, with_parameters
from asap.runs.directory import Run
from asap.runs.signals import StopRequest
from asap.state_arrays import from_arrays, parameter_digest, to_arrays
from asap.trained import Trained
from asap.transfer import repeat_seeds
from asap.workers.hire import IN_PROCESS, hire

SAVE_EVERY_SECONDS = 1.0
WEIGHTLESS, MOST_WEIGHTLESS = 0.01, 20


@dataclass(frozen=True)
class Curve:
    """One entry per evaluation, the first before any update: axes (entries, seeds), then tasks or skills."""

    episodes: np.ndarray
    returns: np.ndarray
    success: np.ndarray
    usage: np.ndarray
    active: np.ndarray
    seconds: np.ndarray  # (entries,): of training and evaluation since the entry before, without compilation.

    @classmethod
    def read(cls, run: Run) -> "Curve":
        """From the event log. A resumed run logs some updates again: they are the same, and count once."""
        rows = {event["update"]: event for event in run.events() if event.get("kind") == "update"}
        # Runs of earlier releases have no seconds.
        columns = [[rows[update].get(name, 0.0) for update in sorted(rows)] for name in cls.names()]
        return cls(*(np.asarray(column, float) for column in columns))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(field.name for field in dataclasses.fields(cls))

    def first_near_optimal(self, threshold: np.ndarray) -> list[int | None]:
        """Per seed, completed episodes at the first evaluation that is near-optimal on every task."""
        reached = (self.returns >= threshold).all(-1)
        return [
            int(self.episodes[np.argmax(reached[:, seed]), seed]) if reached[:, seed].any() else None
            for seed in range(self.episodes.shape[1])
        ]


@dataclass(frozen=True)
class Result:
    """What a run came to. Evaluation arrays have axes (seeds, tasks, ...)."""

    config: Config
    tasks: tuple[Task, ...]
    policy: ASAPPolicy  # Stacked over seeds.
    evaluation: Evaluation | None
    curve: Curve
    env_steps: int
    wall_seconds: float
    compile_seconds: float
    finished: bool
    parameters_sha256: str
    ess: list[float] | None  # Of the last chunk, where logged data were learned from.


class Report(NamedTuple):
    """What callbacks are told between two chunks."""

    update: int
    episodes: np.ndarray  # (seeds,): completed so far.
    env_steps: np.ndarray  # (seeds,)
    returns: np.ndarray  # (seeds, tasks): mean of the last evaluation, or of the last episodes of training.
    lengths: np.ndarray  # (seeds,): mean steps of these episodes.
    event: dict[str, Any]  # As it is written to events.jsonl.
    policies: ASAPPolicy | None  # Stacked over seeds.


Callback = Callable[[Report], bool | None]  # False stops the run: it is saved and can be resumed.


class Session:
    """One run; `train` goes on from the newest checkpoint, or from the start where there is none."""

    def __init__(
        self,
        config: Config,
        run: Run,
        callbacks: Sequence[Callback] = (),
        workers: str = IN_PROCESS,
        task: HostedTask | None = None,
    ):
        """`workers` play foreign environments; `task` is given where no name leads to it."""
        self.config, self.run, self.callbacks = config, run, callbacks
        self.tasks = tasks_of(config) if task is None else (task,)
        self.trainer = self._new_trainer(workers)
        self.num_weightless = 0

    def _new_trainer(self, workers: str) -> Trainer | ForeignTrainer:
        config, first = self.config, self.tasks[0]
        if isinstance(first, HostedTask):
            env = config.env
            limits = env.step_timeout, env.retries, env.on_no_workers
            if env.check_determinism:
                self.callbacks = [*self.callbacks, watch_for_drift(first, self._notice)]
            dispatcher = hire(workers, (HostedSource(first.source, first.rules),), self.run.path, self._notice, *limits)
            return ForeignTrainer(config, first, dispatcher, self._notice)
        if workers != IN_PROCESS:
            raise UserError("--workers", f"{first.name} is compiled and needs none", workers, "leave it out")
        set_of_tasks = catalog.task_set(tuple(zip(config.run.tasks, config.run.weights, strict=True)))
        new_trainer = Trainer if config.offline.data is None else trainer_from_data
        return new_trainer(config, self.tasks, set_of_tasks)

    def _notice(self, text: str) -> None:
        """A remark of the workers, for the user and the log."""
        self.run.notice(text)
        self.run.append({"kind": "notice", "message": text})

    def train(self, stop: StopRequest, evaluates: bool = True) -> Result:
        """Until the run is over or `stop` asks for it; then what was learned is evaluated, unless that is done elsewhere."""
        try:
            return self._train(stop, evaluates)
        finally:
            self.trainer.close()

    def _train(self, stop: StopRequest, evaluates: bool) -> Result:
        began = time.monotonic()
        with self.run.locked():
            if self.run.config_text() != to_toml(self.config):  # Gone on with under a larger budget.
                self.run.write_config(to_toml(self.config))
            states = self._prepare()
            states, finished = self._loop(states, stop)
            result = self._conclude(states, finished, began, evaluates)
            if finished:
                self.run.append({"kind": "end", "parameters_sha256": result.parameters_sha256})
        return result

    def _prepare(self) -> TrainState:
        """The states to go on from, and the compiled functions."""
        checkpoint = self.run.latest()
        states = None if checkpoint is None else from_arrays(self.trainer.template(), checkpoint.arrays)

        def start() -> None:
            nonlocal states
            if checkpoint is None:
                states = self.trainer.start(self._first_policies)

        self.trainer.compile(meanwhile=start)
        if checkpoint is None:
            self._log_start(states)
            self._save(states)
        return states

    def _first_policies(self, policies: ASAPPolicy) -> ASAPPolicy:
        """What training starts from: the policies as they were built, or those of the source run."""
        if self.config.run.source is not None:
            policies = self._from_source(policies)
        self._warn(jax.tree.map(lambda leaf: leaf[0], policies))
        return policies

    def _from_source(self, policies: ASAPPolicy) -> ASAPPolicy:
        trained = Trained.load(self.config.run.source).policies
        shapes = [[leaf.shape[1:] for leaf in jax.tree.leaves(parameters_of(tree))] for tree in (trained, policies)]
        count, needed = trained.partition.beta.shape[0], self.config.run.seeds
        if shapes[0] != shapes[1]:
            raise UserError(
                "run.source",
                f"its parameters have shapes {shapes[0]}, this task needs {shapes[1]}",
                self.config.run.source,
                "choose tasks of one family, K and features",
            )
        if count not in (1, needed):
            raise UserError(
                "run.source",
                f"has {count} seeds, this run has {needed}",
                self.config.run.source,
                f"use --seeds {count}",
            )
        return with_parameters(policies, repeat_seeds(parameters_of(trained), needed))

    def _warn(self, policy: ASAPPolicy) -> None:
        """Tells of settings that hinder learning. The defaults do not, and need not wait for the look."""
        if self.config.policy == PolicyConfig() or isinstance(self.trainer, ForeignTrainer):
            return
        for text in warnings_about(policy, self.trainer.tasks):
            print(f"warning: {text}", file=sys.stderr)
            self.run.append({"kind": "warning", "message": text})

    def _loop(self, states: TrainState, stop: StopRequest) -> tuple[TrainState, bool]:
        saved, best = time.monotonic(), self._best_so_far()
        active = self._any_active(states)
        goes_on = True
        while active and goes_on and not stop.requested:
            began = time.monotonic()
            states, metrics = self.trainer.advance(states)
            update = int(np.max(states.iteration))
            evaluation = self.trainer.look(states)
            report = self._log(update, metrics, jax.block_until_ready(evaluation), time.monotonic() - began)
            self._refuse_spoiled(states)
            self._refuse_weightless(metrics)
            active = self._any_active(states)
            goes_on = all(
                [callback(report._replace(policies=states.outcome)) is not False for callback in self.callbacks]
            )
            if time.monotonic() - saved > SAVE_EVERY_SECONDS or not active or not goes_on or stop.requested:
                mean = float(known_mean(evaluation.returns, (0, 1, 2)))
                self._save(states, score=mean, best=mean > best)
                saved, best = time.monotonic(), max(best, mean)
        return states, not active

    def _any_active(self, states: TrainState) -> bool:
        return bool(np.any(is_active(self.config, states)))

    def _log(self, update: int, metrics: Metrics, evaluation: Evaluation, seconds: float) -> Report:
        """One line per chunk: its last update, and the evaluation after it. A seed that has stopped stays as it is."""
        metrics = jax.tree.map(np.asarray, metrics)
        last = jax.tree.map(lambda leaf: leaf[-1], metrics)
        norms = jax.tree.map(lambda leaf: norm_without_noise(leaf, metrics.active), metrics.diagnostics.gradient)
        event = self._append(
            update,
            evaluation,
            seconds,
            episodes=last.cumulative_episodes,
            active=metrics.active.any(0),
            env_steps=last.env_steps,
            gradient_theta=norms.theta,
            gradient_beta=norms.beta,
            kl=last.diagnostics.kl,
            entropy=last.diagnostics.regularity.entropy,
            explained_variance=last.explained_variance,
            movement=last.movement,
            **(
                {}
                if metrics.from_data is None
                else jax.tree.map(lambda leaf: leaf.mean(0), metrics.from_data)._asdict()
            ),
        )
        lengths = known_mean(np.asarray(evaluation.lengths, float), (-1, -2))
        return Report(
            update, last.cumulative_episodes, last.env_steps, known_mean(evaluation.returns), lengths, event, None
        )

    def _log_start(self, states: TrainState) -> None:
        """The policy before its first update, as entry 0 of the curve."""
        evaluation = self.trainer.look(states)
        episodes, active = np.asarray(states.totals.episodes).sum(-1), np.ones(self.config.run.seeds, bool)
        self._append(0, evaluation, 0.0, episodes=episodes, active=active, env_steps=np.asarray(states.env_steps))

    def _append(self, update: int, evaluation: Evaluation, seconds: float, **columns: np.ndarray) -> dict[str, Any]:
        evaluation = jax.tree.map(np.asarray, evaluation)
        steps = evaluation.skill_steps.sum(1)
        event = {
            "kind": "update",
            "update": update,
            "seconds": round(seconds, 4),
            **{name: values.tolist() for name, values in columns.items()},
            "returns": known_mean(evaluation.returns).round(3).tolist(),
            "success": known_mean(evaluation.success).round(4).tolist(),
            "usage": (steps / np.maximum(steps.sum(-1, keepdims=True), 1)).round(4).tolist(),
        }
        self.run.append(event)
        return event

    def _refuse_spoiled(self, states: TrainState) -> None:
        spoiled = np.flatnonzero(states.spoiled)
        if len(spoiled):
            iteration = int(states.iteration[spoiled[0]])
            seed = self.config.run.seed + int(spoiled[0])
            raise RunError(
                "gradient",
                f"became nan or infinite at iteration {iteration + 1} of seed {seed}",
                "nan",
                f"the update was not applied and the last good checkpoint is kept; lower the step sizes and resume {self.run.path}",
            )

    def _refuse_weightless(self, metrics: Metrics) -> None:
        """Importance weights that have left nearly all of the data without a say, chunk after chunk."""
        if self.config.learn.learner != "importance":
            return
        ess = float(np.min(np.mean(metrics.from_data.ess, 0)))
        self.num_weightless = self.num_weightless + 1 if ess < WEIGHTLESS else 0
        if self.num_weightless == MOST_WEIGHTLESS:
            what = f"effective sample size below {WEIGHTLESS:.0%} of the steps in {MOST_WEIGHTLESS} successive chunks"
            cure = "raise offline.anchor, use --learner likelihood, or log a behaviour that explores more"
            raise RunError("offline", what, f"{ess:.2%}", cure)

    def _best_so_far(self) -> float:
        best = self.run.best()
        return -np.inf if best is None else best.meta.get("score", -np.inf)

    def _save(self, states: TrainState, score: float | None = None, best: bool = False) -> None:
        arrays = to_arrays(states)
        meta = {
            "tasks": list(self.config.run.tasks),
            "seeds": self.config.run.seeds,
            "hyperplanes": self.config.policy.hyperplanes,
            "score": score,
        }
        self.run.save(int(np.max(states.iteration)), arrays, meta, best=best)

    def _conclude(self, states: TrainState, finished: bool, began: float, evaluates: bool) -> Result:
        return Result(
            config=self.config,
            tasks=self.tasks,
            policy=states.outcome,
            evaluation=self.trainer.evaluate(states.outcome, self.config.run.final_episodes) if evaluates else None,
            curve=Curve.read(self.run),
            env_steps=int(np.asarray(states.env_steps).sum(dtype=np.int64)),
            wall_seconds=time.monotonic() - began,
            compile_seconds=self.trainer.compile_seconds,
            finished=finished,
            parameters_sha256=parameter_digest(states.outcome),
            ess=None
            if self.config.offline.data is None
            else [event["ess"] for event in self.run.events() if "ess" in event][-1],
        )


def norm_without_noise(gradients: np.ndarray, active: np.ndarray) -> np.ndarray:
    """(seeds,): norm of the gradient over a chunk, axes (chunk, seeds, ...), counting only updates that were made.

    The norm of a noisy mean is too large. The inner product of the means of even and of odd updates is an estimate of the
    squared norm without that bias, since their noise is independent. A single update has its own norm.
    """
    gradients = gradients.reshape(*active.shape, -1)
    even, odd = (
        (gradients * active[..., None])[i::2].sum(0) / np.maximum(active[i::2].sum(0), 1)[:, None] for i in (0, 1)
    )
    squared = np.where(active.sum(0) > 1, (even * odd).sum(-1), (even * even).sum(-1))
    return np.sqrt(np.maximum(squared, 0.0))
