"""How much a logged step counts: importance ratios where the behaviour's probabilities are known, else merit by return."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float


def log_ratios_so_far(log_ratio: Float[Array, "T L"], ended: Bool[Array, "T L"]) -> Float[Array, "T L"]:
    """log rho_{0:t} = sum_{s <= t} log pi(a_s | x_s) - log b(a_s | x_s), begun anew in each episode of a lane."""

    def body(before: Float[Array, "L"], step: tuple[Array, Array]) -> tuple[Float[Array, "L"], Float[Array, "L"]]:
        so_far = before + step[0]
        return jnp.where(step[1], 0.0, so_far), so_far

    return jax.lax.scan(body, jnp.zeros(log_ratio.shape[-1]), (log_ratio, ended))[1]


def clipped_weights(log_ratios: Float[Array, "..."], cap: float) -> Float[Array, "..."]:
    """min(rho, cap), in logarithms: rho itself overflows after some hundred steps."""
    return jnp.exp(jnp.minimum(log_ratios, jnp.log(cap)))


def effective_sample_size(weights: Float[Array, "... N"]) -> Float[Array, "..."]:
    """ESS = (sum w)^2 / sum w^2: how many equally weighted samples are worth as much; 0 where all weights are 0."""
    relative = weights / jnp.maximum(weights.max(-1, keepdims=True), 1e-30)  # Squares of tiny weights would vanish.
    return jnp.square(relative.sum(-1)) / jnp.maximum(jnp.square(relative).sum(-1), 1e-30)


MOST_MERIT = 20.0


def merits(totals: Float[np.ndarray, "E"], sharpness: float) -> Float[np.ndarray, "E"]:
    """exp(sharpness (R - mean) / deviation) of the return of each episode, at most 20, then divided by its mean.

    Nonnegative, so that the likelihood it weighs has a maximum; the same for returns in any unit; 1 where all returns are
    equal. Sharpness 0 gives the plain likelihood of what was logged.
    """
    totals = np.asarray(totals, np.float64)
    raised = np.exp(np.minimum(sharpness * (totals - totals.mean()) / (totals.std() + 1e-9), np.log(MOST_MERIT)))
    return (raised / raised.mean()).astype(np.float32)
