"""Partition of the state space by skill hyperplanes (paper, Section 3), and which skill each region has."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.arrays import UNROLL, contract, row, total


def region_bits(num_planes: int) -> Int[Array, "R K"]:
    """Bit k of region r: on which side of plane k it lies (r = sum_k 2^k b_k, k from 0)."""
    return (jnp.arange(2**num_planes)[:, None] >> jnp.arange(num_planes)) & 1


class Partition(eqx.Module):
    """K hyperplanes make R = 2^K regions; the soft sides of the planes give a distribution over them. K = 0 has one.

    Each region has a skill of its own (the paper), skill i in region i, unless `region_skills` says which skill it has:
    then regions may share one, and the probability of a skill is the sum over its regions.
    """

    beta: Float[Array, "K F"]
    alpha_beta: Float[Array, ""]  # Paper: 20 in the rooms, 100 in RoboCup.
    region_skills: tuple[int, ...] | None = eqx.field(static=True, default=None)

    @property
    def num_planes(self) -> int:
        return self.beta.shape[-2]

    @property
    def num_regions(self) -> int:
        return 2**self.num_planes

    @property
    def num_skills(self) -> int:
        return self.num_regions if self.region_skills is None else 1 + max(self.region_skills)

    @property
    def skill_of_region(self) -> np.ndarray:
        """(R,)"""
        return np.arange(self.num_regions) if self.region_skills is None else np.asarray(self.region_skills)

    def margins(self, psi: Float[Array, "F *batch"]) -> Float[Array, "K *batch"]:
        """u_k = alpha_beta psi^T beta_k: positive on the side where b_k = 1."""
        return self.alpha_beta * contract(self.beta, psi)

    def region_log_probs(self, psi: Float[Array, "F *batch"]) -> Float[Array, "R *batch"]:
        """log p(r | x, m) for every region r (Eqs. 1-2)."""
        margins = self.margins(psi)
        # log sigmoid(u) and log sigmoid(-u) share the costly half: min(+-u, 0) - log(1 + exp(-|u|)). |u| is a maximum,
        # whose derivative at 0 is 0: that of jnp.abs is 1 there, which would give one side all of the gradient.
        overlap = jnp.log1p(jnp.exp(-jnp.maximum(margins, -margins)))
        inside, outside = jnp.minimum(margins, 0) - overlap, jnp.minimum(-margins, 0) - overlap
        if self.num_regions > UNROLL:  # Written out, they would take minutes to compile.
            log_probs = jnp.zeros((1, *margins.shape[1:]), margins.dtype)
            for k in range(self.num_planes):
                log_probs = jnp.concatenate([log_probs + outside[k], log_probs + inside[k]])
            return log_probs
        log_probs = [jnp.zeros(margins.shape[1:], margins.dtype)]
        for k in range(self.num_planes):  # Bit k doubles the list: first the regions without it, then those with it.
            log_probs = [p + outside[k] for p in log_probs] + [p + inside[k] for p in log_probs]
        return jnp.stack(log_probs)

    def log_probs(self, psi: Float[Array, "F *batch"]) -> Float[Array, "S *batch"]:
        """log p(i | x, m) for every skill i."""
        return self.log_totals(self.region_log_probs(psi))

    def log_totals(self, regions: Float[Array, "R *batch"]) -> Float[Array, "S *batch"]:
        """log of the sum over the regions of each skill, of what `regions` are the logarithms of."""
        if self.region_skills is None:
            return regions
        if self.num_regions > UNROLL:
            skills = jnp.asarray(self.region_skills)
            largest = jax.lax.stop_gradient(jax.ops.segment_max(regions, skills, self.num_skills))
            return largest + jnp.log(jax.ops.segment_sum(jnp.exp(regions - largest[skills]), skills, self.num_skills))
        own: list[list[Array]] = [[] for _ in range(self.num_skills)]
        for skill, log_prob in zip(self.region_skills, regions):
            own[skill].append(log_prob)
        return jnp.stack([functools.reduce(jnp.logaddexp, logs) for logs in own])

    def plane_weights(self, psi: Float[Array, "F *batch"], drawn: Float[Array, "S *batch"]) -> Float[Array, "K *batch"]:
        """sum_i drawn_i d log p_i / d u_k: how log p responds to each margin, for weights on the skills.

        d log p_i / d u_k = E[b_k | i] - sigmoid(u_k), where E[b_k | i] is 0 or 1 if skill i has one region.
        """
        if self.region_skills is not None:
            regions = self.region_log_probs(psi)
            skills = np.asarray(self.region_skills)
            drawn = drawn[skills] * jnp.exp(regions - self.log_totals(regions)[skills])
        with_bit = region_bits(self.num_planes).T.astype(jnp.float32)
        return contract(with_bit, drawn) - jax.nn.sigmoid(self.margins(psi)) * total(drawn)

    def choose(
        self, uniforms: tuple[Float[Array, "*batch"], ...], psi: Float[Array, "F *batch"]
    ) -> Int[Array, "*batch"]:
        """A skill, one coin per plane."""
        if not self.num_planes:
            return jnp.zeros(psi.shape[1:], jnp.int32)
        sides = jax.nn.sigmoid(self.margins(psi))
        region = sum(((u < sides[k]).astype(jnp.int32) << k for k, u in enumerate(uniforms)), start=jnp.int32(0))
        return region if self.region_skills is None else row(jnp.asarray(self.region_skills, jnp.int32), region)
