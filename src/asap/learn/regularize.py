"""What keeps learning alive besides the return: entropy of the actions, and softening of planes that have lost a side.

Before the first successes the gradient of a hyperplane is noise, and noise drives it off the visited states: one side
is never entered again, its skill gets no more data, and with p(1 - p) close to 0 neither does the plane. A bonus on
the usage of skills does not help: its gradient lives at the states next to the boundary, so it pins the plane in some
corner. Softening acts on all states instead. Its penalty on plane k,

    mean over x of KL(uniform over both sides || p_k(. | x)) + const = mean of softplus(u_k) + softplus(-u_k),

has a gradient that does not vanish where the plane is saturated, and draws the plane towards "either side, anywhere",
from which the advantages can part it anew. It acts only while the smaller side has less than the floor of the usage, in
each task for itself: a plane may serve one task well and have lost a side in another.

Both look at the policy at the visited states as if the skill were drawn there, also where the policy commits: they
keep choices open, and a skill that is kept is no choice. They hold the states fixed, and estimate no return.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import UNROLL, lift, total
from asap.base.types import Transition
from asap.config.schema import LearnConfig
from asap.policy.policy import ASAPPolicy
from asap.policy.score import Parameters, has_closed_form, parameters_of, with_parameters
from asap.policy.skills import GaussianSkills

MOST_STATES = 65_536
TINY = 1e-30


class Regularity(NamedTuple):
    """Over a batch of states: mean entropy of pi(. | x) in nats, and the mean probability of each skill."""

    entropy: Float[Array, ""]
    usage: Float[Array, "S"]


def regularity_gradient(
    config: LearnConfig, policy: ASAPPolicy, batch: Transition, done: Float[Array, ""] | float = 0.0
) -> tuple[Parameters, Regularity]:
    """Gradient of the entropy bonus minus the softening penalty; `done` is the share of the budget."""
    if not (config.entropy or config.softening):
        return jax.tree.map(jnp.zeros_like, parameters_of(policy)), regularity_of(policy, batch)
    batch, weight = _thinned(batch), config.entropy * (1 - done if config.schedule == "linear" else 1)
    by = _closed_form if has_closed_form(policy) else _by_autodiff
    return by(config, weight, policy, batch)


def regularity_of(policy: ASAPPolicy, batch: Transition) -> Regularity:
    """Without any gradient."""
    batch = _thinned(batch)
    psi, phi = (part(batch.observation, batch.descriptor) for part in (policy.psi, policy.phi))
    shares, samples = _counted(batch, jnp.exp(policy.partition.log_probs(psi)))
    usage = shares.sum(-1) / samples
    return Regularity(_entropy(policy, phi, shares, usage, samples), usage)


def _thinned(batch: Transition) -> Transition:
    """So many states tell as much as all: on a larger batch this would take longer than the policy gradient."""
    stride = -(-batch.reward.shape[-1] // MOST_STATES)
    return jax.tree.map(lambda leaf: leaf[..., ::stride], batch)


def _entropy(
    policy: ASAPPolicy,
    phi: Float[Array, "D ..."],
    shares: Float[Array, "S N"],
    usage: Float[Array, "S"],
    samples: Int[Array, ""] | int,
) -> Float[Array, ""]:
    """Of a mixture of Gaussians the entropy has no formula: what counts is the mean of theirs."""
    if isinstance(policy.skills, GaussianSkills):
        return usage @ policy.skills.entropies()
    pi = mix(shares, jnp.exp(policy.skills.log_probs(phi)))
    return -(pi * jnp.log(jnp.maximum(pi, TINY))).sum() / samples


def _closed_form(
    config: LearnConfig, weight: Float[Array, ""] | float, policy: ASAPPolicy, batch: Transition
) -> tuple[Parameters, Regularity]:
    """By autodiff this costs as much again as the policy gradient itself.

    d H = sum_i g_i d p_i + sum_{i,a} p_i h_a d sigma_i(a),  h_a = -(log pi(a) + 1),  g_i = sum_a sigma_i(a) h_a
    """
    x, m = batch.observation, batch.descriptor
    psi, phi = policy.psi(x, m), policy.phi(x, m)
    margins = policy.partition.margins(psi)
    skills = jnp.exp(policy.partition.log_probs(psi))
    sigma = jnp.exp(policy.skills.log_probs(phi))
    log_pi = jnp.log(jnp.maximum(mix(skills, sigma), TINY))
    slope = -(log_pi + 1)
    worth = mix(slope, lift(sigma, 2, 1).swapaxes(0, 1))  # g_i
    shares, samples = _counted(batch, skills)
    planes = weight * policy.partition.plane_weights(psi, shares * worth)
    planes = planes - config.softening * softening_slope(margins, config.softening_floor, _tasks_of(batch))
    beta = jnp.einsum("kn,fn->kf", policy.partition.alpha_beta * planes, psi) / samples
    # sum over states of p_i sigma_i(a) (h_a - g_i) phi.
    if policy.phi.constant:
        slopes = (sigma * (jnp.einsum("sn,an->sa", shares, slope) - (shares * worth).sum(-1)[:, None]))[..., None]
    else:
        slopes = jnp.einsum("san,dn->sad", shares[:, None] * sigma * (slope - worth[:, None]), phi)
    theta = weight * policy.skills.alpha_theta * slopes / samples
    entropy = -total(jnp.exp(log_pi) * log_pi).mean(where=batch.counts)
    return Parameters(theta, beta), Regularity(entropy, shares.sum(-1) / samples)


def _by_autodiff(
    config: LearnConfig, weight: Float[Array, ""] | float, policy: ASAPPolicy, batch: Transition
) -> tuple[Parameters, Regularity]:
    def value(parameters: Parameters) -> tuple[Float[Array, ""], Regularity]:
        changed = with_parameters(policy, parameters)
        psi, phi = (part(batch.observation, batch.descriptor) for part in (changed.psi, changed.phi))
        margins = changed.partition.margins(psi)
        shares, samples = _counted(batch, jnp.exp(changed.partition.log_probs(psi)))
        usage = shares.sum(-1) / samples
        entropy = _entropy(changed, phi, shares, usage, samples)
        lost = jax.lax.stop_gradient(lost_side(margins, config.softening_floor, _tasks_of(batch)))
        penalty = (lost * (jax.nn.softplus(margins) + jax.nn.softplus(-margins))).sum() / samples
        return weight * entropy - config.softening * penalty, Regularity(entropy, usage)

    return jax.grad(value, has_aux=True)(parameters_of(policy))


def _counted(batch: Transition, skills: Float[Array, "S N"]) -> tuple[Float[Array, "S N"], Int[Array, ""] | int]:
    """The skills' probabilities, 0 at steps that do not count, and the number of those that do."""
    return (skills if batch.counts is None else skills * batch.counts), batch.num_counted


def _tasks_of(batch: Transition) -> Bool[Array, "M N"] | None:
    """Which task each step that counts belongs to; None for a batch of one task in which all do."""
    if batch.counts is None:
        return batch.of_task
    return batch.counts[None] if batch.of_task is None else batch.of_task & batch.counts


def mix(weights: Float[Array, "S N"], rows: Float[Array, "S A *N"]) -> Float[Array, "A N"]:
    """sum_i weights_i rows_i."""
    rows = lift(rows, 2, 1)
    if rows.shape[0] > UNROLL:
        return (weights[:, None] * rows).sum(0)
    return sum(weights[s] * rows[s] for s in range(rows.shape[0]))


def lost_side(
    margins: Float[Array, "K N"], floor: float, of_task: Bool[Array, "M N"] | None = None
) -> Float[Array, "K N"]:
    """From 0 (the smaller side of the plane has the floor or more) to 1 (nothing), within the task of each step."""
    if of_task is None:
        of_task = jnp.ones((1, margins.shape[-1]), bool)
    of_task = of_task.astype(margins.dtype)
    side = jax.nn.sigmoid(margins) @ of_task.T / jnp.maximum(of_task.sum(-1), 1)
    return jax.nn.relu(1 - jnp.minimum(side, 1 - side) / floor) @ of_task


def softening_slope(
    margins: Float[Array, "K N"], floor: float, of_task: Bool[Array, "M N"] | None = None
) -> Float[Array, "K N"]:
    """N times the derivative of the penalty by each margin, with what each plane counts held fixed."""
    return lost_side(margins, floor, of_task) * jnp.tanh(margins / 2)
