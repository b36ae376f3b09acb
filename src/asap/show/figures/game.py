"""Games of soccer to be looked at: several are played at once, and one is chosen by a rule."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.arrays import compiled, pick
from asap.base.keys import Key, fold, root, uniforms
from asap.envs.controllers import Probabilities
from asap.envs.soccer.half_field import GOAL, IN_GAME, STATUS_NAMES, Match, Striker, StrikerTask
from asap.envs.soccer.vectors import Vector
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.show.figures.backgrounds import PlacedTask

_GAME = 12  # Stream of the seed's key; smaller ones are taken.
_RESET, _STEP, _CHOICE = range(3)
NUM_GAMES = 8
MOST_CYCLES = 300


class Controlled(eqx.Module):
    """A controller as a player: what it does is all the skill it has."""

    probabilities: Probabilities = eqx.field(static=True)

    def sample(
        self, key: Key, x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]
    ) -> tuple[Int[Array, ""], Int[Array, ""]]:
        action = pick(uniforms(key)[0], self.probabilities(x))
        return action, action


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
        """The first cycle with the ball nearer to the goal line than the first defender, having been behind; None if never."""
        if len(self.players) < 3:
            return None
        ahead = self.ball[:, 0] > self.players[2, :, 0]
        moments = np.flatnonzero(ahead[1:] & ~ahead[:-1])
        return int(moments[0]) + 1 if len(moments) else None


class Cycle(NamedTuple):
    """The skill in force, and what the cycle led to. A game goes on behind its end, unseen."""

    skill: Int[Array, ""]
    state: Match


def play_game(player: ASAPPolicy | Controlled, task: PlacedTask, seed: int) -> Game:
    """The game to show of this seed."""
    games = play_games(player, task, seed)
    return games[game_to_show(np.asarray([game.status for game in games]))]


def play_games(player: ASAPPolicy | Controlled, task: PlacedTask, seed: int) -> list[Game]:
    """All NUM_GAMES games of this seed."""
    played = _play(player, task.env, task.task, fold(root(seed), _GAME))
    starts, cycles = jax.tree.map(np.asarray, played)
    ended = cycles.state.status != IN_GAME
    lengths = np.where(ended.any(-1), ended.argmax(-1) + 1, MOST_CYCLES)
    status = np.take_along_axis(cycles.state.status, lengths[:, None] - 1, -1)[:, 0]

    def game(which: int) -> Game:
        start, states = (jax.tree.map(lambda leaf: leaf[which], states) for states in (starts, cycles.state))
        return _game(start, states, cycles.skill[which], int(lengths[which]), int(status[which]))

    return [game(which) for which in range(NUM_GAMES)]


def game_to_show(status: Int[np.ndarray, "G"]) -> int:
    """The first game with a goal; if there is none, the first that ended; if none did, the first."""
    return int(np.argmax(np.where(status == GOAL, 2, status != IN_GAME)))


def _game(start: Match, states: Match, skills: np.ndarray, length: int, status: int) -> Game:
    def path(first: Vector, later: Vector) -> np.ndarray:
        return np.stack([np.append(a, b[:length]) for a, b in zip(first, later)], -1)

    players = zip(start.world.players, states.world.players)
    return Game(
        ball=path(start.world.ball.position, states.world.ball.position),
        players=np.stack([path(first.position, later.position) for first, later in players]),
        skills=skills[:length],
        status=status,
    )


def _play_all(player: ASAPPolicy | Controlled, env: Striker, task: StrikerTask, key: Key) -> tuple[Match, Cycle]:
    """The starts of all games and their cycles: axes (games,) and (games, cycles)."""
    m = env.descriptor(task)

    def one_game(number: Int[Array, ""]) -> tuple[Match, Cycle]:
        own = fold(key, number)

        def one_cycle(
            carry: tuple[Match, Int[Array, ""]], t: Int[Array, ""]
        ) -> tuple[tuple[Match, Int[Array, ""]], Cycle]:
            state, previous = carry
            skill, action = player.sample(fold(own, t, _CHOICE), env.observe(state, task), m, previous)
            after = env.step(fold(own, t, _STEP), state, action, task).state
            return (after, skill), Cycle(skill, after)

        start = env.reset(fold(own, 0, _RESET), task)
        return start, jax.lax.scan(one_cycle, (start, jnp.int32(NO_SKILL)), jnp.arange(MOST_CYCLES))[1]

    return jax.vmap(one_game)(jnp.arange(NUM_GAMES))


_play = compiled(_play_all)
