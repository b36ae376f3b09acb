"""Partition of the state space by skill hyperplanes (paper, Section 3)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from asap.base.arrays import contract


def skill_bits(num_planes: int) -> Int[Array, "S K"]:
    """Bit k of skill i: on which side of plane k skill i lives (i = sum_k 2^k b_k, k from 0)."""
    return (jnp.arange(2**num_planes)[:, None] >> jnp.arange(num_planes)) & 1


class Partition(eqx.Module):
    """K hyperplanes; the soft side of each plane gives a distribution over S = 2^K skills; K = 0 has one skill."""

    beta: Float[Array, "K F"]
    alpha_beta: Float[Array, ""]  # Paper: 20 in the rooms, 100 in RoboCup.

    @property
    def num_planes(self) -> int:
        return self.beta.shape[-2]

    def margins(self, psi: Float[Array, "F *batch"]) -> Float[Array, "K *batch"]:
        """u_k = alpha_beta psi^T beta_k: positive on the side where b_k = 1."""
        return self.alpha_beta * contract(self.beta, psi)

    def log_probs(self, psi: Float[Array, "F *batch"]) -> Float[Array, "S *batch"]:
        """log p(i | x, m) for every skill i (Eqs. 1-2)."""
        margins = self.margins(psi)
        # log sigmoid(u) and log sigmoid(-u) share the costly half: min(+-u, 0) - log(1 + exp(-|u|)). |u| is a maximum,
        # whose derivative at 0 is 0: that of jnp.abs is 1 there, which would give one side all of the gradient.
        overlap = jnp.log1p(jnp.exp(-jnp.maximum(margins, -margins)))
        inside, outside = jnp.minimum(margins, 0) - overlap, jnp.minimum(-margins, 0) - overlap
        log_probs = [jnp.zeros(margins.shape[1:], margins.dtype)]
        for k in range(self.num_planes):  # Bit k doubles the list: first the skills without it, then those with it.
            log_probs = [p + outside[k] for p in log_probs] + [p + inside[k] for p in log_probs]
        return jnp.stack(log_probs)

    def choose(
        self, uniforms: tuple[Float[Array, "*batch"], ...], psi: Float[Array, "F *batch"]
    ) -> Int[Array, "*batch"]:
        """A skill, one coin per plane."""
        if not self.num_planes:
            return jnp.zeros(psi.shape[1:], jnp.int32)
        sides = jax.nn.sigmoid(self.margins(psi))
        return sum(((u < sides[k]).astype(jnp.int32) << k for k, u in enumerate(uniforms)), start=jnp.int32(0))
