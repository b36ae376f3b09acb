"""Values as they come from an environment's `reset` and `step`, checked and turned into our own.

Each function returns what it was given, in our form, or raises `EnvError`.
"""

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from jaxtyping import Float

from asap.envs.gymnasium.errors import EnvError, show
from asap.envs.gymnasium.spaces import num_numbers

LARGEST = float(np.finfo(np.float32).max)
SURELY = 1e38  # Numbers below this fit into float32.
SUCCESS_KEYS = "is_success", "success"  # Of infos.
_FEW = 64

Notice = Callable[[str], None]
Reading = Callable[[Any], Float[np.ndarray, "O"]]


def reading(space: Space, notice: Notice, place: str = "obs") -> Reading:
    """How observations of a space become vectors. The vector is always new: environments may reuse theirs.

    `place` is what an observation is called in messages.
    """
    if isinstance(space, spaces.Dict):
        return _parts(space, notice, place)
    if isinstance(space, spaces.Discrete):
        return _one_hot(space, place)
    return _one_hots(space, place) if isinstance(space, spaces.MultiDiscrete) else _vector(space, notice, place)


def entry(space: Space, index: int, place: str = "obs") -> str:
    """Where in an observation a number of its vector stands: `obs['arm'][2]`."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            if index < num_numbers(part):
                return entry(part, index, f"{place}[{key!r}]")
            index -= num_numbers(part)
    return _place(place, space.shape, index)


def _parts(space: spaces.Dict, notice: Notice, place: str) -> Reading:
    """One part after the other, in the order of the space."""
    reads = {key: reading(part, notice, f"{place}[{key!r}]") for key, part in space.spaces.items()}
    none = np.zeros(0, np.float32)

    def read(observation: Any) -> Float[np.ndarray, "O"]:
        if not isinstance(observation, Mapping):
            raise EnvError(f"{place} must be a dict, as observation_space says", show(observation))
        for key in reads:
            if key not in observation:
                raise EnvError(f"{place} lacks the key {key!r} of observation_space")
        if len(observation) > len(reads):
            extra = next(key for key in observation if key not in reads)
            raise EnvError(f"{place} has the key {extra!r:.80}, which is not in observation_space")
        return np.concatenate([none, *(read_part(observation[key]) for key, read_part in reads.items())])

    return read


def _vector(space: spaces.Box | spaces.MultiBinary, notice: Notice, place: str) -> Reading:
    shape, dtype, is_flat = space.shape, space.dtype, len(space.shape) == 1
    is_float, are_few = np.issubdtype(dtype, np.floating), math.prod(shape) <= _FEW

    def size(flat: Float[np.ndarray, "O"]) -> float:
        """A number that is nan or large if any is. For a few numbers a look at each by NumPy is ten times as dear."""
        return math.hypot(*flat.tolist()) if are_few else float(np.abs(flat).max())

    def read(observation: Any) -> Float[np.ndarray, "O"]:
        if is_float and type(observation) is np.ndarray and observation.dtype is dtype and observation.shape == shape:
            flat = observation if is_flat else observation.ravel()
            if size(flat) < SURELY:
                return flat.astype(np.float32)
        return _with_care(observation, space, notice, place)

    return read


def _with_care(observation: Any, space: Space, notice: Notice, place: str) -> Float[np.ndarray, "O"]:
    try:
        array = np.asarray(observation)
    except Exception:
        raise EnvError(f"{place} is not an array of numbers", show(observation)) from None
    _require_fit(array, space, "biuf", place, observation)
    if array.dtype != space.dtype:
        notice(f"{place} has dtype {array.dtype} but observation_space says {space.dtype}; cast")
    flat = array.ravel()
    if array.dtype == np.float16:  # Which has no number as large as the bound.
        flat = flat.astype(np.float32)
    for i in np.flatnonzero(~(np.abs(flat) <= LARGEST) if array.dtype.kind == "f" else []):
        what = f"{flat[i]:g}" if not np.isfinite(flat[i]) else f"{flat[i]:g}, more than float32 can hold"
        raise EnvError(f"{_place(place, array.shape, i)} is {what}")
    return flat.astype(np.float32)


def _require_fit(array: np.ndarray, space: Space, kinds: str, place: str, observation: Any) -> None:
    """The kind of its numbers, and its shape."""
    if array.dtype.kind not in kinds:
        what = f"{place} dtype {array.dtype} cannot be cast to {space.dtype}, which observation_space says"
        raise EnvError(what, show(observation))
    if array.shape != space.shape:
        raise EnvError(f"{place} shape {array.shape} but observation_space says {space.shape}", show(observation))


def _place(name: str, shape: tuple[int, ...], index: int) -> str:
    return f"{name}[{', '.join(str(i) for i in np.unravel_index(index, shape))}]" if shape else name


def _one_hot(space: spaces.Discrete, place: str) -> Reading:
    size, start = int(space.n), int(space.start)

    def read(observation: Any) -> Float[np.ndarray, "O"]:
        try:
            value = observation.__index__() - start
        except (AttributeError, TypeError):
            what = f"{place} must be an integer, as observation_space {space} says"
            raise EnvError(what, show(observation)) from None
        if not 0 <= value < size:
            raise EnvError(f"{place} is outside of observation_space {space}", show(observation))
        vector = np.zeros(size, np.float32)
        vector[value] = 1
        return vector

    return read


def _one_hots(space: spaces.MultiDiscrete, place: str) -> Reading:
    starts, counts = space.start.ravel(), space.nvec.ravel()
    offsets, size = np.cumsum(counts) - counts, int(counts.sum())

    def read(observation: Any) -> Float[np.ndarray, "O"]:
        array = np.asarray(observation)
        _require_fit(array, space, "biu", place, observation)
        places = array.ravel() - starts
        if (places < 0).any() or (places >= counts).any():
            raise EnvError(f"{place} is outside of observation_space {space}", show(observation))
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
    if _is_truth(value):
        return bool(value)
    raise EnvError(f"{name} must be True or False", show(value))


def _is_truth(value: Any) -> bool:
    """A bool, or 0 or 1, of whatever type; but no text, no array of several, nothing that is not a number."""
    if isinstance(value, (bool, np.bool_)):
        return True
    is_array = isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "biuf"
    return (isinstance(value, numbers.Real) or is_array) and bool(value in (0, 1))


def success(info: Any, notice: Notice) -> bool | None:
    """By the two keys that environments use for it; None where they do not tell."""
    for key in SUCCESS_KEYS:
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
