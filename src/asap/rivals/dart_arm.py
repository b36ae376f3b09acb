"""A planar arm that throws darts at the walls of a room: the domain on which parameterized skills are checked.

    a_j(t)   = LARGEST tanh(sum_b theta_jb phi_b(t)),   phi_b = exp(-(t/T - c_b)^2 / (2 w^2)), divided by their sum
    v_j     += a_j dt,   q_j += v_j dt,   dt = T / 50,   from rest at POSTURE
    hand     = SHOULDER + sum_l L_l (cos s_l, sin s_l),   s_l = q_1 + ... + q_l
    velocity = sum_l L_l (-sin s_l, cos s_l) (v_1 + ... + v_l)

At t = T the hand lets the dart go with its velocity. Position and flight are then those of a point under gravity,
x(t) = x + vx t, y(t) = y + vy t - g t^2 / 2, until it meets a wall, the ceiling or the floor of a room 4 m wide and 3 m high.
The task tau is a point on a wall or on the ceiling; what a throw costs is the distance from there to where the dart
hits. da Silva, Konidaris and Barto (2012) have a room of this kind too. As far as we remember, a single motor drives their
arm, whose other joints swing along, and the motor is driven by movement primitives with more than twice as many parameters.
Here every joint is driven, accelerations are commanded and no torques, and nothing is in the way of the arm. Neither the numbers
of theirs nor their difficulty carry over.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key, fold
from asap.rivals.power import power

WIDTH, HEIGHT = 4.0, 3.0
GRAVITY = 9.81
SHOULDER = (0.9, 1.0)
LENGTHS = (0.35, 0.3, 0.2)
POSTURE = (-0.8, -0.6, -0.4)  # Of the three joints at the start: the arm points down and to the right.
DURATION = 0.4
NUM_STEPS = 50
NUM_BASES = 5
LARGEST = 30.0  # Of joint accelerations, in rad/s^2.
NUM_PARAMETERS = 3 * NUM_BASES

UPDATES, ROLLOUTS, KEPT = 150, 30, 10  # Of PoWER, for each target.
FIRST_SIGMA, SIGMA = 0.5, 0.1  # Exploration from nothing, and from a policy that solves another target.
FALL = 0.1  # Metres of a miss by which the reward falls to a third.
SOLVED = 0.1  # Metres.


class Throws(NamedTuple):
    """What was learned for some targets, one after the other."""

    theta: Float[Array, "n P"]
    solved: Bool[Array, "n"]


class Dart(NamedTuple):
    """Where and how fast it is when the hand lets go."""

    x: Float[Array, ""]
    y: Float[Array, ""]
    vx: Float[Array, ""]
    vy: Float[Array, ""]


class Joints(NamedTuple):
    angles: Float[Array, "3"]
    speeds: Float[Array, "3"]


def bases() -> Float[np.ndarray, "T B"]:
    times, centres = (np.arange(NUM_STEPS) + 0.5) / NUM_STEPS, np.linspace(0, 1, NUM_BASES)
    waves = np.exp(-0.5 * ((times[:, None] - centres) * NUM_BASES) ** 2)
    return np.float32(waves / waves.sum(1, keepdims=True))


def swing(theta: Float[Array, "P"]) -> Dart:
    """The arm's movement up to the release. Accelerations depend on time alone, so both recursions are sums."""
    accelerations, dt = LARGEST * jnp.tanh(bases() @ theta.reshape(3, NUM_BASES).T), DURATION / NUM_STEPS
    speeds = dt * jnp.cumsum(accelerations, axis=0)
    return released(Joints(np.float32(POSTURE) + dt * speeds.sum(0), speeds[-1]))


def released(joints: Joints) -> Dart:
    lengths, turned, turning = np.float32(LENGTHS), jnp.cumsum(joints.angles), jnp.cumsum(joints.speeds)
    cos, sin = jnp.cos(turned), jnp.sin(turned)
    x, y = SHOULDER[0] + lengths @ cos, SHOULDER[1] + lengths @ sin
    return Dart(x, y, -(lengths * sin) @ turning, (lengths * cos) @ turning)


def landing(dart: Dart) -> Float[Array, "2"]:
    """Where it first meets a wall, the ceiling or the floor."""
    wall = jnp.where(dart.vx > 0, WIDTH, 0.0)
    to_wall = jnp.where(jnp.abs(dart.vx) > 1e-6, (wall - dart.x) / _not_zero(dart.vx), jnp.inf)
    to_floor = (dart.vy + jnp.sqrt(dart.vy**2 + 2 * GRAVITY * dart.y)) / GRAVITY
    rest = dart.vy**2 - 2 * GRAVITY * (HEIGHT - dart.y)  # Squared upward speed at the ceiling.
    to_ceiling = jnp.where((rest >= 0) & (dart.vy > 0), (dart.vy - jnp.sqrt(jnp.maximum(rest, 0.0))) / GRAVITY, jnp.inf)
    t = jnp.minimum(jnp.minimum(to_wall, to_floor), to_ceiling)
    return jnp.stack([dart.x + dart.vx * t, dart.y + dart.vy * t - GRAVITY * t**2 / 2])


def _not_zero(value: Float[Array, ""]) -> Float[Array, ""]:
    return jnp.where(jnp.abs(value) > 1e-6, value, 1.0)


def miss(theta: Float[Array, "P"], tau: Float[Array, "2"]) -> Float[Array, ""]:
    """Metres from the target to where the dart of this policy hits."""
    return jnp.sqrt(((landing(swing(theta)) - tau) ** 2).sum() + 1e-12)


def target(uniform: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n 2"]:
    """Points on the right wall from 0.5 m up to the corner, on the ceiling, and on the left wall down to 0.5 m."""
    along = np.asarray(uniform) * 9.0
    x = np.clip(6.5 - along, 0.0, WIDTH)
    return np.stack([x, np.minimum(np.minimum(0.5 + along, HEIGHT), 9.5 - along)], 1)


def learn_throws(key: Key, tau: Float[Array, "n 2"]) -> Throws:
    """PoWER on each target with R = exp(-miss / FALL), from the policy of the nearest target that was hit before; traced."""

    def one_more(known: Throws, number: Int[Array, ""]) -> tuple[Throws, None]:
        knows, distance = known.solved.any(), ((tau - tau[number]) ** 2).sum(1)
        nearest = jnp.argmin(jnp.where(known.solved, distance, jnp.inf))
        start = jnp.where(knows, known.theta[nearest], 0.0)
        sigma = jnp.where(knows, SIGMA, FIRST_SIGMA)

        def reward(theta: Float[Array, "P"]) -> Float[Array, ""]:
            return jnp.exp(-miss(theta, tau[number]) / FALL)

        theta = power(fold(key, number), reward, start, sigma, UPDATES, ROLLOUTS, KEPT)
        is_solved = miss(theta, tau[number]) < SOLVED
        return Throws(known.theta.at[number].set(theta), known.solved.at[number].set(is_solved)), None

    nothing = Throws(jnp.zeros((len(tau), NUM_PARAMETERS)), jnp.zeros(len(tau), bool))
    return jax.lax.scan(one_more, nothing, jnp.arange(len(tau)))[0]
