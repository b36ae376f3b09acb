"""A softmax policy that is linear in features, and its policy gradient from whole episodes: one skill, no partition.

    pi(a | x) = exp(theta_a . phi(x)) / sum_b exp(theta_b . phi(x))
    g         = mean over steps of (e_a - pi(x)) phi(x)^T (G_t - b_t)
    F         = mean over steps of (diag pi(x) - pi(x) pi(x)^T) kron phi(x) phi(x)^T

G_t is the discounted reward to go, and b_t its mean over the episodes that still run at t (REINFORCE, Williams,
1992). Systems that learn many tasks one by one learn each of them with it. F is the Fisher matrix: how much each
direction of theta matters where the policy goes. Seeds are learned one after the other: as one product of matrices
for all of them they would take ten times longer.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike

from asap.base.arrays import pick
from asap.base.keys import Key, uniforms
from asap.base.types import Transition
from asap.experience.compiled_play import program
from asap.experience.counted_play import CountedPlay
from asap.experience.rollout import Choice, Uniforms
from asap.policy.policy import NO_SKILL
from asap.rivals.features import AffineBasis, FourierBasis


class SoftmaxActor(eqx.Module):
    """The policy; stacked over seeds where it is played."""

    theta: Float[Array, "A F"]
    basis: FourierBasis | AffineBasis = eqx.field(static=True)

    def probabilities(self, x: Float[Array, "O"], m: Float[Array, "Z"]) -> Float[Array, "A"]:
        return jax.nn.softmax(self.theta @ self.basis(x, m))

    def draws(self, key: Key) -> Uniforms:
        return uniforms(key)[:1]

    def choose(self, draws: Uniforms, x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]) -> Choice:
        return jnp.int32(NO_SKILL), pick(draws[0], self.probabilities(x, m))


class Improved(NamedTuple):
    """What so many steps of learning came to, for every seed."""

    theta: Float[np.ndarray, "seeds A F"]
    fisher: Float[np.ndarray, "seeds AF AF"]  # Rows and columns in the order of theta.ravel().
    returns: Float[np.ndarray, "seeds"]  # Mean undiscounted return of the last batch; NaN where there was none.
    learned: Bool[np.ndarray, "seeds"]  # Whether there were steps for a batch; if not, theta is as it was.


class MovingWeights(NamedTuple):
    """One seed's parameters while they are learned."""

    theta: Float[Array, "A F"]
    optimizer: Any


@dataclass(frozen=True)
class PolicyGradient:
    """How a task is learned."""

    basis: FourierBasis | AffineBasis
    discount: float
    step_size: float = 0.1  # Of Adam.
    num_episodes: int = 10  # Of a batch.

    def improve(
        self, play: CountedPlay, theta: Float[np.ndarray, "seeds A F"], horizon: int, until: ArrayLike
    ) -> Improved:
        """Each seed learns until about `until` steps are used, one number or one for each; it begins no batch that
        the budget may not have the steps for."""
        actors = SoftmaxActor(jnp.asarray(theta, jnp.float32), self.basis)
        moving = MovingWeights(actors.theta, optax.adam(self.step_size).init(actors.theta))
        moving = moving._replace(optimizer=_for_each_seed(moving.optimizer, len(play.seeds)))
        steps, learned, returns = None, np.zeros(len(play.seeds), bool), np.full(len(play.seeds), np.nan)
        while True:
            half_a_batch = self.num_episodes * horizon / 2  # The next task is not to get too little.
            active = play.counter.used + half_a_batch <= np.asarray(until)
            active &= play.counter.affords(self.num_episodes, horizon)
            if not active.any():
                break
            actors = SoftmaxActor(moving.theta, self.basis)
            played, totals = play.play(actors, self.num_episodes, active)
            moving = program(_moved, "gradient")(moving, played, active, gradient=self)
            steps = played if steps is None else program(_chosen)(active, played, steps)
            learned |= active
            means = np.asarray(totals.returns).sum(-1) / np.asarray(totals.episodes).sum(-1)
            returns = np.where(active, means, returns)
        shape = moving.theta.shape[0], moving.theta[0].size
        fisher = np.zeros((*shape, shape[1])) if steps is None else self.fisher(moving.theta, steps)
        return Improved(centred(np.asarray(moving.theta, float)), fisher, returns, learned)

    def fisher(self, theta: Float[Array, "seeds A F"], steps: Transition) -> Float[np.ndarray, "seeds AF AF"]:
        return np.asarray(program(_fisher_of_seeds, "basis")(theta, steps, basis=self.basis), float)


def centred(theta: Float[np.ndarray, "*seeds A F"]) -> Float[np.ndarray, "*seeds A F"]:
    """The same policy with weights that sum to 0 over the actions: what all actions share means nothing."""
    return theta - theta.mean(-2, keepdims=True)


def ascent(actor: SoftmaxActor, steps: Transition, discount: float) -> Float[Array, "A F"]:
    """g of one seed, from steps with axes (..., time, episodes)."""
    counts, flat = steps.counts.astype(jnp.float32), steps.flat()
    to_go = rewards_to_go(steps.reward * counts, discount)
    baseline = (to_go * counts).sum(1) / jnp.maximum(counts.sum(1), 1)
    advantage = (to_go - baseline[:, None]) * counts
    if steps.decides is not None:  # Where all actions do the same, there is nothing to learn.
        advantage = advantage * steps.decides
    spread = jnp.sqrt((advantage**2).sum() / counts.sum()) + 1e-8  # Only the direction is left to rewards.
    features, probabilities = _seen(actor, flat)
    taken = jnp.arange(probabilities.shape[0])[:, None] == flat.action
    return ((taken - probabilities) * (advantage / spread).reshape(-1)) @ features.T / counts.sum()


def rewards_to_go(rewards: Float[Array, "T L"], discount: float) -> Float[Array, "T L"]:
    """G_t = r_t + discount G_{t+1}. Rewards behind the end of an episode are 0."""

    def before(later: Float[Array, "L"], reward: Float[Array, "L"]) -> tuple[Float[Array, "L"], Float[Array, "L"]]:
        now = reward + discount * later
        return now, now

    return jax.lax.scan(before, jnp.zeros_like(rewards[0]), rewards, reverse=True)[1]


def fisher(actor: SoftmaxActor, steps: Transition) -> Float[Array, "AF AF"]:
    """F of one seed; the sum over actions is exact, and only states are sampled."""
    flat = steps.flat()
    features, probabilities = _seen(actor, flat)
    own = jnp.eye(len(probabilities))[:, :, None] * probabilities
    among = (own - probabilities[:, None] * probabilities) * flat.counts
    blocks = jax.lax.map(lambda weights: (weights * features) @ features.T, among.reshape(-1, features.shape[1]))
    a, f = len(probabilities), len(features)
    return blocks.reshape(a, a, f, f).swapaxes(1, 2).reshape(a * f, a * f) / flat.counts.sum()


def _seen(actor: SoftmaxActor, flat: Transition) -> tuple[Float[Array, "F N"], Float[Array, "A N"]]:
    features = jax.vmap(actor.basis, in_axes=-1, out_axes=-1)(flat.observation, flat.descriptor)
    return features, jax.nn.softmax(actor.theta @ features, axis=0)


def _moved(
    moving: MovingWeights, steps: Transition, active: Bool[Array, "seeds"], gradient: PolicyGradient
) -> MovingWeights:
    adam = optax.adam(gradient.step_size)

    def of_seed(moving: MovingWeights, steps: Transition, is_active: Bool[Array, ""]) -> MovingWeights:
        uphill = ascent(SoftmaxActor(moving.theta, gradient.basis), steps, gradient.discount)
        change, optimizer = adam.update(-uphill, moving.optimizer)
        moved = MovingWeights(moving.theta + change, optimizer)
        return jax.tree.map(lambda new, old: jnp.where(is_active, new, old), moved, moving)

    return jax.lax.map(lambda seed: of_seed(*seed), (moving, steps, active))


def _fisher_of_seeds(
    theta: Float[Array, "seeds A F"], steps: Transition, basis: FourierBasis | AffineBasis
) -> Float[Array, "seeds AF AF"]:
    return jax.lax.map(lambda seed: fisher(SoftmaxActor(seed[0], basis), seed[1]), (theta, steps))


def _chosen(is_new: Bool[Array, "seeds"], new: Transition, old: Transition) -> Transition:
    """Steps of the last batch of each seed that was counted."""
    return jax.tree.map(lambda n, o: jnp.where(is_new.reshape(-1, *[1] * (n.ndim - 1)), n, o), new, old)


def _for_each_seed(optimizer: Any, num_seeds: int) -> Any:
    """Its counters too."""
    return jax.tree.map(lambda leaf: leaf if leaf.ndim else jnp.broadcast_to(leaf, num_seeds), optimizer)
