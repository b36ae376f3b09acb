"""Minibatches of whole episodes in one fixed shape, read from a dataset as they are needed.

A minibatch has L lanes of T steps. Episodes of a random order are laid into the first lane until the next one does not
fit, then into the second, and so on; what is left of a lane is filled with steps that do not count. Every pass over the
data has its own order, a function of seed and pass, so the n-th minibatch of a seed is a function of seed and n alone.
"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import host_generator
from asap.data.dataset import Dataset

_ORDER = 9  # Stream of the seed's draws on the host.


class Minibatch(NamedTuple):
    """Lanes come first, as they are read; `counted` tells the steps of episodes from the filling."""

    observation: Float[Array, "*batch L T O"]
    next_observation: Float[Array, "*batch L T O"]
    descriptor: Float[Array, "*batch L T Z"]
    action: Int[Array, "*batch L T"]
    reward: Float[Array, "*batch L T"]
    terminated: Bool[Array, "*batch L T"]
    truncated: Bool[Array, "*batch L T"]
    success: Bool[Array, "*batch L T"]  # On the last step of an episode.
    behaviour_log_prob: Float[Array, "*batch L T"]
    merit: Float[Array, "*batch L T"]  # Of the step's episode, see `asap.experience.logged.merits`.
    counted: Bool[Array, "*batch L T"]


class Batches:
    """Where the minibatches of every seed come from."""

    def __init__(self, dataset: Dataset, lanes: int, window: int, merits: Float[np.ndarray, "E"]):
        self.dataset, self.lanes, self.merits = dataset, lanes, merits
        self.window = max(window, dataset.longest)
        self._passes: dict[int, tuple[int, int, list[np.ndarray]]] = {}

    def feed(self, seeds: range, iterations: np.ndarray, count: int) -> Minibatch:
        """The next `count` minibatches of every seed; leaves have axes (count, seeds, ...)."""
        found = [
            self.minibatch(seed, int(at) + n) for n in range(count) for seed, at in zip(seeds, iterations, strict=True)
        ]
        return jax.tree.map(lambda *leaves: np.stack(leaves).reshape(count, len(seeds), *leaves[0].shape), *found)

    def minibatch(self, seed: int, iteration: int) -> Minibatch:
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
        order = host_generator(seed, _ORDER, number).permutation(self.dataset.num_episodes)
        ends = np.cumsum(self.dataset.episodes.length[order])
        cuts = [0]
        while cuts[-1] < len(order):
            before = ends[cuts[-1] - 1] if cuts[-1] else 0
            cuts.append(int(np.searchsorted(ends, before + self.window, "right")))
        return [order[a:b] for a, b in zip(cuts, cuts[1:])]

    def fill(self, lanes: list[np.ndarray]) -> Minibatch:
        """These episodes, lane by lane."""
        shape, layout = (self.lanes, self.window), self.dataset.layout
        flat, off = np.zeros(shape, np.float32), np.zeros(shape, bool)
        observation = np.zeros((*shape, layout.num_observations), np.float32)
        blank = Minibatch(
            observation, observation.copy(), np.zeros((*shape, len(layout.descriptor)), np.float32),
            np.zeros(shape, np.int32), flat, off, off.copy(), off.copy(), flat.copy(), flat.copy(), off.copy(),
        )  # fmt: skip
        for lane, members in enumerate(lanes):
            at = 0
            for index in members:
                at = self._lay(blank, lane, at, int(index))
        return blank

    def _lay(self, into: Minibatch, lane: int, at: int, index: int) -> int:
        """One episode into its place; gives where the next one begins."""
        logged = self.dataset.read(index)
        end = at + len(logged.action)
        here, last = (lane, slice(at, end)), (lane, end - 1)
        for name in ("observation", "descriptor", "action", "reward", "behaviour_log_prob"):
            getattr(into, name)[here] = getattr(logged, name)
        into.next_observation[lane, at : end - 1] = logged.observation[1:]
        into.next_observation[last] = logged.final_observation
        into.merit[here], into.counted[here] = self.merits[index], True
        into.terminated[last], into.truncated[last] = logged.terminated, not logged.terminated
        into.success[last] = self.dataset.episodes.success[index]
        return end
