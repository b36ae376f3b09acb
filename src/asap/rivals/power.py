"""PoWER: policy search by weighting explorations with their reward (Kober and Peters, 2009), on whole episodes.

An implementation of ours, not the authors' code. Rollout k plays theta_k = theta + sigma eps_k and earns R_k >= 0. Of all
rollouts so far the best B are kept, and

    theta   <- theta + sum_k R_k (theta_k - theta) / sum_k R_k
    sigma^2 <- sum_k R_k (theta_k - theta)^2 / sum_k R_k,   within [SMALLEST, 1] times the first sigma

with theta the one before the update. Kept rollouts count by their distance from where theta is now, so a good one of long ago
still pulls. There is no step size; what scales R scales nothing here, so how steeply R falls with the cost decides how greedy it is.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from asap.base.keys import Key, fold, normals

SMALLEST = 0.05  # Exploration shrinks to this part of the first one.


class Search(NamedTuple):
    """Where a search is: the policy, how far it explores, and the best rollouts so far."""

    theta: Float[Array, "P"]
    sigma: Float[Array, "P"]
    kept: Float[Array, "B P"]
    rewards: Float[Array, "B"]


def begin_search(theta: Float[Array, "P"], sigma: Float[Array, ""] | float, num_kept: int) -> Search:
    """Nothing is kept yet: no reward, no weight."""
    kept = jnp.broadcast_to(theta, (num_kept, theta.size))
    return Search(theta, jnp.full_like(theta, sigma), kept, jnp.zeros(num_kept))


def explore(key: Key, search: Search, num_rollouts: int) -> Float[Array, "N P"]:
    """The parameters that so many rollouts play."""
    ids = jnp.arange(num_rollouts * search.theta.size).reshape(num_rollouts, -1)
    return search.theta + search.sigma * jax.vmap(jax.vmap(lambda i: normals(fold(key, i))[0]))(ids)


def improved(
    search: Search, played: Float[Array, "N P"], rewards: Float[Array, "N"], first_sigma: Float[Array, ""] | float
) -> Search:
    """One update. A negative reward counts as none; without any reward nothing moves."""
    every = jnp.concatenate([search.kept, played])
    earned = jnp.concatenate([search.rewards, jnp.maximum(rewards, 0.0)])
    rewards, best = jax.lax.top_k(earned, search.rewards.size)
    kept, total = every[best], rewards.sum()
    weights = rewards / jnp.where(total > 0, total, 1.0)
    moves = kept - search.theta
    spread = jnp.sqrt(weights @ moves**2)
    sigma = jnp.where(total > 0, jnp.clip(spread, SMALLEST * first_sigma, first_sigma), search.sigma)
    return Search(search.theta + weights @ moves, sigma, kept, rewards)


def power(
    key: Key,
    reward: Callable[[Float[Array, "P"]], Float[Array, ""]],
    theta: Float[Array, "P"],
    sigma: Float[Array, ""] | float,
    num_updates: int,
    num_rollouts: int,
    num_kept: int,
) -> Float[Array, "P"]:
    """The policy after so many updates of a reward that is certain; traced, for one task."""

    def one_update(search: Search, update: Int[Array, ""]) -> tuple[Search, None]:
        played = explore(fold(key, update), search, num_rollouts)
        return improved(search, played, jax.vmap(reward)(played), sigma), None

    return jax.lax.scan(one_update, begin_search(theta, sigma, num_kept), jnp.arange(num_updates))[0].theta
