"""The striker tasks on half a field: R1 against a goalkeeper, R2 with one defender more, R3 with two.

Starts, ends and status codes are those of HFO. The paper gives the signs of the rewards, not their sizes; `Rewards` has
ours. All that a family of tasks may vary (speed of the goalkeeper, where the ball and the defenders start, how well the
striker sees) is in the task, a pytree.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key, many_uniforms
from asap.base.spec import Spec, Unit
from asap.base.types import Timestep
from asap.envs.core import Env
from asap.envs.soccer import opponents, striker
from asap.envs.soccer import vectors as c
from asap.envs.soccer.physics import Ball, Body, Command, Noise, PlayerNoise, Polar, World, rested, step
from asap.envs.soccer.prediction import Runner, meet
from asap.envs.soccer.vectors import Scalar, Vector

IN_GAME, GOAL, CAPTURED, OUT_OF_BOUNDS, OUT_OF_TIME = range(5)
STATUS_NAMES = ("in game", "goal", "captured by the defence", "out of bounds", "out of time")

UNTOUCHED_CYCLES = 100
TRIAL_CYCLES = 1000
CAPTURE_CYCLES = 2
HALF_WIDTH_OF_STARTS = 27.2
STRIKER_OFFSETS = ((-1, -1), (-1, 1), (1, 1), (1, -1), (0, 2), (0, -2), (-2, -2), (-2, 2), (2, 2), (2, -2))
OFFSET = 10.5
MARGIN = 5.25  # Around the half field, where places still are normalised.
NORMALISED_HALF_LENGTH, NORMALISED_HALF_WIDTH = 31.5, 37.4
LENGTH, WIDTH = Unit("m", NORMALISED_HALF_LENGTH, NORMALISED_HALF_LENGTH - MARGIN), Unit("m", NORMALISED_HALF_WIDTH)

# What the striker does, by its body, the ball and the opponents as it sees them.
CommandOf = Callable[[Body, Ball, tuple[striker.Opponent, ...]], Command]


class Rewards(NamedTuple):
    """Signs from the paper, sizes ours. A kick pays when it is given, an end when it comes.

    A loss must cost so little that playing on is worth more than keeping the ball for ever, also on R3, where one game in
    four is won. The same holds for what a dribble pays.
    """

    goal: float = 1.0
    captured: float = -0.2
    out_of_bounds: float = -0.2
    out_of_time: float = -0.2
    shot_inside_box: float = 0.001
    shot_outside_box: float = -0.001
    dribble_inside_box: float = -0.001
    dribble_outside_box: float = 0.001


class StrikerTask(NamedTuple):
    """What may differ between tasks of one family."""

    goalkeeper_speed: Float[Array, ""]  # Factor on the power of its dashes.
    ball_low: Float[Array, "2"]
    ball_high: Float[Array, "2"]
    defender_low: Float[Array, "2"]
    defender_high: Float[Array, "2"]
    perception: Float[Array, ""]  # Largest error of a place as a player sees it, as a part of the distance.


def standard_task() -> StrikerTask:
    return StrikerTask(
        goalkeeper_speed=np.float32(0.97),
        ball_low=np.float32([0.0, -HALF_WIDTH_OF_STARTS]),
        ball_high=np.float32([10.5, HALF_WIDTH_OF_STARTS]),
        defender_low=np.float32([42.0, -HALF_WIDTH_OF_STARTS]),
        defender_high=np.float32([52.5, HALF_WIDTH_OF_STARTS]),
        perception=np.float32(0.1),
    )


class Match(NamedTuple):
    """Striker, goalkeeper and defenders in this order, and what the referee remembers."""

    world: World
    take_time: Int[Array, ""]
    untouched: Int[Array, ""]
    was_out: Bool[Array, ""]
    status: Int[Array, ""]


class Dice(NamedTuple):
    """All random numbers of one cycle."""

    physics: Noise
    sight: tuple[Polar, ...]  # Of each opponent, as the striker sees it.
    ball_sight: tuple[Polar, ...]  # Of the ball, as each opponent sees it.


class Striker(Env):
    """A striker against a goalkeeper and some defenders."""

    rewards = tuple((name.replace("_", " "), size) for name, size in Rewards()._asdict().items())
    num_defenders: int = eqx.field(static=True)
    spec: Spec = eqx.field(static=True)

    def __init__(self, num_defenders: int):
        defenders = [("defender" if num_defenders == 1 else f"defender {i + 1}") for i in range(num_defenders)]
        things = ("striker", "ball", "goalkeeper", *defenders, "goal")
        names = tuple(f"{thing} {axis}" for thing in things for axis in "xy")
        self.num_defenders = num_defenders
        self.spec = Spec(
            observation_names=names,
            observation_low=(-1.0,) * len(names),
            observation_high=(1.0,) * len(names),
            action_names=("Move", "Dribble", "Shoot"),
            horizon=TRIAL_CYCLES,
            discount=0.99,
            place="pitch",
            units=(LENGTH, WIDTH) * len(things),
            descriptor_names=("goalkeeper speed", "start x", "start y"),
            descriptor_units=(Unit("", 0.5, 0.5), LENGTH, WIDTH),
        )

    def reset(self, key: Key, task: StrikerTask) -> Match:
        draws = many_uniforms(key, 6 + 3 * self.num_defenders)
        ball = _between(task.ball_low, task.ball_high, *draws[:2])
        offset = jnp.asarray(STRIKER_OFFSETS, jnp.float32)[(draws[2] * len(STRIKER_OFFSETS)).astype(jnp.int32)]
        x = jnp.clip(ball.x + OFFSET * (draws[3] + offset[0]), -0.1, c.PITCH_HALF_LENGTH)
        y = jnp.clip(ball.y + OFFSET * (draws[4] + offset[1]), -HALF_WIDTH_OF_STARTS, HALF_WIDTH_OF_STARTS)
        in_goal = Vector(jnp.full_like(x, c.PITCH_HALF_LENGTH), jnp.zeros_like(x))
        players = [rested(Vector(x, y), math.pi * (2 * draws[5] - 1)), rested(in_goal, jnp.full_like(x, math.pi / 2))]
        for i in range(self.num_defenders):
            u, v, w = draws[6 + 3 * i : 9 + 3 * i]
            players.append(rested(_between(task.defender_low, task.defender_high, u, v), math.pi * (2 * w - 1)))
        still = Vector(jnp.zeros_like(x), jnp.zeros_like(x))
        world = World(Ball(ball, still), tuple(players))
        zero = jnp.zeros_like(x, jnp.int32)
        return Match(world, zero, zero, jnp.zeros_like(x, bool), zero)

    def noise(self, key: Key) -> Dice:
        count, opponents_count = self.num_defenders + 2, self.num_defenders + 1
        draws = iter(many_uniforms(key, 2 + 6 * count + 4 * opponents_count))

        def polar() -> Polar:
            return Polar(next(draws), 2 * next(draws) - 1)

        ball = polar()
        players = tuple(PlayerNoise(polar(), polar(), 2 * next(draws) - 1, next(draws)) for _ in range(count))
        sights = [tuple(polar() for _ in range(opponents_count)) for _ in range(2)]
        return Dice(Noise(ball, players), *sights)

    def transition(self, noise: Dice, state: Match, action: Int[Array, ""], task: StrikerTask) -> Timestep:
        return self.cycle(noise, state, action, functools.partial(striker.act, action), task)

    def cycle(
        self, noise: Dice, state: Match, action: Int[Array, ""], commanded: CommandOf, task: StrikerTask
    ) -> Timestep:
        """The striker does what it is commanded; `action` is what that counts as where kicks are paid."""
        world, perception = state.world, task.perception
        me, *others = world.players
        meeting = meet(Runner.of(me), world.ball, striker.MEETING_RADIUS)
        has_ball = striker.has_ball(me, world.ball)
        dice = zip(others, noise.sight)
        seen = tuple(_seen(me, other, i == 0, polar, perception) for i, (other, polar) in enumerate(dice))
        balls = [
            world.ball._replace(position=_blurred(other.position, world.ball.position, polar, perception))
            for other, polar in zip(others, noise.ball_sight)
        ]
        commands = [commanded(me, world.ball, seen)]
        commands += [opponents.goalkeeper(others[0], balls[0], meeting, has_ball, task.goalkeeper_speed)]
        for other, ball, side in zip(others[1:], balls[1:], (1.0, -1.0)):
            commands.append(opponents.defender(other, ball, meeting, has_ball, side))
        after = _refereed(state, step(world, tuple(commands), noise.physics))
        reward = _kick_reward(world.ball, action, has_ball) + _end_reward(after.status)
        return Timestep(after, reward, after.status != IN_GAME, after.status == GOAL)

    def decides(self, state: Match) -> Bool[Array, ""]:
        """Without the ball, all three actions run to it."""
        return striker.has_ball(state.world.players[0], state.world.ball)

    def observe(self, state: Match, task: StrikerTask) -> Float[Array, "O"]:
        me, *others = state.world.players
        places = (me.position, state.world.ball.position, *(other.position for other in others), striker.GOAL)
        return jnp.stack([number for place in map(normalised, places) for number in place])

    def descriptor(self, task: StrikerTask) -> Float[Array, "Z"]:
        """Speed of the goalkeeper and middle of the start box: what a change of task changes."""
        middle = normalised(Vector(*((task.ball_low + task.ball_high) / 2)))
        return jnp.stack([2 * task.goalkeeper_speed - 1, *middle])


def normalised(place: Vector) -> Vector:
    """As HFO does it: the half field and a tenth around it become [-1, 1], what lies outside is clipped."""
    x, y = (place.x + MARGIN) / NORMALISED_HALF_LENGTH - 1, place.y / NORMALISED_HALF_WIDTH
    return Vector(jnp.clip(x, -1.0, 1.0), jnp.clip(y, -1.0, 1.0))


def in_metres(place: Vector) -> Vector:
    """The inverse of `normalised`, inside the field."""
    return Vector((place.x + 1) * NORMALISED_HALF_LENGTH - MARGIN, place.y * NORMALISED_HALF_WIDTH)


def _between(low: Float[Array, "2"], high: Float[Array, "2"], u: Scalar, v: Scalar) -> Vector:
    return Vector(low[0] + u * (high[0] - low[0]), low[1] + v * (high[1] - low[1]))


def _blurred(from_: Vector, place: Vector, dice: Polar, perception: Scalar) -> Vector:
    """A place as it is seen from another: the error grows with the distance."""
    angle = math.pi * dice.angle
    error = perception * (place - from_).length * dice.radius
    return place + Vector(jnp.cos(angle), jnp.sin(angle)) * error


def _seen(me: Body, other: Body, is_goalkeeper: bool, dice: Polar, perception: Scalar) -> striker.Opponent:
    place = _blurred(me.position, other.position, dice, perception)
    return striker.Opponent(place, Runner.of(other._replace(position=place)), is_goalkeeper)


def _kick_reward(ball: Ball, action: Int[Array, ""], has_ball: Bool[Array, ""]) -> Scalar:
    inside, pay = opponents.is_in_area(ball.position), Rewards()
    shot = jnp.where(inside, pay.shot_inside_box, pay.shot_outside_box)
    dribbled = jnp.where(inside, pay.dribble_inside_box, pay.dribble_outside_box)
    kicked = jnp.where(action == striker.SHOOT, shot, jnp.where(action == striker.DRIBBLE, dribbled, 0.0))
    return jnp.where(has_ball, kicked, 0.0)


def _end_reward(status: Int[Array, ""]) -> Scalar:
    pay = Rewards()
    sizes = {GOAL: pay.goal, CAPTURED: pay.captured, OUT_OF_BOUNDS: pay.out_of_bounds, OUT_OF_TIME: pay.out_of_time}
    return sum(jnp.where(status == code, size, 0.0) for code, size in sizes.items())


def _refereed(before: Match, world: World) -> Match:
    """The referee's look after a cycle, in HFO's order: goal, out, captured, time, and at last who has the ball."""
    old, new = before.world.ball.position, world.ball.position
    scored = _crosses_goal_line(old, new)
    near = [(player.position - new).square <= c.KICKABLE**2 for player in world.players]
    offence, defence = near[0], jnp.stack(near[1:]).any(0)
    take_time = jnp.where(defence, before.take_time + 1, jnp.where(offence, 0, before.take_time))
    untouched = jnp.where(offence | defence, 0, before.untouched + 1)
    me, goalkeeper = world.players[:2]
    kept = near[1] & ((goalkeeper.position - new).square <= (me.position - new).square)
    status = jnp.where(untouched > UNTOUCHED_CYCLES, OUT_OF_TIME, jnp.where(kept, CAPTURED, IN_GAME))
    status = jnp.where(take_time >= CAPTURE_CYCLES, CAPTURED, status)
    status = jnp.where(before.was_out, OUT_OF_BOUNDS, status)
    status = jnp.where(scored, GOAL, status)
    is_out = (new.x < 0) | (new.x > c.PITCH_HALF_LENGTH) | (jnp.abs(new.y) > c.PITCH_HALF_WIDTH)
    return Match(world, take_time, untouched, is_out, status.astype(jnp.int32))


def _crosses_goal_line(old: Vector, new: Vector) -> Bool[Array, ""]:
    line = c.PITCH_HALF_LENGTH + c.BALL_SIZE
    crosses = (old.x <= line) & (new.x > line)
    share = (line - old.x) / jnp.maximum(new.x - old.x, 1e-6)
    return crosses & (jnp.abs(old.y + share * (new.y - old.y)) <= c.GOAL_HALF_WIDTH + c.POST_RADIUS)
