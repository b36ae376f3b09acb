"""One simulator cycle of rcssserver 15.2.2: commands, motion, goal posts, collisions, stamina.

Pure functions of a world with one ball and P players; every number of the players has axis (P,), worlds are batched with
`vmap`. Random numbers come in as `Noise`, all zeros for a world without noise. The functions keep the precision of their
inputs: the recorded games are replayed in double precision, training runs in single.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asap.envs.soccer import constants as c

NONE, DASH, TURN, KICK, TACKLE, CATCH = range(6)


class Ball(NamedTuple):
    position: Float[Array, "2"]
    velocity: Float[Array, "2"]


class Players(NamedTuple):
    position: Float[Array, "P 2"]
    velocity: Float[Array, "P 2"]
    body: Float[Array, "P"]
    stamina: Float[Array, "P"]
    effort: Float[Array, "P"]
    recovery: Float[Array, "P"]
    capacity: Float[Array, "P"]
    frozen: Int[Array, "P"]  # Cycles until a tackler can act again.
    catch_ban: Int[Array, "P"]  # Cycles until the goalkeeper may try again.


class World(NamedTuple):
    ball: Ball
    players: Players


class Commands(NamedTuple):
    """One body command per player: `power` of a dash or kick, `angle` of all, relative to the body."""

    kind: Int[Array, "P"]
    power: Float[Array, "P"]
    angle: Float[Array, "P"]


class Noise(NamedTuple):
    """Uniform numbers of one cycle. Radii and chances are in [0, 1), the others in [-1, 1); `scale` 0 switches them off."""

    ball: Float[Array, "2"]  # Radius, angle.
    players: Float[Array, "P 2"]
    kicks: Float[Array, "P 2"]
    turns: Float[Array, "P"]
    tackles: Float[Array, "P"]
    scale: Float[Array, ""]


def rested(position: Float[Array, "P 2"], body: Float[Array, "P"]) -> Players:
    """Players that stand still with all their stamina."""
    ones, none = jnp.ones_like(body), jnp.zeros(body.shape, jnp.int32)
    still = jnp.zeros_like(position)
    return Players(position, still, body, c.STAMINA_MAX * ones, ones, ones, c.STAMINA_CAPACITY * ones, none, none)


def no_noise(num_players: int) -> Noise:
    pairs, flat = jnp.zeros((num_players, 2)), jnp.zeros(num_players)
    return Noise(jnp.zeros(2), pairs, pairs, flat, flat, jnp.zeros(()))


def step(world: World, commands: Commands, noise: Noise) -> World:
    """Commands act on the state they find, then everything moves, collides, and breathes."""
    able = world.players.frozen == 0
    commands = commands._replace(kind=jnp.where(able, commands.kind, NONE))
    world = _catch(world, commands)
    ball, players = world
    ball_push = _kicks(ball, players, commands, noise) + _tackles(ball, players, commands, noise)
    player_push, cost = _dashes(players, commands)
    body = _turned(players, commands, noise)
    tackled = commands.kind == TACKLE
    ball = Ball(*_moved(*ball, ball_push, c.BALL_SIZE, c.BALL_ACCEL_MAX, c.BALL_SPEED_MAX, c.BALL_RAND * noise.scale, noise.ball))
    move = jax.vmap(lambda p, v, a, u: _moved(p, v, a, c.PLAYER_SIZE, c.PLAYER_ACCEL_MAX, c.PLAYER_SPEED_MAX, c.PLAYER_RAND * noise.scale, u))
    position, velocity = move(players.position, players.velocity, player_push, noise.players)
    ball, position, velocity = _collided(ball, position, velocity)
    players = players._replace(
        position=position,
        velocity=c.PLAYER_DECAY * velocity,
        body=body,
        stamina=players.stamina - cost,
        frozen=jnp.where(tackled, c.TACKLE_CYCLES, jnp.maximum(players.frozen - 1, 0)),
        catch_ban=jnp.where(commands.kind == CATCH, c.CATCH_BAN, jnp.maximum(players.catch_ban - 1, 0)),
    )
    return World(ball._replace(velocity=c.BALL_DECAY * ball.velocity), _breathed(players))


# ---- Commands -----------------------------------------------------------------------------------------------------


def direction(angle: Float[Array, "*n"]) -> Float[Array, "*n 2"]:
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)], -1)


def length(vector: Float[Array, "*n 2"]) -> Float[Array, "*n"]:
    return jnp.hypot(vector[..., 0], vector[..., 1])


def wrapped(angle: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The same angle in [-pi, pi)."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


def bearing(players: Players, ball: Ball) -> Float[Array, "P"]:
    """Angle of the ball from each player's body."""
    offset = ball.position - players.position
    return wrapped(jnp.arctan2(offset[:, 1], offset[:, 0]) - players.body)


def _dashes(players: Players, commands: Commands) -> tuple[Float[Array, "P 2"], Float[Array, "P"]]:
    """Accelerations, and the stamina they cost. Dashing backwards costs twice."""
    is_dash = commands.kind == DASH
    power = jnp.where(is_dash, jnp.clip(commands.power, -c.POWER_MAX, c.POWER_MAX), 0.0)
    angle = wrapped(jnp.round(commands.angle / c.DASH_ANGLE_STEP) * c.DASH_ANGLE_STEP)
    need = jnp.where(power < 0, -2.0 * power, power)
    paid = jnp.minimum(need, players.stamina + c.EXTRA_STAMINA)
    power = jnp.where(power < 0, -paid / 2, paid)
    turned = jnp.abs(angle) / (math.pi / 2)  # 0 ahead, 1 sideways, 2 backwards.
    sideways = c.SIDE_DASH_RATE + (1 - c.SIDE_DASH_RATE) * (1 - turned)
    backwards = c.BACK_DASH_RATE - (c.BACK_DASH_RATE - c.SIDE_DASH_RATE) * (2 - turned)
    rate = jnp.where(turned <= 1, sideways, backwards)
    force = players.effort * power * rate * c.DASH_POWER_RATE
    return force[:, None] * direction(players.body + angle), jnp.minimum(paid, players.stamina)


def _turned(players: Players, commands: Commands, noise: Noise) -> Float[Array, "P"]:
    moment = jnp.clip(commands.angle, -math.pi, math.pi)
    turn = (1 + c.PLAYER_RAND * noise.scale * noise.turns) * moment / (1 + c.INERTIA_MOMENT * length(players.velocity))
    return jnp.where(commands.kind == TURN, wrapped(players.body + turn), players.body)


def _spread(radius: Float[Array, "*n"], uniforms: Float[Array, "*n 2"]) -> Float[Array, "*n 2"]:
    """A vector of a random length up to `radius` in a random direction."""
    return (radius * uniforms[..., 0])[..., None] * direction(math.pi * uniforms[..., 1])


def is_kickable(players: Players, ball: Ball) -> Bool[Array, "P"]:
    return length(ball.position - players.position) <= c.KICKABLE


def _kicks(ball: Ball, players: Players, commands: Commands, noise: Noise) -> Float[Array, "2"]:
    """The sum of all kicks, as an acceleration of the ball."""
    power = jnp.clip(commands.power, 0.0, c.POWER_MAX)
    side = jnp.abs(bearing(players, ball)) / math.pi
    gap = (length(ball.position - players.position) - c.TOUCHING) / c.KICKABLE_MARGIN
    force = power * c.KICK_POWER_RATE * (1 - 0.25 * side - 0.25 * gap)
    pushes = force[:, None] * direction(players.body + commands.angle)
    place, speed = 0.5 + 0.25 * (side + gap), 0.5 + 0.5 * length(ball.velocity) / (c.BALL_SPEED_MAX * c.BALL_DECAY)
    error = _spread(noise.scale * c.KICK_RAND * power / c.POWER_MAX * (place + speed), noise.kicks)
    kicked = (commands.kind == KICK) & is_kickable(players, ball)
    return jnp.where(kicked[:, None], pushes + error, 0.0).sum(0)


def tackle_failure(players: Players, ball: Ball) -> Float[Array, "P"]:
    """Chance that a tackle fails; a ball at the back is never reached."""
    offset = ball.position - players.position
    ahead = (offset * direction(players.body)).sum(-1)
    aside = (offset * direction(players.body + math.pi / 2)).sum(-1)
    fail = (jnp.abs(ahead) / c.TACKLE_DISTANCE) ** c.TACKLE_EXPONENT + (jnp.abs(aside) / c.TACKLE_WIDTH) ** c.TACKLE_EXPONENT
    return jnp.where(ahead <= 0, 1.0, jnp.minimum(fail, 1.0))


def _tackles(ball: Ball, players: Players, commands: Commands, noise: Noise) -> Float[Array, "2"]:
    fail = tackle_failure(players, ball)
    side = jnp.abs(bearing(players, ball)) / math.pi
    power = c.POWER_MAX * (1 - jnp.abs(commands.angle) / math.pi)
    force = power * c.TACKLE_POWER_RATE * (1 - 0.5 * side)
    pushes = force[:, None] * direction(players.body + commands.angle)
    place, speed = 0.5 + 0.5 * (1 - fail), 0.5 + 0.5 * length(ball.velocity) / (c.BALL_SPEED_MAX * c.BALL_DECAY)
    error = _spread(2 * noise.scale * c.KICK_RAND * power / c.POWER_MAX * (place + speed), noise.kicks)
    succeeds = (commands.kind == TACKLE) & (fail < 1) & (noise.tackles >= fail * (noise.scale > 0))
    return jnp.where(succeeds[:, None], pushes + error, 0.0).sum(0)


def can_catch(players: Players, ball: Ball, angle: Float[Array, "P"]) -> Bool[Array, "P"]:
    """Whether the ball lies in the rectangle that begins at the player's centre, in that direction of the body."""
    offset = ball.position - players.position
    ahead = (offset * direction(players.body + angle)).sum(-1)
    aside = (offset * direction(players.body + angle + math.pi / 2)).sum(-1)
    return (ahead >= 0) & (ahead <= c.CATCH_LENGTH) & (jnp.abs(aside) <= c.CATCH_WIDTH / 2)


def _catch(world: World, commands: Commands) -> World:
    """A catcher is put against the ball, facing it, and at rest. Nothing holds the ball: what rounding leaves as an overlap
    is a collision, otherwise the ball rolls on."""
    ball, players = world
    caught = (commands.kind == CATCH) & (players.catch_ban == 0) & can_catch(players, ball, commands.angle)
    offset = ball.position - players.position
    distance = length(offset)
    approach = offset * ((distance - c.TOUCHING) / jnp.maximum(distance, 1e-9))[:, None]
    facing = jnp.arctan2(offset[:, 1], offset[:, 0])
    placed = players._replace(
        position=jnp.where(caught[:, None], players.position + approach, players.position),
        velocity=jnp.where(caught[:, None], 0.0, players.velocity),
        body=jnp.where(caught, facing, players.body),
    )
    ball_after, position, velocity = _collided(ball, placed.position, placed.velocity)
    any_caught = caught.any()
    ball = jax.tree.map(lambda new, old: jnp.where(any_caught, new, old), ball_after, ball)
    players = placed._replace(
        position=jnp.where(any_caught, position, placed.position), velocity=jnp.where(any_caught, velocity, placed.velocity)
    )
    return World(ball, players)


# ---- Motion -------------------------------------------------------------------------------------------------------


def _clipped(vector: Float[Array, "2"], limit: float) -> Float[Array, "2"]:
    return vector * jnp.minimum(1.0, limit / jnp.maximum(length(vector), 1e-9))


def _moved(position, velocity, push, size, accel_max, speed_max, rand, uniforms) -> tuple[Float[Array, "2"], Float[Array, "2"]]:
    """Position and velocity (not yet decayed) after one cycle. The speed is limited only when something pushes."""
    pushed = _clipped(velocity + _clipped(push, accel_max), speed_max)
    velocity = jnp.where((push != 0).any(), pushed, velocity)
    velocity = velocity + _spread(rand * length(velocity), uniforms)
    return _reflected(position, velocity, size + c.POST_RADIUS)


def _reflected(position: Float[Array, "2"], velocity: Float[Array, "2"], reach: float) -> tuple[Float[Array, "2"], Float[Array, "2"]]:
    """Where the path leads when the nearest goal post is in its way: mirrored where it touches, at full speed."""
    posts = jnp.asarray(c.POSTS, position.dtype)
    post = posts[jnp.argmin(length(posts - position))]
    offset = position - post
    a, b = (velocity**2).sum(), (offset * velocity).sum()
    inside = b**2 - a * ((offset**2).sum() - reach**2)
    when = (-b - jnp.sqrt(jnp.maximum(inside, 0.0))) / jnp.maximum(a, 1e-12)
    touches = (inside > 0) & (when >= 0) & (when <= 1)
    touch = position + when * velocity
    normal = (touch - post) / reach
    mirrored = velocity - 2 * (velocity * normal).sum() * normal
    return (
        jnp.where(touches, touch + (1 - when) * mirrored, position + velocity),
        jnp.where(touches, mirrored, velocity),
    )


def _collided(ball: Ball, position: Float[Array, "P 2"], velocity: Float[Array, "P 2"]) -> tuple[Ball, Float[Array, "P 2"], Float[Array, "P 2"]]:
    """Overlapping objects are moved apart about their midpoints, several times if need be; then each rebounds once."""
    places = jnp.concatenate([ball.position[None], position])
    count = places.shape[0]
    sizes = jnp.asarray([c.BALL_SIZE] + [c.PLAYER_SIZE] * (count - 1), places.dtype)
    reach = sizes[:, None] + sizes[None]
    apart = ~jnp.eye(count, dtype=bool)

    def one_round(_: int, carry):
        places, hit = carry
        offset = places[:, None] - places[None]
        distance = jnp.hypot(offset[..., 0], offset[..., 1])
        overlaps = apart & (distance < reach)
        unit = jnp.where(distance[..., None] > 0, offset / jnp.maximum(distance, 1e-12)[..., None], jnp.asarray([1.0, 0.0], places.dtype))
        targets = (places[:, None] + places[None]) / 2 + unit * (reach / 2 + c.COLLISION_GAP)[..., None]
        contacts = overlaps.sum(1)
        moved = jnp.where(overlaps[..., None], targets, 0.0).sum(1) / jnp.maximum(contacts, 1)[:, None]
        return jnp.where((contacts > 0)[:, None], moved, places), hit | (contacts > 0)

    places, hit = jax.lax.fori_loop(0, c.COLLISION_ROUNDS, one_round, (places, jnp.zeros(count, bool)))
    speeds = jnp.concatenate([ball.velocity[None], velocity])
    speeds = jnp.where(hit[:, None], c.COLLISION_REBOUND * speeds, speeds)
    return Ball(places[0], speeds[0]), places[1:], speeds[1:]


def _breathed(players: Players) -> Players:
    tired, weak = players.stamina <= c.RECOVERY_THRESHOLD, players.stamina <= c.EFFORT_DOWN
    recovery = jnp.where(tired, jnp.maximum(c.RECOVERY_MIN, players.recovery - c.RECOVERY_STEP), players.recovery)
    effort = jnp.where(weak, jnp.maximum(c.EFFORT_MIN, players.effort - c.EFFORT_DOWN_STEP), players.effort)
    effort = jnp.where(players.stamina >= c.EFFORT_UP, jnp.minimum(1.0, effort + c.EFFORT_UP_STEP), effort)
    gain = jnp.minimum(jnp.minimum(recovery * c.STAMINA_INC, c.STAMINA_MAX - players.stamina), players.capacity)
    return players._replace(
        stamina=players.stamina + gain, capacity=players.capacity - gain, effort=effort, recovery=recovery
    )
