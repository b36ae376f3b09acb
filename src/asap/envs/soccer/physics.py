"""One simulator cycle of rcssserver 15.2.2: commands, motion, goal posts, collisions, stamina.

Pure functions of a world with one ball and a tuple of players, every number a scalar: worlds are batched with `vmap`,
and then each number is a flat array. Random numbers come in as `Noise`, all zeros for a world without noise. The
precision is that of the inputs: recorded games are replayed in double precision, training runs in single.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from asap.envs.soccer import vectors as c
from asap.envs.soccer.vectors import Scalar, Vector, towards, where, wrapped

NONE, DASH, TURN, KICK, TACKLE, CATCH = range(6)


class Ball(NamedTuple):
    position: Vector
    velocity: Vector


class Body(NamedTuple):
    position: Vector
    velocity: Vector
    body: Scalar
    stamina: Scalar
    effort: Scalar
    recovery: Scalar
    capacity: Scalar
    frozen: Int[Array, ""]  # Cycles until a tackler can act again.
    catch_ban: Int[Array, ""]  # Cycles until the goalkeeper may try again.


class World(NamedTuple):
    ball: Ball
    players: tuple[Body, ...]


class Command(NamedTuple):
    """The one body command of a player: `power` of a dash or kick, `angle` of all, relative to the body."""

    kind: Int[Array, ""]
    power: Scalar
    angle: Scalar


class Polar(NamedTuple):
    """Two uniform numbers, the radius in [0, 1) and the angle in [-1, 1), as parts of the largest radius and of pi."""

    radius: Scalar
    angle: Scalar


class PlayerNoise(NamedTuple):
    """Uniform numbers of one player in one cycle: `turn` in [-1, 1), `tackle` in [0, 1)."""

    motion: Polar
    kick: Polar
    turn: Scalar
    tackle: Scalar


class Noise(NamedTuple):
    ball: Polar
    players: tuple[PlayerNoise, ...]


STILL = Polar(0.0, 0.0)


def no_noise(num_players: int) -> Noise:
    """Everything goes as planned, tackles too."""
    return Noise(STILL, (PlayerNoise(STILL, STILL, 0.0, 1.0),) * num_players)


def rested(position: Vector, body: Scalar) -> Body:
    """A player that stands still with all its stamina."""
    one, none = jnp.ones_like(body), jnp.zeros_like(body, jnp.int32)
    still = Vector(jnp.zeros_like(position.x), jnp.zeros_like(position.y))
    return Body(position, still, body, c.STAMINA_MAX * one, one, one, c.STAMINA_CAPACITY * one, none, none)


def step(world: World, commands: tuple[Command, ...], noise: Noise) -> World:
    """Commands act on the state they find, then everything moves, collides, and breathes."""
    acts = _one_by_one(_act, world.players, commands)
    ball, players = _caught(world, acts)
    pushes, moved = _one_by_one(functools.partial(_acted, ball), players, acts, noise.players)
    push = functools.reduce(Vector.__add__, pushes)
    moved_ball = Ball(*_moved(ball, push, c.BALL_SIZE, c.BALL_ACCEL_MAX, c.BALL_SPEED_MAX, c.BALL_RAND, noise.ball))
    ball, players = _collided(World(moved_ball, moved))
    ball = ball._replace(velocity=ball.velocity * c.BALL_DECAY)
    return World(ball, tuple(_breathed(p._replace(velocity=p.velocity * c.PLAYER_DECAY)) for p in players))


def _one_by_one(function: Callable, *of_players: tuple) -> Any:
    """`function` for each player, as a loop: a program for one player, whose inputs and results are stored between.
    Written out for all, the compiler would compute them anew for whatever depends on them, many times over."""
    stacked = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *each) for each in of_players]
    _, results = jax.lax.scan(lambda _, player: (None, function(*player)), None, tuple(stacked))
    each = tuple(jax.tree.map(lambda leaf: leaf[i], results) for i in range(len(of_players[0])))
    return tuple(zip(*each)) if type(each[0]) is tuple else each  # Of pairs, two tuples.


class _Act(NamedTuple):
    """A command as the server takes it, and the direction on the pitch that it names."""

    kind: Int[Array, ""]
    power: Scalar
    angle: Scalar
    heading: Vector


def _act(player: Body, order: Command) -> _Act:
    kind = jnp.where(player.frozen == 0, order.kind, NONE)
    rounded = wrapped(jnp.round(order.angle / c.DASH_ANGLE_STEP) * c.DASH_ANGLE_STEP)
    angle = jnp.where(kind == DASH, rounded, jnp.clip(order.angle, -math.pi, math.pi))
    return _Act(kind, order.power, angle, towards(player.body + angle))


def _acted(ball: Ball, player: Body, act: _Act, dice: PlayerNoise) -> tuple[Vector, Body]:
    """What a player does to the ball, and the player after its own dash or turn, moved; a tackle freezes it, a try to
    catch bans the next."""
    struck, (push, cost) = _struck(ball, player, act, dice), _dash(player, act)
    limits = c.PLAYER_SIZE, c.PLAYER_ACCEL_MAX, c.PLAYER_SPEED_MAX, c.PLAYER_RAND
    position, velocity = _moved(player, push, *limits, dice.motion)
    turn = (1 + c.PLAYER_RAND * dice.turn) * act.angle / (1 + c.INERTIA_MOMENT * player.velocity.length)
    return struck, player._replace(
        position=position,
        velocity=velocity,
        body=jnp.where(act.kind == TURN, wrapped(player.body + turn), player.body),
        stamina=player.stamina - cost,
        frozen=jnp.where(act.kind == TACKLE, c.TACKLE_CYCLES, jnp.maximum(player.frozen - 1, 0)),
        catch_ban=jnp.where(act.kind == CATCH, c.CATCH_BAN, jnp.maximum(player.catch_ban - 1, 0)),
    )


def _dash(player: Body, act: _Act) -> tuple[Vector, Scalar]:
    """Acceleration, and the stamina it costs. Dashing backwards costs twice."""
    power = jnp.where(act.kind == DASH, jnp.clip(act.power, -c.POWER_MAX, c.POWER_MAX), 0.0)
    need = jnp.where(power < 0, -2.0 * power, power)
    paid = jnp.minimum(need, player.stamina + c.EXTRA_STAMINA)
    power = jnp.where(power < 0, -paid / 2, paid)
    turned = jnp.abs(act.angle) / (math.pi / 2)  # 0 ahead, 1 sideways, 2 backwards.
    sideways = c.SIDE_DASH_RATE + (1 - c.SIDE_DASH_RATE) * (1 - turned)
    backwards = c.BACK_DASH_RATE - (c.BACK_DASH_RATE - c.SIDE_DASH_RATE) * (2 - turned)
    rate = jnp.where(turned <= 1, sideways, backwards)
    return act.heading * (player.effort * power * rate * c.DASH_POWER_RATE), jnp.minimum(paid, player.stamina)


def _spread(radius: Scalar, polar: Polar) -> Vector:
    """A vector of a random length up to `radius` in a random direction."""
    return towards(math.pi * polar.angle) * (radius * polar.radius)


def is_kickable(player: Body, ball: Ball) -> Bool[Array, ""]:
    return (ball.position - player.position).square <= c.KICKABLE**2


class Touch(NamedTuple):
    """How the ball lies to a player: `side` 0 ahead to 1 behind, `gap` 0 touching to 1 barely kickable."""

    side: Scalar
    gap: Scalar

    @classmethod
    def of(cls, player: Body, ball: Ball) -> "Touch":
        offset = ball.position - player.position
        side = jnp.abs(wrapped(offset.angle - player.body)) / math.pi
        return cls(side, (offset.length - c.TOUCHING) / c.KICKABLE_MARGIN)

    @property
    def kick_rate(self) -> Scalar:
        """Acceleration per unit of power: less for a ball aside, behind, or further off."""
        return c.KICK_POWER_RATE * (1 - 0.25 * self.side - 0.25 * self.gap)


def _in_frame(player: Body, ball: Ball, ahead_of: Vector) -> Vector:
    """The ball from the player, along a direction and across it."""
    offset = ball.position - player.position
    return Vector(offset.dot(ahead_of), offset.y * ahead_of.x - offset.x * ahead_of.y)


def tackle_failure(player: Body, ball: Ball) -> Scalar:
    """Chance that a tackle fails; a ball at the back is never reached."""
    ahead, aside = _in_frame(player, ball, towards(player.body))
    fail = (ahead / c.TACKLE_DISTANCE) ** c.TACKLE_EXPONENT + (aside / c.TACKLE_WIDTH) ** c.TACKLE_EXPONENT
    return jnp.where(ahead <= 0, 1.0, jnp.minimum(fail, 1.0))


def _struck(ball: Ball, player: Body, act: _Act, dice: PlayerNoise) -> Vector:
    """A kick or a tackle, as an acceleration of the ball, with its error."""
    is_tackle, touch, fail = act.kind == TACKLE, Touch.of(player, ball), tackle_failure(player, ball)
    kick_power = jnp.clip(act.power, 0.0, c.POWER_MAX)
    tackle_power = c.POWER_MAX * (1 - jnp.abs(act.angle) / math.pi)
    power = jnp.where(is_tackle, tackle_power, kick_power)
    rate = jnp.where(is_tackle, c.TACKLE_POWER_RATE * (1 - 0.5 * touch.side), touch.kick_rate)
    place = jnp.where(is_tackle, 2 * (0.5 + 0.5 * (1 - fail)), 0.5 + 0.25 * (touch.side + touch.gap))
    speed = 0.5 + 0.5 * ball.velocity.length / (c.BALL_SPEED_MAX * c.BALL_DECAY)
    error = _spread(c.KICK_RAND * power / c.POWER_MAX * (place + jnp.where(is_tackle, 2 * speed, speed)), dice.kick)
    kicks = (act.kind == KICK) & is_kickable(player, ball)
    tackles = is_tackle & (fail < 1) & (dice.tackle >= fail)
    return where(kicks | tackles, act.heading * (power * rate) + error, Vector(0.0, 0.0))


def can_catch(player: Body, ball: Ball, heading: Vector) -> Bool[Array, ""]:
    """Whether the ball lies in the rectangle that begins at the player's centre, in that direction."""
    ahead, aside = _in_frame(player, ball, heading)
    return (ahead >= 0) & (ahead <= c.CATCH_LENGTH) & (jnp.abs(aside) <= c.CATCH_WIDTH / 2)


def _caught(world: World, acts: tuple[_Act, ...]) -> World:
    """A catcher is put against the ball, facing it, and at rest. Nothing holds the ball: what rounding leaves as an
    overlap is a collision, otherwise the ball rolls on."""
    ball = world.ball
    any_caught, players = False, []
    for player, act in zip(world.players, acts):
        caught = (act.kind == CATCH) & (player.catch_ban == 0) & can_catch(player, ball, act.heading)
        offset = ball.position - player.position
        distance = offset.length
        approach = offset * ((distance - c.TOUCHING) / jnp.maximum(distance, 1e-9))
        position = where(caught, player.position + approach, player.position)
        velocity = where(caught, Vector(0.0, 0.0), player.velocity)
        body = jnp.where(caught, offset.angle, player.body)
        players.append(player._replace(position=position, velocity=velocity, body=body))
        any_caught = any_caught | caught
    return _collided(World(ball, tuple(players)), any_caught)


def _moved(
    moving: Ball | Body, push: Vector, size: float, accel_max: float, speed_max: float, rand: float, dice: Polar
) -> tuple[Vector, Vector]:
    """Position and velocity (not yet decayed) after one cycle. The speed is limited only when something pushes."""
    position, velocity = moving.position, moving.velocity

    def clipped(vector: Vector, limit: float) -> Vector:
        return vector * jnp.minimum(1.0, limit / jnp.maximum(vector.length, 1e-9))

    pushed = clipped(velocity + clipped(push, accel_max), speed_max)
    velocity = where((push.x != 0) | (push.y != 0), pushed, velocity)
    velocity = velocity + _spread(rand * velocity.length, dice)
    return _reflected(position, velocity, size + c.POST_RADIUS)


def _reflected(position: Vector, velocity: Vector, reach: float) -> tuple[Vector, Vector]:
    """Where the path leads when the nearest goal post is in its way: mirrored where it touches, at full speed."""
    post = Vector(jnp.where(position.x < 0, -c.POST_X, c.POST_X), jnp.where(position.y < 0, -c.POST_Y, c.POST_Y))
    offset = position - post
    a, b = velocity.square, offset.dot(velocity)
    inside = b**2 - a * (offset.square - reach**2)
    when = (-b - jnp.sqrt(jnp.maximum(inside, 0.0))) / jnp.maximum(a, 1e-12)
    touches = (inside > 0) & (when >= 0) & (when <= 1)
    touch = position + velocity * when
    normal = (touch - post) * (1 / reach)
    mirrored = velocity - normal * (2 * velocity.dot(normal))
    return where(touches, touch + mirrored * (1 - when), position + velocity), where(touches, mirrored, velocity)


def _collided(world: World, allowed: Bool[Array, ""] | bool = True) -> World:
    """Overlapping objects are moved apart about their midpoints, several times if need be; then each rebounds once."""
    things = (world.ball, *world.players)
    sizes = [c.BALL_SIZE] + [c.PLAYER_SIZE] * len(world.players)
    pairs = [(i, j) for i in range(len(things)) for j in range(i + 1, len(things))]

    def overlap(places: tuple[Vector, ...]) -> list[Bool[Array, ""]]:
        return [(places[i] - places[j]).square < (sizes[i] + sizes[j]) ** 2 for i, j in pairs]

    def goes_on(carry) -> Bool[Array, ""]:
        places, _, round_ = carry
        return allowed & (round_ < c.COLLISION_ROUNDS) & jnp.stack(overlap(places)).any()

    def one_round(carry):
        places, hit, round_ = carry
        moved, contacts = [Vector(0.0, 0.0)] * len(places), [0] * len(places)
        for (i, j), touch in zip(pairs, overlap(places)):
            offset, middle = places[i] - places[j], (places[i] + places[j]) * 0.5
            distance = offset.length
            unit = where(distance > 0, offset * (1 / jnp.maximum(distance, 1e-12)), Vector(1.0, 0.0))
            apart = unit * ((sizes[i] + sizes[j]) / 2 + c.COLLISION_GAP)
            moved[i] = moved[i] + where(touch, middle + apart, Vector(0.0, 0.0))
            moved[j] = moved[j] + where(touch, middle - apart, Vector(0.0, 0.0))
            contacts[i], contacts[j] = contacts[i] + touch, contacts[j] + touch
        after = tuple(where(n > 0, m * (1 / jnp.maximum(n, 1)), p) for n, m, p in zip(contacts, moved, places))
        return after, tuple(h | (n > 0) for h, n in zip(hit, contacts)), round_ + 1

    places = tuple(thing.position for thing in things)
    untouched = tuple(jnp.zeros_like(place.x, bool) for place in places)
    places, hit, _ = jax.lax.while_loop(goes_on, one_round, (places, untouched, jnp.int32(0)))
    after = [
        thing._replace(position=place, velocity=where(was_hit, thing.velocity * c.COLLISION_REBOUND, thing.velocity))
        for thing, place, was_hit in zip(things, places, hit)
    ]
    return World(after[0], tuple(after[1:]))


def _breathed(player: Body) -> Body:
    tired, weak = player.stamina <= c.RECOVERY_THRESHOLD, player.stamina <= c.EFFORT_DOWN
    recovery = jnp.where(tired, jnp.maximum(c.RECOVERY_MIN, player.recovery - c.RECOVERY_STEP), player.recovery)
    effort = jnp.where(weak, jnp.maximum(c.EFFORT_MIN, player.effort - c.EFFORT_DOWN_STEP), player.effort)
    effort = jnp.where(player.stamina >= c.EFFORT_UP, jnp.minimum(1.0, effort + c.EFFORT_UP_STEP), effort)
    gain = jnp.minimum(jnp.minimum(recovery * c.STAMINA_INC, c.STAMINA_MAX - player.stamina), player.capacity)
    stamina, capacity = player.stamina + gain, player.capacity - gain
    return player._replace(stamina=stamina, capacity=capacity, effort=effort, recovery=recovery)
