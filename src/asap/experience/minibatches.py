"""Whole episodes in lanes of one fixed shape: what is played on the host, and minibatches of logged data.

Episodes stand one after the other in a lane; what is left of it is filled with steps that do not count.

A minibatch of a dataset has L lanes of T steps. Episodes of a random order are laid into the first lane until the next
one does not fit, then into the second, and so on. Every pass over the data has its own order, a function of seed and
pass, so the n-th minibatch of a seed is a function of seed and n alone.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import DTypeLike

from asap.base.keys import host_generator
from asap.base.types import EpisodeTotals, Transition
from asap.data.dataset import Dataset
from asap.experience.protocol import Batch, Behaviour
from asap.policy.policy import NO_SKILL

_ORDER = 9  # Stream of the seed's draws on the host.


class Lanes:
    """Where each step stands, of episodes whose lengths are given lane by lane."""

    def __init__(self, lengths: Sequence[Sequence[int]], window: int, count: int):
        self._shape = (count, window)
        self._steps = np.concatenate([lane * window + np.arange(sum(own)) for lane, own in enumerate(lengths)])
        self._ends = self._steps[np.cumsum([*itertools.chain(*lengths)]) - 1]
        self.counts = self._placed(self._steps, np.ones(len(self._steps), bool))

    def steps(self, parts: Sequence[np.ndarray], kind: DTypeLike = None) -> np.ndarray:
        """An array of each episode, with a row for each of its steps; axes (..., T, L)."""
        rows = np.concatenate(parts)
        return self._placed(self._steps, rows if kind is None else rows.astype(kind))

    def ends(self, flags: Sequence[bool]) -> Bool[np.ndarray, "T L"]:
        """The flag of each episode, at its last step."""
        return self._placed(self._ends, np.asarray(flags, bool))

    def _placed(self, where: np.ndarray, rows: np.ndarray) -> np.ndarray:
        grid = np.zeros((math.prod(self._shape), *rows.shape[1:]), rows.dtype)
        grid[where] = rows
        return np.moveaxis(grid.reshape(*self._shape, *rows.shape[1:]), (0, 1), (-1, -2))


class Batches:
    """Where the minibatches of every seed come from: of all episodes, or of some. `merits` has a number for each row of the file,
    or several; without them, all have the same."""

    def __init__(
        self,
        dataset: Dataset,
        lanes: int,
        window: int,
        merits: Float[np.ndarray, "*W rows"] | None = None,
        members: Int[np.ndarray, "E"] | None = None,
    ):
        self.dataset, self.lanes, self.merits = dataset, lanes, merits
        self.members = np.arange(dataset.num_episodes) if members is None else members
        self.window = max(window, dataset.longest)
        self._passes: dict[int, tuple[int, int, list[np.ndarray]]] = {}

    def minibatch(self, seed: int, iteration: int) -> Batch:
        number, first, lanes = self._passes.get(seed, (-1, 0, []))
        if iteration < first:
            number, first, lanes = -1, 0, []
        while iteration - first >= self._count(lanes):
            number, first = number + 1, first + self._count(lanes)
            lanes = self._lanes(seed, number)
            self._passes[seed] = number, first, lanes
        at = (iteration - first) * self.lanes
        return self.fill(lanes[at : at + self.lanes])

    def _count(self, lanes: list[np.ndarray]) -> int:
        return -(-len(lanes) // self.lanes)

    def _lanes(self, seed: int, number: int) -> list[np.ndarray]:
        """The episodes of every lane in one pass."""
        order = host_generator(seed, _ORDER, number).permutation(len(self.members))
        order = self.members[order]
        ends = np.cumsum(self.dataset.episodes.length[order])
        cuts = [0]
        while cuts[-1] < len(order):
            before = ends[cuts[-1] - 1] if cuts[-1] else 0
            cuts.append(int(np.searchsorted(ends, before + self.window, "right")))
        return [order[a:b] for a, b in zip(cuts, cuts[1:])]

    def fill(self, lanes: list[np.ndarray]) -> Batch:
        """These episodes, lane by lane. Data do not tell skills, and are of one task."""
        members = np.concatenate(lanes)
        logged = [self.dataset.read(int(index)) for index in members]
        lengths, success = [len(one.action) for one in logged], self.dataset.episodes.success[members]
        left = iter(lengths)
        at = Lanes([[*itertools.islice(left, len(lane))] for lane in lanes], self.window, self.lanes)
        rows, descriptors = np.concatenate([one.observation for one in logged]), [one.descriptor for one in logged]
        after = np.roll(rows, -1, axis=0)
        after[np.cumsum(lengths) - 1] = [one.final_observation for one in logged]
        unknown, terminated = (
            np.full(at.counts.shape, NO_SKILL, np.int32),
            np.asarray([one.terminated for one in logged]),
        )
        steps = Transition(
            observation=at.steps([rows], np.float32),
            descriptor=at.steps([np.repeat(descriptors, lengths, axis=0)], np.float32),
            previous_skill=unknown,
            skill=unknown,
            action=at.steps([one.action for one in logged], None if logged[0].action.ndim > 1 else np.int32),
            reward=at.steps([one.reward for one in logged], np.float32),
            terminated=at.ends(terminated),
            truncated=at.ends(~terminated),
            next_observation=at.steps([after], np.float32),
            counts=at.counts,
            elapsed=at.steps([np.arange(length, dtype=np.int32) for length in lengths]),
        )
        log_prob = at.steps([one.behaviour_log_prob for one in logged], np.float32)
        rows = zip(self.dataset.episodes.start[members].tolist(), lengths)
        ones = [np.ones(length, np.float32) for length in lengths]
        merits = ones if self.merits is None else [self.merits[..., start : start + length].T for start, length in rows]
        behaviour = Behaviour(log_prob, at.steps(merits))
        num_steps, returns = np.int32([sum(lengths)]), steps.reward.sum(keepdims=True).ravel()
        totals = EpisodeTotals(np.int32([len(logged)]), returns, np.int32([success.sum()]), num_steps)
        return Batch(totals, num_steps[0], steps, behaviour)
