"""Which skill rules where: the policy evaluated at many states at once, as NumPy arrays."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from asap.base.errors import UserError
from asap.base.spec import ControlUnits, Spec
from asap.policy.policy import ASAPPolicy

OWNS = 0.005  # Share of states, or of steps, from which on a skill counts as used.
UNBOUNDED = 1e6  # Gymnasium writes "no bound" as infinity or as the largest float.
NUM_STATES = 4096

Descriptor = ArrayLike | tuple[float, ...]  # Tasks have it as a tuple.


class Regions(NamedTuple):
    """The partition at N states."""

    observations: np.ndarray  # (N, O)
    skill_probs: np.ndarray  # (N, S)
    margins: np.ndarray  # (N, K): positive where b_k = 1.
    region_skills: np.ndarray | None = None  # (R,): the skill of each region, where some share one.

    @property
    def rulers(self) -> np.ndarray:
        """The most probable skill of each state; where regions share skills, that of the most probable region."""
        if self.region_skills is None:
            return self.skill_probs.argmax(-1)
        return self.region_skills[self.likeliest_regions]

    @property
    def likeliest_regions(self) -> np.ndarray:
        return (self.margins > 0) @ (1 << np.arange(self.margins.shape[-1]))

    @property
    def shares(self) -> np.ndarray:
        """The share of the states that each skill rules."""
        return np.bincount(self.rulers, minlength=self.skill_probs.shape[-1]) / len(self.skill_probs)


def regions_at(policy: ASAPPolicy, observations: ArrayLike, m: Descriptor) -> Regions:
    """The partition at (N, O) observations of one task."""
    probs, margins = _partition_at(policy, jnp.asarray(observations, jnp.float32), jnp.asarray(m, jnp.float32))
    shared = None if policy.partition.region_skills is None else policy.partition.skill_of_region
    return Regions(np.asarray(observations), np.asarray(probs), np.asarray(margins), shared)


def actions_at(policy: ASAPPolicy, skills: ArrayLike, observations: ArrayLike, m: Descriptor) -> np.ndarray:
    """(N, A): the action probabilities of one given skill at each observation."""
    observations, m = jnp.asarray(observations, jnp.float32), jnp.asarray(m, jnp.float32)
    return np.asarray(_actions_at(policy, jnp.asarray(skills, jnp.int32), observations, m))


def controls_at(
    policy: ASAPPolicy, skills: ArrayLike, observations: ArrayLike, m: Descriptor, spec: Spec
) -> np.ndarray:
    """(N, A): the mean action of one given skill at each observation, as the environment gets it."""
    observations, m = jnp.asarray(observations, jnp.float32), jnp.asarray(m, jnp.float32)
    means = np.asarray(_means_at(policy, jnp.asarray(skills, jnp.int32), observations, m))
    return ControlUnits.of_bounds(spec.action_low, spec.action_high).theirs(means)


# Compiled as a whole, with the policy as an argument: dozens of small operations one by one take seconds to start.
@jax.jit
def _partition_at(
    policy: ASAPPolicy, observations: Float[Array, "N O"], m: Float[Array, "Z"]
) -> tuple[Float[Array, "N S"], Float[Array, "N K"]]:
    def at_one(x: Float[Array, "O"]) -> tuple[Float[Array, "S"], Float[Array, "K"]]:
        psi = policy.psi(x, m)
        return jnp.exp(policy.partition.log_probs(psi)), policy.partition.margins(psi)

    return jax.vmap(at_one)(observations)


@jax.jit
def _actions_at(
    policy: ASAPPolicy, skills: Int[Array, "N"], observations: Float[Array, "N O"], m: Float[Array, "Z"]
) -> Float[Array, "N A"]:
    def at_one(skill: Int[Array, ""], x: Float[Array, "O"]) -> Float[Array, "A"]:
        return jnp.exp(policy.skills.log_probs_of_skill(skill, policy.phi(x, m)))

    return jax.vmap(at_one)(skills, observations)


@jax.jit
def _means_at(
    policy: ASAPPolicy, skills: Int[Array, "N"], observations: Float[Array, "N O"], m: Float[Array, "Z"]
) -> Float[Array, "N A"]:
    return jax.vmap(lambda skill, x: policy.skills.means(policy.phi(x, m))[skill])(skills, observations)


def mean_actions(policy: ASAPPolicy, regions: Regions, skill: int | np.integer, m: Descriptor) -> np.ndarray:
    """(A,): the skill's action probabilities, averaged over the states it rules, or over all if it rules none."""
    ruled = regions.rulers == skill
    states = regions.observations[ruled] if ruled.any() else regions.observations
    if policy.phi.constant:
        states = states[:1]
    return actions_at(policy, np.full(len(states), skill), states, m).mean(0)


def one_per_skill(field: str, values: ArrayLike, num_skills: int) -> np.ndarray:
    values = np.asarray(values, float)
    if values.shape != (num_skills,):
        raise UserError(field, f"must hold one number for each of {num_skills} skills", values.shape, "give one seed's")
    return values


def require_one_seed(policy: ASAPPolicy) -> None:
    if policy.partition.beta.ndim != 2:
        raise UserError("policy", "holds several seeds", policy.partition.beta.shape, "show one seed at a time")


def states_in_bounds(spec: Spec) -> np.ndarray | None:
    """(N, O): states drawn evenly from the observation box, always the same; None if the box has no bounds."""
    low, high = np.array(spec.observation_low), np.array(spec.observation_high)
    if not (np.abs(low) < UNBOUNDED).all() or not (np.abs(high) < UNBOUNDED).all():
        return None
    return low + np.random.default_rng(0).random((NUM_STATES, len(low))) * (high - low)


def usual_states(policy: ASAPPolicy, spec: Spec) -> np.ndarray:
    """(N, O): states as they may have been in training, by mean and deviation of each observation; always the same."""
    if spec.numbered:
        return np.eye(len(spec.observation_names))
    count = len(spec.observation_names)
    mean, deviation = np.zeros(count), np.ones(count)
    for features in (policy.phi, policy.psi):
        if not features.constant:
            mean[list(features.inputs)] = features.shift
            deviation[list(features.inputs)] = 1 / np.asarray(features.scale)
    states = mean + deviation * np.random.default_rng(0).normal(size=(NUM_STATES, count))
    return np.clip(states, spec.observation_low, spec.observation_high)
