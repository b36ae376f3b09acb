"""The choices of many episodes side by side, in NumPy: the same bits as `asap.policy.host` gives for each alone.

Sums run over the inputs in their order, as they do there. Within a lane nothing but multiplications and additions of
float64 happens, each of them rounded as Python rounds it. So it does not matter which episodes are in the other lanes.
"""

import numpy as np
from jaxtyping import Float, Int

from asap.policy.host import BLOCK, Player, TaskPolicy


class LanePlayer:
    """Chooses skill and action of every lane; `suits` says for which policies."""

    def __init__(self, player: Player, num_lanes: int, deterministic: bool, task: int = 0):
        policy = player.policy_of(task)
        assert suits(policy, player), "this policy chooses one by one"
        self._player, self._deterministic = player, deterministic
        planes, skills = policy.margins, policy.scores
        self._plane_bias = planes.bias[:, None]
        self._plane_slopes = [planes.slopes[:, [i]] for i in range(planes.slopes.shape[1])]
        # Axes (A, S), so that a skill per lane takes (A, L).
        self._score_bias = np.stack([each.bias for each in skills], axis=1)
        slopes = np.stack([each.slopes for each in skills], axis=-1)
        self._score_slopes = [np.ascontiguousarray(slopes[:, i]) for i in range(slopes.shape[1])]
        # The step t of the group has row t % BLOCK; a lane's block begins where its episode began.
        self._sides = np.zeros((BLOCK, player.num_planes, num_lanes))
        self._noise = np.zeros((BLOCK, player.num_scores, num_lanes))
        self._generators: list[np.random.Generator | None] = [None] * num_lanes
        self._due: dict[int, list[tuple[int, np.random.Generator]]] = {}

    def begin(self, lane: int, now: int, generator: np.random.Generator) -> None:
        """An episode in a lane, from the group's step `now` on."""
        self._generators[lane] = generator
        if not self._deterministic:
            self._draw(lane, now, generator)

    def choose(self, now: int, x: Float[np.ndarray, "L O"]) -> tuple[Int[np.ndarray, "L"], Int[np.ndarray, "L"]]:
        """Skills and actions; of lanes without an episode, any."""
        for lane, generator in self._due.pop(now, ()):
            if self._generators[lane] is generator:  # The episode still runs.
                self._draw(lane, now, generator)
        numbers, row = x.T.astype(float), now % BLOCK
        margins = self._plane_bias
        for slopes, number in zip(self._plane_slopes, numbers):
            margins = margins + slopes * number
        above = margins > self._sides[row]
        skill = np.zeros(len(x), np.intp)
        for k in range(len(above)):
            skill += above[k].astype(np.intp) << k
        if self._player.shared is not None:
            skill = self._player.shared[skill]
        scores = self._score_bias.take(skill, axis=1)
        for slopes, number in zip(self._score_slopes, numbers):
            scores += slopes.take(skill, axis=1) * number
        return skill, (scores + self._noise[row]).argmax(0)

    def _draw(self, lane: int, now: int, generator: np.random.Generator) -> None:
        rows = (now + np.arange(BLOCK)) % BLOCK
        self._sides[rows, :, lane], self._noise[rows, :, lane] = self._player.draws(generator)
        self._due.setdefault(now + BLOCK, []).append((lane, generator))


def suits(policy: TaskPolicy, player: Player) -> bool:
    """Whether its choices can be made side by side: it is linear in a few numbers, and its actions are discrete."""
    return policy.few is not None and player.deviations is None
