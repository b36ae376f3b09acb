"""Hyperplanes taken from a policy or added to it, and skills merged, without learning."""

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from asap.base.errors import UserError
from asap.policy.features import Features
from asap.policy.partition import Partition, region_bits
from asap.policy.policy import ASAPPolicy, Kept
from asap.policy.score import parameters_of, with_parameters
from asap.policy.skills import GaussianSkills, GibbsSkills, UniformSkills


def regions_on_side(num_planes: int, k: int, side: int) -> np.ndarray:
    """The regions with b_k = side, in their order: so numbered, they are the regions of the other planes."""
    regions = np.arange(2**num_planes)
    return regions[(regions >> k) & 1 == side]


def drop_plane(policy: ASAPPolicy, k: int, keep_side: int) -> ASAPPolicy:
    """Without plane k: the skills on one side of it serve both."""
    kept = policy.partition.skill_of_region[regions_on_side(policy.partition.num_planes, k, keep_side)]
    used, region_skills = np.unique(kept, return_inverse=True)
    skills = tuple(new for new, old in enumerate(used.tolist()) if old in policy.kept.skills)
    return _without_plane(policy, k, policy.skills.at(used), region_skills, skills)


def merge_sides(policy: ASAPPolicy, k: int, usage: Float[Array, "S"]) -> ASAPPolicy:
    """Without plane k: two skills that only it told apart become their mixture, weighted by usage."""
    skills = policy.partition.skill_of_region
    low, high = (skills[regions_on_side(policy.partition.num_planes, k, side)] for side in (0, 1))
    pairs, region_skills = np.unique(np.stack([low, high], -1), axis=0, return_inverse=True)
    theta = jax.vmap(lambda pair: mixture(policy, pair, usage))(jnp.asarray(pairs))
    return _without_plane(policy, k, dataclasses.replace(policy.skills, theta=theta), region_skills.ravel())


def merge_skills(policy: ASAPPolicy, skills: Sequence[int], usage: Float[Array, "S"]) -> ASAPPolicy:
    """These skills become one, their mixture, which has all their regions."""
    first, *others = sorted({int(skill) for skill in skills})
    left = [skill for skill in range(policy.num_skills) if skill not in others]
    theta = jnp.asarray(policy.skills.theta).at[first].set(mixture(policy, jnp.asarray([first, *others]), usage))
    of_region = [left.index(first if skill in others else skill) for skill in policy.partition.skill_of_region]
    partition = _partition(policy.partition, policy.partition.beta, of_region)
    merged = dataclasses.replace(policy.skills, theta=theta).at(np.asarray(left))
    kept = Kept(policy.kept.planes, tuple(left.index(s) for s in policy.kept.skills if s in left and s != first))
    return dataclasses.replace(policy, partition=partition, skills=merged, kept=kept)


def mixture(policy: ASAPPolicy, skills: Array, usage: Float[Array, "S"]) -> Float[Array, "A 1"]:
    """theta of the skill whose action probabilities are the mean of theirs, by usage; unused skills count the same."""
    if not policy.phi.constant:
        raise UserError(
            "policy.skills", "a mixture of linear skills is not a linear skill", "linear", "merge constant ones"
        )
    weights = jnp.asarray(usage, jnp.float32)[skills]
    weights = jnp.where(weights.sum() > 0, weights, 1.0)
    log_sigma = policy.skills.log_probs(jnp.ones(1))[skills]
    mixed = jax.nn.logsumexp(log_sigma + jnp.log(weights / weights.sum())[:, None], axis=0)
    return mixed[:, None] / policy.skills.alpha_theta


def merged_by_fit(
    policy: ASAPPolicy,
    plane: int | None,
    groups: Sequence[tuple[int, ...]],
    region_skills: Sequence[int],
    states: np.ndarray,
    m: np.ndarray,
    regions: np.ndarray,
) -> ASAPPolicy:
    """Without a plane, or without any: skills that become one are fitted to what was done where the new one is in force, logits
    or means by least squares. `groups` are the old skills of each new one, `states` (N, O) those that were played, of tasks with
    descriptors (N, Z), in the policy's `regions`."""
    active, left = policy.partition.skill_of_region[regions], regions
    if plane is not None:
        left = (regions & ((1 << plane) - 1)) | (regions >> (plane + 1) << plane)
    now = np.asarray(region_skills)[left]
    used = [now == new for new in range(len(groups))]
    phi = np.asarray(policy.phi(states.T, m.T), float)
    phi = phi if phi.ndim == 2 else np.tile(phi[:, None], (1, len(states)))
    theta, log_std = np.asarray(policy.skills.theta, float), getattr(policy.skills, "log_std", None)
    rows, deviations = [], []
    for group, mask in zip(groups, used):
        if len(group) == 1 or not mask.any():
            rows.append(theta[list(group)].mean(0))
            deviations.append(None if log_std is None else np.asarray(log_std)[list(group)].mean(0))
            continue
        inputs, own = phi[:, mask], theta[active[mask]]
        wanted = np.einsum("nad,dn->an", own, inputs)
        if log_std is None and policy.phi.constant:  # The mixture: logits of a mean are no mean of logits.
            chances = np.exp(policy.skills.alpha_theta * (wanted - wanted.max(0)))
            mean = (chances / chances.sum(0)).mean(1)
            rows.append((np.log(np.maximum(mean, 1e-12)) / float(policy.skills.alpha_theta))[:, None])
            deviations.append(None)
            continue
        square = inputs @ inputs.T + 1e-6 * mask.sum() * np.eye(len(inputs))
        rows.append(np.linalg.solve(square, inputs @ wanted.T).T)
        if log_std is None:
            deviations.append(None)
        else:
            error = (wanted - rows[-1] @ inputs) ** 2 + np.exp(2 * np.asarray(log_std, float)[active[mask]].T)
            deviations.append(0.5 * np.log(error.mean(1)))
    new = {"theta": np.float32(rows)} | ({} if log_std is None else {"log_std": np.float32(deviations)})
    skills = dataclasses.replace(policy.skills, **new)
    kept = tuple(index for index, group in enumerate(groups) if len(group) == 1 and group[0] in policy.kept.skills)
    if plane is not None:
        return _without_plane(policy, plane, skills, region_skills, kept)
    partition = _partition(policy.partition, policy.partition.beta, region_skills)
    return dataclasses.replace(policy, partition=partition, skills=skills, kept=policy.kept._replace(skills=kept))


def grow(policy: ASAPPolicy, plane_beta: Float[Array, "F"]) -> ASAPPolicy:
    """One more plane, the last, with equal skills on both sides: the policy is as before until they part."""
    beta = jnp.concatenate([policy.partition.beta, jnp.asarray(plane_beta)[None]])
    before, count = policy.partition.skill_of_region, policy.num_skills
    partition = _partition(policy.partition, beta, np.concatenate([before, before + count]))
    kept = policy.kept._replace(skills=(*policy.kept.skills, *(skill + count for skill in policy.kept.skills)))
    skills = policy.skills.at(np.arange(2 * count) % count)
    return dataclasses.replace(policy, partition=partition, skills=skills, kept=kept)


def unshared(policy: ASAPPolicy) -> ASAPPolicy:
    """The same policy with a skill of its own in every region."""
    partition = _partition(policy.partition, policy.partition.beta, np.arange(policy.partition.num_regions))
    before = policy.partition.skill_of_region
    kept = policy.kept._replace(skills=tuple(r for r, s in enumerate(before.tolist()) if s in policy.kept.skills))
    return dataclasses.replace(policy, partition=partition, skills=policy.skills.at(before), kept=kept)


def _without_plane(
    policy: ASAPPolicy,
    k: int,
    skills: GibbsSkills | GaussianSkills,
    region_skills: Sequence[int] | np.ndarray,
    kept_skills: tuple[int, ...] = (),
) -> ASAPPolicy:
    beta = policy.partition.beta[np.arange(policy.partition.num_planes) != k]
    kept = Kept(tuple(p - (p > k) for p in policy.kept.planes if p != k), kept_skills)
    partition = _partition(policy.partition, beta, region_skills)
    return dataclasses.replace(policy, partition=partition, skills=skills, kept=kept)


def _partition(before: Partition, beta: Float[Array, "K F"], region_skills: Sequence[int] | np.ndarray) -> Partition:
    """Where each region has a skill of its own, in order, nothing is said of it."""
    named = tuple(int(skill) for skill in region_skills)
    return Partition(beta, before.alpha_beta, None if named == tuple(range(len(named))) else named)


class Planes(eqx.Module):
    """What a policy looks at to choose its skill: hyperplanes, and the features under them."""

    partition: Partition
    psi: Features


def planes_of(policy: ASAPPolicy) -> Planes:
    return Planes(policy.partition, policy.psi)


def with_planes(policy: ASAPPolicy, planes: Planes) -> ASAPPolicy:
    """The skills of a policy under the planes of another one."""
    return dataclasses.replace(policy, partition=planes.partition, psi=planes.psi)


def soften(policy: ASAPPolicy, length: float) -> ASAPPolicy:
    """Planes longer than this shortened to it: both sides mix again, and the plane can turn."""
    beta = policy.partition.beta
    norm = jnp.linalg.norm(beta, axis=-1, keepdims=True)
    return eqx.tree_at(lambda p: p.partition.beta, policy, beta * jnp.minimum(1.0, length / norm))


def flip(policy: ASAPPolicy, signs: Float[Array, "K"]) -> ASAPPolicy:
    """Planes with sign -1 change sides: their two half-spaces swap skills (paper, Figure 2d)."""
    parameters = parameters_of(policy)
    return with_parameters(policy, parameters._replace(beta=parameters.beta * jnp.asarray(signs)[:, None]))


def uniform(policy: ASAPPolicy) -> ASAPPolicy:
    """Every action is equally likely, in every state: random play."""
    nothing = np.zeros_like(policy.skills.theta)
    if isinstance(policy.skills, GaussianSkills):
        return eqx.tree_at(lambda p: p.skills, policy, UniformSkills(nothing))
    return eqx.tree_at(lambda p: p.skills.theta, policy, nothing)


def sign_patterns(num_planes: int) -> Float[Array, "R K"]:
    """All 2^K of them; the first flips nothing."""
    return 1.0 - 2.0 * region_bits(num_planes)


def with_one_skill(policy: ASAPPolicy) -> ASAPPolicy:
    """The first one everywhere."""
    weights = parameters_of(policy)
    theta = np.array(np.broadcast_to(weights.theta[:1], weights.theta.shape))
    return with_parameters(policy, weights._replace(theta=theta))


def has_one_skill(policy: ASAPPolicy) -> bool:
    theta = np.asarray(parameters_of(policy).theta)
    return bool((theta == theta[:1]).all())


def without_idle_planes(policy: ASAPPolicy) -> ASAPPolicy:
    """Without any, where all skills are the same: it acts alike, and reads better."""
    while policy.partition.num_planes and has_one_skill(policy):
        policy = drop_plane(policy, 0, 0)
    return policy
