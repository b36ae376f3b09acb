"""The one loop: it feeds, advances by compiled updates, looks, records, saves and stops, whatever the experience is."""

import functools
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import equinox as eqx
import jax
import numpy as np

from asap.base.arrays import compiled, known_mean, members, over_seeds, stack, to_arrays
from asap.base.errors import Interrupted, RunError
from asap.base.keys import Key, root
from asap.config.schema import Config
from asap.experience.protocol import Counters, Evaluation, Experience, Fed
from asap.learn.on_the_host import OnTheHost
from asap.learn.race import Racing
from asap.learn.stages import Stage, Stages
from asap.learn.state import Budget, Metrics, Start, TrainState, first_state, idle
from asap.learn.update import update
from asap.runs.checkpoints import belonging
from asap.runs.events import Callback, Record, Report
from asap.runs.signals import StopRequest

SAVE_EVERY_SECONDS = 1.0
LOOK_EVERY_SECONDS = 0.1  # Whether somebody wants to stop, while the program compiles.
WEIGHTLESS, MOST_WEIGHTLESS = 0.01, 20


class Loop:
    """Training of all seeds of a config."""

    def __init__(self, config: Config, experience: Experience, record: Record, callbacks: Sequence[Callback] = ()):
        self.config, self.experience, self.record, self.callbacks = config, experience, record, callbacks
        self.racing = Racing(config, experience.tasks, record)
        self.stages = Stages.of(config, self.racing)
        self._on_host = OnTheHost(config, experience, record, self.stages)
        seeds = [root(config.run.seed + index) for index in range(config.run.seeds)]
        self.keys = jax.tree.map(lambda *words: np.stack(words), *seeds)
        self._one_update = functools.partial(update, config, experience)
        begin = over_seeds(functools.partial(first_state, config, experience))
        self._start, self._advance, self._update = map(compiled, (begin, self._advanced, self._one_update))
        self._ready: Future | None = None
        self._shapes: set[tuple[int, ...]] = set()
        self.compile_seconds = 0.0
        self._num_weightless = 0
        self._best_score = -np.inf
        self._better: tuple[TrainState, float] | None = None  # Than the best that is saved; written at the next save.
        self._looked: dict[str, Any] | None = None  # The last event of this loop.

    def start(self, starts: Start) -> TrainState:
        """All seeds before their first update."""
        return self.racing.begun(jax.block_until_ready(self._start(self.keys, starts)).counted_from(starts.totals))

    def template(self, starts: Start) -> TrainState:
        """Shapes of the states, before anything is compiled."""
        return self.racing.shaped(jax.eval_shape(self._start, self.keys, starts).counted_from(starts.totals))

    def record_start(self, states: TrainState) -> None:
        """The policy before its first update, as entry 0 of the curve; the update compiles meanwhile."""
        if self._divided(states)[1].any():
            self._begin_compiling(states)
        evaluation = self.experience.look(states.policy, 0)
        episodes, active = states.totals.episodes.sum(-1), np.ones(self.config.run.seeds, bool)
        event = self._append(0, evaluation, 0.0, episodes=episodes, active=active, env_steps=states.env_steps)
        self._save(states, self._compare(states, event))

    def run(self, states: TrainState, stop: StopRequest) -> tuple[TrainState, bool]:
        """Until all seeds are done, or `stop` or a callback asks to stop; and whether they are done."""
        saved, score, self._best_score = time.monotonic(), np.nan, self.record.best_score()
        active, goes_on = self._active(states).any(), True
        try:
            while active and goes_on and not stop.requested:
                try:
                    (on_host, in_program), stages = self._divided(states), self.stages.told(states)
                    if in_program.any():
                        self._wait_for_program(states, stop)
                    began, compiling = time.monotonic(), self.compile_seconds
                    advanced, metrics, evaluation = states, None, None
                    if in_program.any():
                        advanced, metrics = self._advance_chunk(states)
                        evaluation = self.experience.look(advanced.policy, int(np.asarray(advanced.iteration).max()))
                        advanced = without_search(advanced, in_program)
                    if on_host.any():
                        advanced, metrics, evaluation = self._on_host.advance(advanced, on_host, metrics, evaluation)
                    advanced = self.racing.moved_on(states, advanced)
                except Interrupted:  # The chunk is done again when the run is resumed, from the same ids.
                    self._save(states, score)
                    break
                states = advanced
                seconds = time.monotonic() - began - (self.compile_seconds - compiling)
                report = self._log(states, metrics, evaluation, seconds, stages)
                self._refuse_spoiled(states)
                self._refuse_weightless(metrics)
                score = self._compare(states, report.event)
                active = self._active(states).any()
                goes_on = all([callback(report) is not False for callback in self.callbacks])
                if time.monotonic() - saved > SAVE_EVERY_SECONDS or not active or not goes_on or stop.requested:
                    self._save(states, score)
                    saved = time.monotonic()
        finally:
            self._keep_best()  # An error must not cost it, which came before.
        return states, not active

    # ---- Updates ----

    def _advance_chunk(self, states: TrainState) -> tuple[TrainState, Metrics]:
        """`chunk` updates of every seed; metrics have axes (chunk, seeds, ...)."""
        parts, advance = [], self._advance_together if self.experience.together else self._advance_each
        for _ in range(0, self.config.run.chunk, self.experience.most_updates):
            after, metrics = advance(states, self._feed(states))
            states = after.counted_on(states)
            parts.append(metrics)
        return states, parts[0] if len(parts) == 1 else jax.tree.map(lambda *part: np.concatenate(part), *parts)

    def _feed(self, states: TrainState) -> Fed | list[Fed]:
        left = self.stages.left(Stage.MAIN, states)
        counters = Counters(np.asarray(states.iteration), states.totals.episodes.sum(-1), left[:2])
        return self.experience.feed(states.policy, counters, self._divided(states)[1])

    def _advance_together(self, states: TrainState, fed: Fed) -> tuple[TrainState, Metrics]:
        return self._advance(*self._arguments(states), fed)

    def _advance_each(self, states: TrainState, fed: list[Fed]) -> tuple[TrainState, Metrics]:
        """One update, seed by seed. Programs are compiled when the first batch of their size has come."""
        results, arguments = [], members(self._arguments(states), len(fed))
        for own, (left, key, state) in zip(fed, arguments, strict=True):
            if own is None:
                results.append((state, idle(state)))
                continue
            shape, began = own.steps.reward.shape, time.monotonic()
            results.append(jax.block_until_ready(self._update(left, key, state, own)))
            if shape not in self._shapes:
                self._shapes.add(shape)
                self.compile_seconds += time.monotonic() - began
        after, metrics = stack(results)
        return after, jax.tree.map(lambda leaf: leaf[None], metrics)

    def _arguments(self, states: TrainState) -> tuple[Budget, Key, TrainState]:
        """What the program takes besides what is fed."""
        return self.stages.left(Stage.MAIN, states), self.keys, states.from_zero()

    def _advanced(self, left: Budget, keys: Key, states: TrainState, fed: Fed) -> tuple[TrainState, Metrics]:
        step, num_updates = over_seeds(self._one_update), self.experience.most_updates
        return jax.lax.scan(lambda states, fed: step(left, keys, states, fed), states, fed, length=num_updates)

    def _begin_compiling(self, states: TrainState) -> None:
        """Once, while the caller does something else: tracing holds the interpreter, and compiling does not."""
        if self.experience.together and self._ready is None:
            self._began = time.monotonic()
            lowered = self._advance.trace(*self._arguments(states), self._feed(states)).lower()
            pool = ThreadPoolExecutor(1)
            self._ready = pool.submit(lowered.compile)
            pool.shutdown(wait=False)

    def _wait_for_program(self, states: TrainState, stop: StopRequest) -> None:
        """A run that is gone on with begins here: it must not compile a second time in its first chunk."""
        self._begin_compiling(states)
        if self._ready is not None and not self.compile_seconds:
            while not wait([self._ready], LOOK_EVERY_SECONDS).done:
                stop.check()
            self._advance = self._ready.result()
            self.compile_seconds = time.monotonic() - self._began

    def _active(self, states: TrainState) -> np.ndarray:
        return self.stages.now(states) != Stage.OVER

    def _divided(self, states: TrainState) -> tuple[np.ndarray, np.ndarray]:
        """Which seeds are advanced on the host, and which by the compiled program."""
        on_host = self.stages.on_host(states)
        return on_host, (self.stages.now(states) == Stage.MAIN) & ~on_host

    # ---- Telling ----

    def _log(
        self, states: TrainState, metrics: Metrics, evaluation: Evaluation, seconds: float, stages: list[str]
    ) -> Report:
        """One line per chunk: its last update, and the evaluation after it. A seed that has stopped stays as it is."""
        update, metrics = int(np.asarray(states.iteration).max()), jax.tree.map(np.asarray, metrics)
        last = jax.tree.map(lambda leaf: leaf[-1], metrics)
        norms = jax.tree.map(lambda leaf: norm_without_noise(leaf, metrics.active), metrics.diagnostics.gradient)
        columns = {
            "episodes": states.totals.episodes.sum(-1),
            "active": metrics.active.any(0),
            "env_steps": states.env_steps,
            "gradient_theta": norms.theta,
            "gradient_beta": norms.beta,
            "kl": last.diagnostics.kl,
            "entropy": last.diagnostics.regularity.entropy,
            "explained_variance": last.explained_variance,
            "movement": last.movement,
        }
        if self.stages.are_several:
            columns["stage"] = np.asarray(stages)
        if metrics.from_data is not None:
            columns |= jax.tree.map(lambda leaf: leaf.mean(0), metrics.from_data)._asdict()
        event = self._append(update, evaluation, seconds, **columns)
        returns, lengths = (np.asarray(event[name], float) for name in ("returns", "lengths"))
        return Report(update, columns["episodes"], states.env_steps, returns, lengths, event, states.outcome)

    def _append(self, update: int, evaluation: Evaluation, seconds: float, **columns: np.ndarray) -> dict[str, Any]:
        steps = evaluation.skill_steps.sum(1)
        looked = {
            "returns": known_mean(evaluation.returns).round(3),
            "success": known_mean(evaluation.success).round(4),
            "lengths": known_mean(evaluation.lengths, (-1, -2)).round(3),
            "usage": (steps / np.maximum(steps.sum(-1, keepdims=True), 1)).round(4),
        }
        event = {"kind": "update", "update": update, "seconds": round(seconds, 4)}
        event |= {name: values.tolist() for name, values in (columns | looked).items()}
        unseen = np.flatnonzero(np.isnan(np.asarray(evaluation.lengths, float)).all((-1, -2)))
        self._looked = self._repeated(event, looked, unseen) if len(unseen) else event
        self.record.append(self._looked)
        return self._looked

    def _repeated(self, event: dict[str, Any], names: Iterable[str], seeds: np.ndarray) -> dict[str, Any]:
        """A seed that stopped before the run was resumed has played nothing since: what was seen of it last stands."""
        last = self._looked
        if last is None:
            for one in self.record.events():
                if one.get("kind") == "update" and one["update"] < event["update"]:
                    last = one
        for name in names:
            before = (last or {}).get(name)
            if isinstance(before, list) and len(before) == self.config.run.seeds:
                event[name] = [before[i] if i in seeds else value for i, value in enumerate(event[name])]
        return event

    def _compare(self, states: TrainState, event: dict[str, Any]) -> float:
        """The return under mu, over all seeds. Every look is compared, whenever checkpoints are saved: which one is the
        best is a matter of the numbers in the log, and neither of the clock nor of kills."""
        score = weighted_mean(np.asarray(event["returns"], float), self.experience.tasks.shares)
        if score > self._best_score:
            self._best_score, self._better = score, (states, score)
        return score

    def _keep_best(self) -> None:
        """Before the checkpoint: a run that is killed between the two meets the same best again."""
        if self._better is not None:
            states, score = self._better
            self.record.save_best(*self._checkpoint(states, score))
            self._better = None

    def _save(self, states: TrainState, score: float) -> None:
        self._keep_best()
        self.record.save(*self._checkpoint(states, score))

    def _checkpoint(self, states: TrainState, score: float) -> tuple[int, dict[str, np.ndarray], dict[str, Any]]:
        meta = {**belonging(self.config), "score": score if np.isfinite(score) else None}
        return int(np.asarray(states.iteration).max()), to_arrays(states), meta

    def _refuse_spoiled(self, states: TrainState) -> None:
        spoiled = np.flatnonzero(states.spoiled)
        if len(spoiled):
            iteration, seed = int(states.iteration[spoiled[0]]), self.config.run.seed + int(spoiled[0])
            what = f"became nan or infinite at iteration {iteration + 1} of seed {seed}"
            kept = "the update was not applied and the last good checkpoint is kept"
            raise RunError("gradient", what, "nan", f"{kept}; lower the step sizes and resume {self.record.where}")

    def _refuse_weightless(self, metrics: Metrics) -> None:
        """Importance weights that have left nearly all of the data without a say, chunk after chunk."""
        if self.config.learn.learner != "importance":
            return
        ess = float(np.min(np.mean(metrics.from_data.ess, 0)))
        self._num_weightless = self._num_weightless + 1 if ess < WEIGHTLESS else 0
        if self._num_weightless == MOST_WEIGHTLESS:
            what = f"effective sample size below {WEIGHTLESS:.0%} of the steps in {MOST_WEIGHTLESS} successive chunks"
            cure = "raise offline.anchor, use --learner likelihood, or log a behaviour that explores more"
            raise RunError("offline", what, f"{ess:.2%}", cure)


def without_search(states: TrainState, seeds: np.ndarray) -> TrainState:
    """What a learner goes on with is searched anew."""
    if states.search is None:
        return states
    return eqx.tree_at(lambda s: s.search.updates, states, np.where(seeds, np.int32(0), states.search.updates))


def weighted_mean(returns: np.ndarray, shares: np.ndarray) -> float:
    """Of (seeds, tasks), tasks weighted by their shares; over what is known, -infinity where nothing is."""
    known = ~np.isnan(returns)
    weights = known * shares
    return float((np.where(known, returns, 0.0) * weights).sum() / weights.sum()) if known.any() else -np.inf


def norm_without_noise(gradients: np.ndarray, active: np.ndarray) -> np.ndarray:
    """(seeds,): norm of the gradient over a chunk, axes (chunk, seeds, ...), counting only updates that were made.

    The norm of a noisy mean is too large. The inner product of the means of even and of odd updates is an estimate of
    the squared norm without that bias, since their noise is independent. A single update has its own norm.
    """
    made = gradients.reshape(*active.shape, -1) * active[..., None]
    even, odd = (made[i::2].sum(0) / np.maximum(active[i::2].sum(0), 1)[:, None] for i in (0, 1))
    squared = np.where(active.sum(0) > 1, (even * odd).sum(-1), (even * even).sum(-1))
    return np.sqrt(np.maximum(squared, 0.0))
