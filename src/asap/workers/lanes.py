"""Episodes of one chunk, played side by side in the lanes of a vector form.

An episode has the bits that it has when it is played alone, whichever episodes are beside it. Checks run over whole
episodes, when they have ended. The vector form raises `Unsuited` at the first thing that is odd; then the chunk is played
one by one, which says what was wrong, and where.
"""

from collections.abc import Callable

import numpy as np

from asap.base.episodes import Played
from asap.envs.gymnasium.checked_env import LARGE, cut_note
from asap.envs.gymnasium.observations import SURELY
from asap.envs.gymnasium.spaces import bounds
from asap.envs.gymnasium.vector_form import LANES, Unsuited, VectorForm
from asap.policy.host import Player
from asap.policy.lanes import LanePlayer
from asap.workers.episode import nobody_watches
from asap.workers.work import Finished, Work

ROOM = 512  # Steps of a group before its arrays grow.


def play_side_by_side(
    form: VectorForm, player: Player, work: Work, watch: Callable[[int, int], None] = nobody_watches
) -> Finished:
    """All episodes of a chunk, which are of one task."""
    with form.kept_apart(), np.errstate(all="ignore"):
        return _Group(form, player, work, watch).play()


class _Group:
    """Lanes take one episode after the other, in the order of the chunk."""

    def __init__(self, form: VectorForm, player: Player, work: Work, watch: Callable[[int, int], None]):
        self._form, self._work, self._watch = form, work, watch
        self._player = LanePlayer(player, LANES, work.deterministic, work.episodes[0].task)
        self._low, self._high = bounds(form.observation_space)
        self._limit, self._scale = form.time_limit, float(form.limits.reward_scale)
        self._seen = np.zeros((ROOM + 1, LANES, len(self._low)), np.float32)
        self._rewards = np.zeros((ROOM, LANES))
        self._skills, self._actions = np.zeros((2, ROOM, LANES), np.int32)
        self._now, self._waiting = 0, iter(range(len(work.episodes)))
        self._running: dict[int, tuple[int, int]] = {}  # By lane: index of the episode, and when it began.
        self._is_running = np.zeros(LANES, bool)
        self._played: dict[int, Played] = {}

    def play(self) -> Finished:
        for lane in range(LANES):
            self._begin(lane)
        while self._running:
            self._step()
        return Finished(self._work.number, tuple(self._played[index] for index in range(len(self._work.episodes))))

    def _begin(self, lane: int) -> None:
        """The next episode that waits, if there is one."""
        index = next(self._waiting, None)
        if index is not None:
            episode = self._work.episodes[index]
            self._watch(index, 0)
            self._seen[self._now, lane] = self._form.begin(lane, episode.reset_seed)
            self._player.begin(lane, self._now, episode.choices())
            self._running[lane] = index, self._now
        self._is_running[lane] = index is not None
        # Of the episodes that run: the first by its index is the one that is shown; the oldest is cut next.
        self._shown = min(self._running.values(), default=(0, 0))
        self._oldest = min((began for _, began in self._running.values()), default=0)

    def _step(self) -> None:
        now = self._now
        if now == len(self._rewards):
            self._grow()
        self._skills[now], actions = self._player.choose(now, self._seen[now])
        self._actions[now] = actions
        self._watch(self._shown[0], now - self._shown[1] + 1)
        observations, self._rewards[now], terminated, truncated = self._form.step(actions)
        self._now = now = now + 1
        self._seen[now] = observations
        ended = (terminated | truncated) & self._is_running
        if now - self._oldest >= self._limit:
            for lane, (_, began) in self._running.items():
                ended[lane] |= now - began >= self._limit
        if np.count_nonzero(ended):
            for lane in np.flatnonzero(ended).tolist():
                self._end(lane, bool(terminated[lane]), bool(truncated[lane]))
                self._begin(lane)

    def _end(self, lane: int, terminated: bool, truncated: bool) -> None:
        index, began = self._running.pop(lane)
        steps = slice(began, self._now)
        seen = self._seen[began : self._now + 1, lane].copy()
        rewards = self._rewards[steps, lane] * self._scale
        is_inside = (np.abs(seen) < SURELY).all() and ((seen >= self._low) & (seen <= self._high)).all()
        if not (is_inside and (np.abs(rewards) < LARGE).all()):
            raise Unsuited("it gave numbers that are outside of their bounds, or not finite")
        chosen = (each[steps, lane].copy() for each in (self._skills, self._actions))
        notes = () if terminated or truncated else (cut_note(self._limit),)
        steps = seen, *chosen, rewards.astype(np.float32)
        self._played[index] = Played(self._work.episodes[index], *steps, terminated, None, notes)

    def _grow(self) -> None:
        arrays = self._seen, self._skills, self._actions, self._rewards
        more = (np.concatenate([array, np.zeros_like(array[: self._now])]) for array in arrays)
        self._seen, self._skills, self._actions, self._rewards = more
