"""Updates that are made on the host, seed by seed: those of a search, and the pick. What was played for them is what the curve shows."""

import jax
import numpy as np
from jaxtyping import Bool

from asap.base.arrays import member, stack
from asap.config.schema import Config
from asap.experience.logged import nothing_seen
from asap.experience.protocol import Evaluation, Experience
from asap.learn.ars import FROM_ZERO, Rule, begun, is_begun, search_update
from asap.learn.pick import decide, pick
from asap.learn.stages import Stage, Stages
from asap.learn.state import Metrics, TrainState, idle
from asap.runs.events import Record


class OnTheHost:
    """Advances the seeds that no compiled program advances now."""

    def __init__(self, config: Config, experience: Experience, record: Record, stages: Stages):
        self.config, self.experience, self.record, self.stages = config, experience, record, stages

    def advance(
        self, states: TrainState, which: Bool[np.ndarray, "seeds"], metrics: Metrics | None, seen: Evaluation | None
    ) -> tuple[TrainState, Metrics, Evaluation]:
        """A chunk of updates of these seeds; metrics and episodes of the others are handed on, where there are any."""
        num_seeds = self.config.run.seeds
        each = [member(states, index) for index in range(num_seeds)]
        if metrics is None or seen is None:
            chunk = [stack([idle(state) for state in each])] * self.config.run.chunk
            metrics, seen = stack(chunk), nothing_seen(num_seeds, self.experience.tasks.size, states.policy.num_skills)
        told, rows = {}, {}
        for index in np.flatnonzero(which).tolist():
            each[index], told[index], rows[index] = self._chunk(index, each[index])
        return stack(each), with_columns(metrics, told), with_rows(seen, rows)

    def _chunk(self, index: int, state: TrainState) -> tuple[TrainState, Metrics, Evaluation]:
        """Of one seed. What is shown is what its last update has played."""
        parts, played = [], None
        for _ in range(self.config.run.chunk):
            if not self.stages.on_host(state) or not min(self._left(state)):
                parts.append(idle(state))
                continue
            state, told, played = self._update(index, state)
            parts.append(told)
        return state, stack(parts), of_one_seed(played)

    def _left(self, state: TrainState) -> tuple[int, int]:
        """Of the stage, or of the heat of a race."""
        episodes, steps = self.stages.left(int(self.stages.now(state)), state)[:2]
        return int(episodes), int(steps)

    def _update(self, index: int, state: TrainState) -> tuple[TrainState, Metrics, Evaluation]:
        seed, stage, left = self.config.run.seed + index, int(self.stages.now(state)), self._left(state)
        made = idle(state)._replace(active=np.ones((), bool))
        if stage == Stage.PICK:
            picked = pick(self.config, self.experience, seed, state, left)
            event = {"kind": "pick", "seed": seed, "chosen": picked.chosen}
            self.record.append(event | {"returns": picked.returns, "episodes": picked.episodes})
            return picked.state, made, picked.played
        if self.stages.racing.is_deciding(state):
            after, played = decide(self.config, self.experience, self.stages.racing, seed, state, left)
            return after, made, played
        progress = self.stages.progress(stage, state)
        rule = FROM_ZERO if stage == Stage.MAIN and state.race is not None else Rule.of(self.config.learn, state.tied)
        state = state if is_begun(state, stage == Stage.FINISH) else begun(state, stage == Stage.FINISH)
        found = search_update(self.config, self.experience, seed, state, left, rule, progress)
        told = made._replace(diagnostics=made.diagnostics._replace(gradient=found.estimate))
        return found.state, told, found.played


def with_columns(metrics: Metrics, columns: dict[int, Metrics]) -> Metrics:
    """Metrics with axes (chunk, seeds, ...), and those of some seeds in their place."""

    def replaced(everyone: np.ndarray, *own: np.ndarray) -> np.ndarray:
        values = np.array(everyone)
        for seed, column in zip(columns, own):
            values[:, seed] = column
        return values

    return jax.tree.map(replaced, metrics, *columns.values())


def of_one_seed(played: Evaluation) -> Evaluation:
    """Episodes of several policies, as those of one seed."""

    def flat(values: np.ndarray) -> np.ndarray:
        return np.moveaxis(values, 0, -2).reshape(1, values.shape[1], -1)

    steps = (counts.sum(0, keepdims=True) for counts in (played.skill_steps, played.skill_starts))
    return Evaluation(*map(flat, played[:4]), *steps)


def with_rows(all_seeds: Evaluation, rows: dict[int, Evaluation]) -> Evaluation:
    """What was seen of some seeds, in place of what is there; what is missing is NaN."""
    size = max(part.returns.shape[-1] for part in (all_seeds, *rows.values()))

    def padded(values: np.ndarray) -> np.ndarray:
        missing = np.full((*values.shape[:-1], size - values.shape[-1]), np.nan)
        return np.concatenate([values, missing], -1)

    def replaced(index: int, widen) -> np.ndarray:
        values = widen(np.array(all_seeds[index]))
        for seed, row in rows.items():
            values[seed] = widen(np.asarray(row[index]))[0]
        return values

    return Evaluation(*(replaced(i, padded) for i in range(4)), *(replaced(i, np.asarray) for i in (4, 5)))
