"""Pinball (Konidaris and Barto, 2009): a ball among obstacles, which five actions push or let roll.

The rules, rewards and boards are those of the package pynball-rl, in which a step takes 0.3 ms; here it is compiled, and the package
gives the board. A push adds 0.2 to the velocity on an axis. A step is 20 moves; after each, a ball that meets one edge is reflected,
and one that meets several turns back. A step costs 1, with a push 5, and pays 10,000 where it reaches the goal. A random player
reaches it once in about 4,000 steps on the easy board.
"""

import dataclasses
import importlib.resources
import importlib.util
import tomllib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key, uniforms
from asap.base.spec import Spec, TaskSet
from asap.base.types import Timestep
from asap.envs import catalog
from asap.envs.core import Env

INSTALL = "pip install pynball-rl"
MOVES = 20  # Of a step.
PUSH, DRAG = 0.2, 0.995
PUSHES = np.float32([[PUSH, 0], [0, PUSH], [-PUSH, 0], [0, -PUSH], [0, 0]])
COSTS = np.float32([5, 5, 5, 5, 1])
GOAL_REWARD = 10_000.0


def is_installed() -> bool:
    return importlib.util.find_spec("pynball_rl") is not None


class Board(NamedTuple):
    """The task. Edges of all obstacles in one list; parallel ones of one obstacle count as one where the ball meets both."""

    starts: Float[Array, "S 2"]
    goal: Float[Array, "2"]
    goal_radius: Float[Array, ""]
    radius: Float[Array, ""]  # Of the ball.
    corners: Float[Array, "E 2"]  # Where edges begin,
    edges: Float[Array, "E 2"]  # and how they go on from there.
    obstacle: Int[Array, "E"]
    is_parallel: Bool[Array, "E E"]

    @classmethod
    def read(cls, name: str) -> "Board":
        """From the package: very_easy, easy or hard."""
        file = importlib.resources.files("pynball_rl.configs") / f"{name}_config.toml"
        board = tomllib.loads(file.read_text())
        polygons = [np.asarray(obstacle["points"]) for obstacle in board["obstacles"]]
        corners = np.concatenate(polygons)
        edges = np.concatenate([np.roll(polygon, 1, 0) for polygon in polygons]) - corners
        obstacle = np.repeat(np.arange(len(polygons)), list(map(len, polygons)))
        is_parallel = edges[:, None, 0] * edges[None, :, 1] == edges[:, None, 1] * edges[None, :, 0]
        of_ball, goal = board["ball"], board["target"]
        places = map(np.float32, (of_ball["starts"], goal["location"], goal["radius"], of_ball["radius"]))
        return cls(*places, np.float32(corners), np.float32(edges), np.int32(obstacle), is_parallel)


class RollingBall(NamedTuple):
    position: Float[Array, "2"]
    velocity: Float[Array, "2"]
    at_goal: Bool[Array, ""]


class Pinball(Env):
    rewards = (("goal", GOAL_REWARD), ("step with a push", -5.0), ("step without", -1.0))
    spec = Spec(
        observation_names=("x", "y", "x velocity", "y velocity"),
        observation_low=(0.0, 0.0, -1.0, -1.0),
        observation_high=(1.0, 1.0, 1.0, 1.0),
        action_names=("push right", "push down", "push left", "push up", "roll"),
        horizon=2000,
        discount=0.99,
    )

    def reset(self, key: Key, task: Board) -> RollingBall:
        which = (uniforms(key)[0] * len(task.starts)).astype(jnp.int32)
        return RollingBall(task.starts[which], jnp.zeros(2), jnp.array(False))

    def noise(self, key: Key) -> tuple[()]:
        return ()

    def transition(self, noise: tuple[()], state: RollingBall, action: Int[Array, ""], task: Board) -> Timestep:
        pushed = jnp.clip(state.velocity + jnp.asarray(PUSHES)[action], -1.0, 1.0)
        ball = state._replace(velocity=pushed, at_goal=jnp.array(False))
        ball = jax.lax.fori_loop(0, MOVES, lambda number, ball: moved(ball, number == MOVES - 1, task), ball)
        position = jnp.clip(ball.position, 0.0, 1.0)
        reward = GOAL_REWARD * ball.at_goal - jnp.asarray(COSTS)[action]
        return Timestep(RollingBall(position, DRAG * ball.velocity, ball.at_goal), reward, ball.at_goal, ball.at_goal)

    def observe(self, state: RollingBall, task: Board) -> Float[Array, "4"]:
        return jnp.concatenate([state.position, state.velocity])

    def descriptor(self, task: Board) -> Float[Array, "2"]:
        return task.goal


def moved(ball: RollingBall, is_last: Bool[Array, ""], board: Board) -> RollingBall:
    """A twentieth of a step; a ball at the goal stays there. After a reflection in the last one it moves once more."""
    at, velocity = ball.position + ball.velocity * board.radius / MOVES, ball.velocity
    met = meets(at, velocity, board)
    first = met.argmax()
    is_one = (met & (board.obstacle != board.obstacle[first])).sum() == 0
    turns = ~is_one | (met & ~board.is_parallel[first]).any()
    x, y = board.edges[first]
    normal = jnp.stack([y, -x]) / jnp.hypot(x, y)
    reflected = velocity - 2 * (velocity @ normal) * normal
    after = jnp.where(met.any(), jnp.where(turns, -velocity, reflected), velocity)
    at = jnp.where(met.any() & is_one & is_last, at + after * board.radius / MOVES, at)
    at_goal = jnp.hypot(*(at - board.goal)) < board.goal_radius + board.radius
    return jax.tree.map(lambda old, new: jnp.where(ball.at_goal, old, new), ball, RollingBall(at, after, at_goal))


def meets(at: Float[Array, "2"], velocity: Float[Array, "2"], board: Board) -> Bool[Array, "E"]:
    """The edges that the ball's rim crosses and that it heads for: |corner + t edge - at| = radius for a t from 0 to 1."""
    (x, y), (away_x, away_y) = board.edges.T, (board.corners - at).T
    a, b = x**2 + y**2, x * away_x + y * away_y
    inside = b**2 - a * (away_x**2 + away_y**2 - board.radius**2)
    root = jnp.sqrt(jnp.maximum(inside, 0.0))
    crosses = [(t >= 0) & (t <= 1) for t in ((-b - root) / a, (-b + root) / a)]
    across = velocity[0] * y - velocity[1] * x
    heads = (away_x * y - away_y * x) * across > 0  # Of one sign, so that the quotient is positive.
    return (inside >= 0) & (crosses[0] | crosses[1]) & (heads | (velocity == 0).all())


def pinball(board: str = "easy") -> TaskSet:
    names = Pinball.spec.observation_names
    made = {"name": f"pinball {board}", "env": Pinball(), "task": Board.read(board), "inputs": names}
    return TaskSet((dataclasses.replace(catalog.find("two-rooms"), **made),), (1.0,))
