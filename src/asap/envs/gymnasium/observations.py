"""Values as they come from an environment's `reset` and `step`, checked and turned into our own.

Each function returns what it was given, in our form, or raises `EnvError`.
"""

import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from jaxtyping import Float

from asap.envs.gymnasium.errors import EnvError, show

LARGEST = float(np.finfo(np.float32).max)
_SURELY = 1e38  # Numbers below this fit into float32.
_FEW = 64

Notice = Callable[[str], None]
Reading = Callable[[Any], Float[np.ndarray, "O"]]


def reading(space: Space, notice: Notice) -> Reading:
    """How observations of a space become vectors. The vector is always new: environments may reuse theirs."""
    if isinstance(space, spaces.Discrete):
        return _one_hot(space)
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hots(space)
    return _vector(space, notice)


def _vector(space: spaces.Box | spaces.MultiBinary, notice: Notice) -> Reading:
    shape, dtype, is_flat = space.shape, space.dtype, len(space.shape) == 1
    is_float = np.issubdtype(dtype, np.floating)
    size = _size_of_few if math.prod(shape) <= _FEW else _size_of_many

    def read(observation: Any) -> Float[np.ndarray, "O"]:
        if is_float and type(observation) is np.ndarray and observation.dtype is dtype and observation.shape == shape:
            flat = observation if is_flat else observation.ravel()
            if size(flat) < _SURELY:
                return flat.astype(np.float32)
        return _with_care(observation, space, notice)

    return read


# One number that is nan or large if any of the vector is. For a few numbers a look at each by NumPy is ten times as
# dear.
def _size_of_few(flat: Float[np.ndarray, "O"]) -> float:
    return math.hypot(*flat.tolist())


def _size_of_many(flat: Float[np.ndarray, "O"]) -> float:
    return float(np.abs(flat).max())


def _with_care(observation: Any, space: spaces.Box | spaces.MultiBinary, notice: Notice) -> Float[np.ndarray, "O"]:
    try:
        array = np.asarray(observation)
    except Exception:
        raise EnvError("obs is not an array of numbers", show(observation)) from None
    if array.dtype.kind not in "biuf":
        raise _uncastable(array.dtype, space.dtype, observation)
    if array.shape != space.shape:
        raise EnvError(f"obs shape {array.shape} but observation_space says {space.shape}", show(observation))
    if array.dtype != space.dtype:
        notice(f"obs has dtype {array.dtype} but observation_space says {space.dtype}; cast")
    flat = array.ravel()
    if array.dtype == np.float16:  # Which has no number as large as the bound.
        flat = flat.astype(np.float32)
    for i in np.flatnonzero(~(np.abs(flat) <= LARGEST) if array.dtype.kind == "f" else []):
        what = f"{flat[i]:g}" if not np.isfinite(flat[i]) else f"{flat[i]:g}, more than float32 can hold"
        raise EnvError(f"{_place('obs', array.shape, i)} is {what}")
    return flat.astype(np.float32)


def _uncastable(dtype: np.dtype, wanted: np.dtype, observation: Any) -> EnvError:
    return EnvError(f"obs dtype {dtype} cannot be cast to {wanted}, which observation_space says", show(observation))


def _place(name: str, shape: tuple[int, ...], index: int) -> str:
    return f"{name}[{', '.join(str(i) for i in np.unravel_index(index, shape))}]"


def _one_hot(space: spaces.Discrete) -> Reading:
    size, start = int(space.n), int(space.start)

    def read(observation: Any) -> Float[np.ndarray, "O"]:
        try:
            place = observation.__index__() - start
        except (AttributeError, TypeError):
            raise EnvError(f"obs must be an integer, as observation_space {space} says", show(observation)) from None
        if not 0 <= place < size:
            raise EnvError(f"obs is outside of observation_space {space}", show(observation))
        vector = np.zeros(size, np.float32)
        vector[place] = 1
        return vector

    return read


def _one_hots(space: spaces.MultiDiscrete) -> Reading:
    starts, counts = space.start.ravel(), space.nvec.ravel()
    offsets, size = np.cumsum(counts) - counts, int(counts.sum())

    def read(observation: Any) -> Float[np.ndarray, "O"]:
        array = np.asarray(observation)
        if array.dtype.kind not in "biu":
            raise _uncastable(array.dtype, space.dtype, observation)
        if array.shape != space.shape:
            raise EnvError(f"obs shape {array.shape} but observation_space says {space.shape}", show(observation))
        places = array.ravel() - starts
        if (places < 0).any() or (places >= counts).any():
            raise EnvError(f"obs is outside of observation_space {space}", show(observation))
        vector = np.zeros(size, np.float32)
        vector[offsets + places] = 1
        return vector

    return read


def number(reward: Any) -> float:
    """A reward, if it is a finite number."""
    if reward is None:
        raise EnvError("reward must be a number", "None")
    is_scalar = isinstance(reward, numbers.Real) or (isinstance(reward, np.ndarray) and reward.shape == ())
    if not is_scalar and not isinstance(reward, np.bool_):
        raise EnvError("reward must be a scalar", show(reward))
    try:
        value = float(reward)
    except (TypeError, ValueError, OverflowError):
        raise EnvError("reward must be a number", show(reward)) from None
    if value != value or abs(value) == np.inf:
        raise EnvError(f"reward is {value:g}")
    return value


def flag(name: str, value: Any) -> bool:
    """`terminated` or `truncated`, if it is as good as a bool."""
    if not _is_truth(value):
        raise EnvError(f"{name} must be True or False", show(value))
    return bool(value)


def _is_truth(value: Any) -> bool:
    """A bool, or 0 or 1, of whatever type; but no text, no array of several, nothing that is not a number."""
    if isinstance(value, (bool, np.bool_)):
        return True
    is_array = isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "biuf"
    return (isinstance(value, numbers.Real) or is_array) and bool(value in (0, 1))


def success(info: Any, notice: Notice) -> bool | None:
    """By the two keys that environments use for it; None where they do not tell."""
    for key in ("is_success", "success"):
        value = dict.get(info, key) if isinstance(info, dict) else None  # A dict of their own kind may raise.
        if value is None:
            continue
        try:
            if _is_truth(value):
                return bool(value)
        except Exception:  # It raises when it is looked at.
            pass
        notice(f"info['{key}'] must be True or False; it is {show(value)}, which is not counted")
    return None


def wrong_answer(answer: Any) -> EnvError:
    """About what `step` returned, if it is not five values."""
    if not isinstance(answer, tuple):
        return EnvError("step must return (obs, reward, terminated, truncated, info)", show(answer))
    cure = " (wrap with shimmy)" if len(answer) == 4 else ""
    return EnvError(f"step returned {len(answer)} values; Gymnasium needs 5{cure}")
