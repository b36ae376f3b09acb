"""The Goal domain of Masson, Ranchod and Konidaris (2016): one player, a keeper and a goal, with parameterised actions.

A port of ours, of the published numbers and rules; the physics is a simple one of its own, not that of `asap.envs.soccer`. x runs from
the middle line (0) to the goal line (20), y from -15 to 15; lengths are metres, and a primitive step is a tenth of a second.

An action is (a, numbers): kick-to(x, y), shoot-goal-left(y) or shoot-goal-right(y). It goes on until the player has the ball again, after
kick-to a slow one, or until the episode ends. A goal pays 50. A catch, a ball that leaves the field and the end of the time cost the
ball's distance to the goal. What is not published, and so an assumption: the keeper begins where the line from the ball to the goal
enters its area; a runner dashes straight to its target while its body turns there; distances are to the goal's centre.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key, fold, many_uniforms, uniforms
from asap.base.spec import Spec
from asap.base.types import Timestep
from asap.envs.core import Env
from asap.envs.soccer.vectors import Scalar, Vector, towards, where, wrapped

LENGTH, HALF_WIDTH = 20.0, 15.0
GOAL = Vector(LENGTH, 0.0)
GOAL_HALF_WIDTH = 7.01
AREA_X, AREA_HALF_WIDTH = LENGTH - 5.5, 9.16  # Where the keeper begins.


class Kind(NamedTuple):
    """What a body is made of."""

    size: float
    power_rate: float
    most_speed: float  # On each axis, and of acceleration too.
    decay: float
    rand: float


PLAYER = Kind(size=0.9, power_rate=0.006, most_speed=1.0, decay=0.4, rand=0.1)
BALL = Kind(size=0.4, power_rate=0.027, most_speed=2.7, decay=0.94, rand=0.05)
KICKABLE, CATCHABLE = 1.6, 2.0
ROUNDING = 1e-3  # An episode begins with the ball just kickable.
INERTIA = 5.0
FULL, CHASING, COVERING = 100.0, 8.0, 20.0  # Powers: of the player, and of the keeper.
SLOW = 0.1  # A ball that kick-to leaves off at.

KICK_TO, SHOOT_LEFT, SHOOT_RIGHT = range(3)
MOST_ACTIONS = 100
NUM_DICE = 11
MOST_PRIMITIVE = 100  # Steps of one action; a full kick slows down to `SLOW` in 54.
GOAL_REWARD = 50.0
IN_PLAY, SCORED, CAUGHT, OUT = range(4)


class Moving(NamedTuple):
    """A player, or the ball, whose direction is of no use."""

    position: Vector
    velocity: Vector
    facing: Scalar


class GoalGame(NamedTuple):
    player: Moving
    keeper: Moving
    ball: Moving
    status: Int[Array, ""]
    actions: Int[Array, ""]


class GoalTask(NamedTuple):
    """Where the player may begin: |y| up to this."""

    start_half_width: Float[Array, ""]


class GoalDomain(Env):
    rewards = (("goal", GOAL_REWARD), ("any other end: metres from the ball to the goal", -1.0))
    spec = Spec(
        observation_names=(
            *(f"{who} {what}" for who in ("player", "keeper") for what in ("x", "y", "vx", "vy", "facing")),
            *(f"ball {what}" for what in ("x", "y", "vx", "vy")),
        ),
        observation_low=(*(0.0, -HALF_WIDTH, -1.0, -1.0, -math.pi) * 2, 0.0, -HALF_WIDTH, -2.7, -2.7),
        observation_high=(*(LENGTH, HALF_WIDTH, 1.0, 1.0, math.pi) * 2, LENGTH, HALF_WIDTH, 2.7, 2.7),
        action_names=("kick-to", "shoot-goal-left", "shoot-goal-right"),
        horizon=MOST_ACTIONS,
        discount=0.9,
    )
    takes = (2, 1, 1)  # Numbers of each choice, in metres.
    hand_set = ((8.0, 0.0), (4.5,), (-4.5,))  # Ahead, and to both sides of the goal's centre.

    def reset(self, key: Key, task: GoalTask) -> GoalGame:
        y = task.start_half_width * (2 * uniforms(key)[0] - 1)
        place, zero = Vector(jnp.zeros_like(y), y), jnp.zeros_like(y)
        still, facing = Vector(zero, zero), (GOAL - place).angle
        at = place + towards(facing) * KICKABLE
        share = (AREA_X - at.x) / (LENGTH - at.x)
        keeper = Vector(zero + AREA_X, at.y * (1 - share))
        begin = jnp.zeros_like(y, jnp.int32)
        ball = Moving(at, still, zero)
        return GoalGame(Moving(place, still, facing), Moving(keeper, still, zero), ball, begin, begin)

    def noise(self, key: Key) -> Key:
        """How many primitive steps there will be is not known: each folds its own."""
        return key

    def transition(self, noise: Key, state: GoalGame, action: Float[Array, "A"], task: GoalTask) -> Timestep:
        which, numbers = jnp.round(action[0]).astype(jnp.int32), action[1:]
        x = jnp.where(which == KICK_TO, numbers[0], LENGTH)
        y = jnp.where(which == KICK_TO, numbers[1], numbers[0])
        target = Vector(jnp.clip(x, 0.0, LENGTH), jnp.clip(y, -HALF_WIDTH, HALF_WIDTH))

        def goes_on(now: tuple[Int[Array, ""], GoalGame]) -> Bool[Array, ""]:
            step, game = now
            slow = (which != KICK_TO) | (game.ball.velocity.length <= SLOW)
            done = (game.status != IN_PLAY) | (has_ball(game.player, game.ball) & slow)
            return (step == 0) | ((step < MOST_PRIMITIVE) & ~done)

        def one_more(now: tuple[Int[Array, ""], GoalGame]) -> tuple[Int[Array, ""], GoalGame]:
            step, game = now
            dice = many_uniforms(fold(noise, step), NUM_DICE)
            return step + 1, primitive(dice, game, target, which, step == 0)

        _, game = jax.lax.while_loop(goes_on, one_more, (jnp.int32(0), state))
        game = game._replace(actions=state.actions + 1)
        ended = (game.status != IN_PLAY) | (game.actions >= MOST_ACTIONS)
        lost = -(GOAL - game.ball.position).length
        reward = jnp.where(game.status == SCORED, GOAL_REWARD, jnp.where(ended, lost, 0.0))
        return Timestep(game, reward, ended, game.status == SCORED)

    def observe(self, state: GoalGame, task: GoalTask) -> Float[Array, "O"]:
        players = [(*who.position, *who.velocity, who.facing) for who in (state.player, state.keeper)]
        return jnp.stack([*players[0], *players[1], *state.ball.position, *state.ball.velocity])

    def descriptor(self, task: GoalTask) -> Float[Array, "Z"]:
        return jnp.stack([2 * task.start_half_width / HALF_WIDTH - 1])


def standard_goal() -> GoalTask:
    return GoalTask(jnp.float32(HALF_WIDTH))


# ---- One primitive step ---------------------------------------------------------------------------------------------


def primitive(
    dice: tuple, game: GoalGame, target: Vector, which: Int[Array, ""], is_first: Bool[Array, ""]
) -> GoalGame:
    """The player kicks, or runs to a ball that it does not have; the keeper covers the goal or chases; then all move."""
    signed = [2 * number - 1 for number in dice]
    player, keeper, ball = game.player, game.keeper, game.ball
    able = has_ball(player, ball)
    runs = _either(able, player, run(player, ball.position, FULL, signed[0:4]))
    ball = _either(able & is_first, kick(player, ball, target, which, signed[4:7]), ball)
    keeper = run(keeper, *keeper_aim(keeper, game.ball), signed[7:11])
    moved = move(ball, BALL)
    player, keeper = move(runs, PLAYER), move(keeper, PLAYER)
    status = referee(ball.position, keeper, moved)
    player, ball = collide(player, moved, PLAYER.size + BALL.size)
    player, keeper = collide(player, keeper, 2 * PLAYER.size)
    return GoalGame(player, keeper, ball, status, game.actions)


def accelerated(who: Moving, kind: Kind, power: Scalar, angle: Scalar, errors: list) -> Moving:
    """The angle is off by a share of itself, and so are both axes, by a share of the speed; acceleration and speed are
    clipped on each axis."""
    error = Vector(errors[1], errors[2]) * (kind.rand * who.velocity.length)
    push = towards(angle * (1 + kind.rand * errors[0])) * (kind.power_rate * power) + error
    return who._replace(velocity=_boxed(who.velocity + _boxed(push, kind.most_speed), kind.most_speed))


def move(who: Moving, kind: Kind) -> Moving:
    return who._replace(position=who.position + who.velocity, velocity=who.velocity * kind.decay)


def run(who: Moving, target: Vector, power: Scalar, errors: list) -> Moving:
    """A dash straight to the target, while the body turns: less the faster one runs."""
    angle = (target - who.position).angle
    turn = wrapped(angle - who.facing)
    turned = turn * (1 + PLAYER.rand * errors[0]) / (1 + INERTIA * who.velocity.length)
    facing = wrapped(who.facing + turned)
    return accelerated(who._replace(facing=facing), PLAYER, power, angle, errors[1:4])


def kick(player: Moving, ball: Moving, target: Vector, which: Int[Array, ""], errors: list) -> Moving:
    """kick-to: so hard that the ball comes to rest at the target. A shot: as hard as it can."""
    offset = ball.position - player.position
    aside = jnp.abs(wrapped(offset.angle - player.facing)) / math.pi
    weight = 1 - 0.25 * aside - 0.25 * offset.length / KICKABLE
    path = target - ball.position
    wanted = where(which == KICK_TO, path * (1 - BALL.decay) - ball.velocity, path)
    power = jnp.minimum(wanted.length / (BALL.power_rate * weight), FULL)
    return accelerated(ball, BALL, weight * jnp.where(which == KICK_TO, power, FULL), wanted.angle, errors)


def keeper_aim(keeper: Moving, ball: Moving) -> tuple[Vector, Scalar]:
    """Where the keeper runs to, and with which power: onto the line of a shot, else to where the ball will rest."""
    rest = ball.position + ball.velocity * (1 / (1 - BALL.decay))
    path = rest - ball.position
    crossing = ball.position.y + path.y * (LENGTH - ball.position.x) / jnp.maximum(path.x, 1e-6)
    is_shot = (rest.x > LENGTH) & (jnp.abs(crossing) <= GOAL_HALF_WIDTH + CATCHABLE)
    along = (keeper.position - ball.position).dot(path) / jnp.maximum(path.square, 1e-6)
    foot = ball.position + path * along
    return where(is_shot, foot, rest), jnp.where(is_shot, COVERING, CHASING)


def referee(before: Vector, keeper: Moving, ball: Moving) -> Int[Array, ""]:
    at = ball.position
    share = (LENGTH - before.x) / jnp.maximum(at.x - before.x, 1e-6)
    scored = (at.x > LENGTH) & (jnp.abs(before.y + share * (at.y - before.y)) <= GOAL_HALF_WIDTH)
    is_out = (at.x < 0) | (at.x > LENGTH) | (jnp.abs(at.y) > HALF_WIDTH)
    caught = (at - keeper.position).length <= CATCHABLE
    status = jnp.where(scored, SCORED, jnp.where(is_out, OUT, jnp.where(caught, CAUGHT, IN_PLAY)))
    return status.astype(jnp.int32)


def collide(one: Moving, other: Moving, touching: float) -> tuple[Moving, Moving]:
    """Bodies that overlap are pushed apart by the same length, and turn back."""
    offset = other.position - one.position
    distance = jnp.maximum(offset.length, 1e-6)
    hit, push = distance < touching, offset * ((touching - distance) / (2 * distance))
    apart = [
        Moving(where(hit, place, who.position), where(hit, who.velocity * -1.0, who.velocity), who.facing)
        for who, place in ((one, one.position - push), (other, other.position + push))
    ]
    return apart[0], apart[1]


def has_ball(player: Moving, ball: Moving) -> Bool[Array, ""]:
    return (ball.position - player.position).length <= KICKABLE + ROUNDING


def _boxed(vector: Vector, most: float) -> Vector:
    return Vector(jnp.clip(vector.x, -most, most), jnp.clip(vector.y, -most, most))


def _either(condition: Bool[Array, ""], yes: Moving, no: Moving) -> Moving:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
