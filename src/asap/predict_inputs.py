"""What `predict` is given, checked."""

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from asap.base.errors import UserError
from asap.policy.policy import NO_SKILL


def checked_observation(obs: ArrayLike, names: tuple[str, ...]) -> Float[np.ndarray, "*n O"]:
    cure = f"give {', '.join(names)}, or rows of them"
    try:
        given = np.asarray(obs)
    except ValueError:  # Rows of different lengths.
        raise UserError("obs", "must be an array of numbers", f"a {type(obs).__name__}", cure) from None
    if given.dtype.kind not in "biuf":
        raise UserError("obs", "must be an array of numbers", f"a {type(obs).__name__}", cure)
    if given.ndim not in (1, 2) or given.shape[-1] != len(names):
        raise UserError("obs", f"must have shape ({len(names)},) or (n, {len(names)})", given.shape, cure)
    if given.dtype != np.float32:
        with np.errstate(over="ignore"):  # It becomes infinite, and is refused as such.
            given = given.astype(np.float32)
    finite = np.isfinite(given)
    if not finite.all():
        raise UserError("obs", "must be finite in 32 bits", given[~finite][0], cure)
    return given


def checked_state(
    state: ArrayLike | None, episode_start: ArrayLike | None, shape: tuple[int, ...], num_skills: int
) -> Int[np.ndarray, "*n"]:
    """The previous skills, NO_SKILL where an episode starts."""
    if state is None:
        return np.full(shape, NO_SKILL, np.int32)
    skills = np.asarray(state)
    if skills.dtype.kind not in "iu" or skills.shape != shape:
        got = f"{skills.dtype}{list(skills.shape)}"
        raise UserError(
            "state", f"must hold integers of shape {shape}", got, "give back what predict returned, or None"
        )
    if (skills < NO_SKILL).any() or (skills >= num_skills).any():
        raise UserError(
            "state", f"must be skills below {num_skills}, or -1 for none", skills.tolist(), "give what predict returned"
        )
    skills = skills.astype(np.int32)
    if episode_start is None:
        return skills
    starts = np.asarray(episode_start, bool)
    if starts.size != skills.size:  # stable-baselines3 gives (1,) with a single observation, too.
        raise UserError("episode_start", f"must have shape {shape}", starts.shape, "give one flag per observation")
    return np.where(starts.reshape(shape), np.int32(NO_SKILL), skills)
