"""The episodic natural actor-critic (Peters and Schaal, 2008), for the numbers of parameterised actions.

An episode with return R from s0 gives one row of a linear system: [sum_t grad_theta log pi(x_t | s_t, a_t), phi(s0)] (w, v) = R. The
part w of its least-squares solution of least norm (the pseudo-inverse) is the natural gradient; v . phi(s0) is what starts explain.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from asap.base.types import Transition
from asap.experience.compiled_play import program
from asap.rivals.parameterized_actions import Act
from asap.rivals.parameterized_sarsa import Basis, ParameterizedPolicy

SMALLEST = 1e-6  # Singular values, as shares of the largest, that single precision can tell from 0.


class Rollouts(NamedTuple):
    """What is needed of whole episodes, for each seed."""

    scores: Float[np.ndarray, "seeds N C P B"]
    starts: Float[np.ndarray, "seeds N D"]
    returns: Float[np.ndarray, "seeds N"]

    @classmethod
    def of(cls, policies: ParameterizedPolicy, steps: Transition, starts: Basis, takes: tuple[int, ...]) -> "Rollouts":
        of_seeds = program(_of_seeds, "starts", "takes")
        return cls(*(np.asarray(part, float) for part in of_seeds(policies, steps, starts=starts, takes=takes)))


def natural_gradient(
    scores: Float[np.ndarray, "N K"], starts: Float[np.ndarray, "N D"], returns: Float[np.ndarray, "N"]
) -> Float[np.ndarray, "K"]:
    rows = np.hstack([scores, starts])
    return (np.linalg.pinv(rows, rcond=SMALLEST) @ returns)[: scores.shape[1]]


def improved(
    theta: Float[np.ndarray, "seeds C P B"], rollouts: Rollouts, step: float
) -> Float[np.ndarray, "seeds C P B"]:
    """theta + step * w / |w| for each seed.

    Where all episodes return the same, w is what rounding leaves, and the step goes anywhere: an exploration that the normalised
    gradient brings with it.
    """
    after = np.array(theta, float)
    for seed, (scores, starts, returns) in enumerate(zip(*rollouts)):
        gradient = natural_gradient(scores.reshape(len(scores), -1), starts, returns)
        size = np.linalg.norm(gradient)
        if size > 0:
            after[seed] += step * (gradient / size).reshape(theta.shape[1:])
    return after.astype(np.float32)


def _of_seeds(policies: ParameterizedPolicy, steps: Transition, starts: Basis, takes: tuple[int, ...]) -> Any:
    return jax.vmap(lambda policy, own: _of_seed(policy, own, starts, takes))(policies, steps)


def _of_seed(
    policy: ParameterizedPolicy, steps: Transition, starts: Basis, takes: tuple[int, ...]
) -> tuple[Array, Array, Array]:
    """Steps have axes (..., time, episodes). A number is no decision where its choice ignores it, where all actions do
    the same, or behind the end."""
    over_batch = lambda basis: jax.vmap(jax.vmap(basis, -1, -1), -1, -1)  # noqa: E731
    psi = over_batch(policy.means)(steps.observation, steps.descriptor)
    which, numbers = Act.read(steps.action)
    matters = steps.counts if steps.decides is None else steps.counts & steps.decides
    chosen = (jnp.arange(len(takes))[:, None, None] == which) & matters
    means = jnp.einsum("cpb,btn->cptn", policy.theta, psi)
    used = jnp.arange(policy.theta.shape[1]) < jnp.asarray(takes)[:, None]
    errors = (numbers - means) / policy.deviation**2 * chosen[:, None] * used[..., None, None]
    scores = jnp.einsum("cptn,btn->ncpb", errors, psi)
    at_start = jax.vmap(starts, -1)(steps.observation[:, 0], steps.descriptor[:, 0])
    return scores, at_start, (steps.reward * steps.counts).sum(0)
