"""Games of soccer to be looked at: several are played at once, and one is chosen by a rule."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import compiled
from asap.base.keys import Key, fold, root
from asap.envs.core import CompiledTasks, Outcome
from asap.envs.soccer.half_field import GOAL, IN_GAME, STATUS_NAMES, Match
from asap.envs.soccer.vectors import Vector
from asap.experience.rollout import Moment, fresh_episodes, play
from asap.policy.policy import ASAPPolicy
from asap.show.figures.backgrounds import PlacedTask

_GAME = 12  # Stream of the seed's key; smaller ones are taken.
NUM_GAMES = 8
MOST_CYCLES = 300


class Game(NamedTuple):
    """One game: places at its start and after each of T cycles, in metres, and the skill of each cycle."""

    ball: Float[np.ndarray, "T+1 2"]
    players: Float[np.ndarray, "P T+1 2"]  # Striker, goalkeeper, defenders.
    skills: Int[np.ndarray, "T"]
    status: int  # As in STATUS_NAMES.

    @property
    def cycles(self) -> int:
        return len(self.skills)

    @property
    def status_name(self) -> str:
        return STATUS_NAMES[self.status]

    @property
    def passes_defender(self) -> int | None:
        """The first cycle with the ball nearer to the goal line than the first defender, having been behind; None if
        never."""
        if len(self.players) < 3:
            return None
        ahead = self.ball[:, 0] > self.players[2, :, 0]
        moments = np.flatnonzero(ahead[1:] & ~ahead[:-1])
        return int(moments[0]) + 1 if len(moments) else None


class Cycle(NamedTuple):
    """The skill in force, and what the cycle led to. Behind the end of a game the next one is played, unseen."""

    skill: Int[Array, ""]
    state: Match
    ended: Bool[Array, ""]


class Cycles(NamedTuple):
    """Stacks the cycles of all games, and gathers nothing."""

    def start(self, moment: Moment) -> tuple[()]:
        return ()

    def add(
        self, gathered: tuple[()], before: Moment, outcome: Outcome, step: Int[Array, ""]
    ) -> tuple[tuple[()], Cycle]:
        return (), Cycle(before.skill, outcome.next_state, outcome.terminated | outcome.truncated)


def play_game(policy: ASAPPolicy, task: PlacedTask, seed: int) -> Game:
    """The game to show of this seed."""
    games = play_games(policy, task, seed)
    return games[game_to_show(np.asarray([game.status for game in games]))]


def play_games(policy: ASAPPolicy, task: PlacedTask, seed: int) -> list[Game]:
    """All NUM_GAMES games of this seed."""
    tasks = CompiledTasks.of(task.env, {task.name: task.task})
    starts, cycles = jax.tree.map(np.asarray, _play(policy, tasks, fold(root(seed), _GAME)))
    lengths = np.where(cycles.ended.any(0), cycles.ended.argmax(0) + 1, MOST_CYCLES)
    return [_game(starts, cycles, which, lengths[which]) for which in range(NUM_GAMES)]


def game_to_show(status: Int[np.ndarray, "G"]) -> int:
    """The first game with a goal; if there is none, the first that ended; if none did, the first."""
    return int(np.argmax(np.where(status == GOAL, 2, status != IN_GAME)))


def _game(starts: Match, cycles: Cycle, which: int, length: int) -> Game:
    def path(first: Vector, later: Vector) -> np.ndarray:
        return np.stack([np.append(a[which], b[:length, which]) for a, b in zip(first, later)], -1)

    worlds = starts.world, cycles.state.world
    ball = path(*(world.ball.position for world in worlds))
    players = [path(*(player.position for player in pair)) for pair in zip(*(world.players for world in worlds))]
    status = int(cycles.state.status[length - 1, which])
    return Game(ball, np.stack(players), cycles.skill[:length, which], status)


def _play_all(policy: ASAPPolicy, tasks: CompiledTasks, key: Key) -> tuple[Match, Cycle]:
    """The starts of all games and their cycles: axes (games,) and (cycles, games)."""
    keys, moment = fresh_episodes(tasks, policy, key, jnp.arange(NUM_GAMES))
    return moment.lane.episode.state, play(tasks, policy, keys, moment, Cycles(), MOST_CYCLES)[2]


_play = compiled(_play_all)
