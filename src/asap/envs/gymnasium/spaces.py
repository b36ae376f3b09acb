"""Which spaces of Gymnasium can be played, as vectors of numbers, and what to do about the others."""

import math
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from jaxtyping import Float

from asap.base.errors import UserError

MOST_NUMBERS = 4096

_FLATTEN = "flatten with gymnasium.wrappers.FlattenObservation"
_EXTRACT = "wrap it in a feature extractor, or in ResizeObservation and FlattenObservation"
_OBSERVATION_CURES = {
    spaces.Dict: _FLATTEN,
    spaces.Tuple: _FLATTEN,
    spaces.OneOf: "write a gymnasium.ObservationWrapper that gives every case the same numbers",
    spaces.Text: "write a gymnasium.ObservationWrapper that turns the text into numbers",
    spaces.Graph: "write a gymnasium.ObservationWrapper that turns the graph into a fixed number of numbers",
    spaces.Sequence: "write a gymnasium.ObservationWrapper that gives a fixed number of numbers",
}
_NUMBER_THEM = "write a gymnasium.ActionWrapper that numbers the combinations as Discrete"
_CHOOSE = "write a gymnasium.ActionWrapper with Discrete or Box actions"


def check_spaces(observation_space: Space, action_space: Space) -> None:
    """Raises UserError where the environment cannot be played."""
    _check_observations(observation_space)
    _check_actions(action_space)


def _check_observations(space: Space) -> None:
    field, kind = "observation_space", type(space).__name__
    if not isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        cures = [cure for cls, cure in _OBSERVATION_CURES.items() if isinstance(space, cls)]
        cure = cures[0] if cures else "write a gymnasium.ObservationWrapper that gives a Box"
        raise UserError(field, f"{kind} is not supported", space, cure)
    size = num_numbers(space)
    if size == 0:
        raise UserError(field, f"{kind} has no numbers in it", space, "a policy must see at least one number")
    if isinstance(space, spaces.Box) and space.shape == ():
        raise UserError(field, "Box has no dimensions", space, "give it the shape (1,), e.g. by ReshapeObservation")
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3:
        cure = f"rules over pixels cannot be read: {_EXTRACT}"
        raise UserError(field, "images are not supported", space, cure)
    if size > MOST_NUMBERS:
        raise UserError(
            field, f"{size:,} numbers are too many to be read, the most is {MOST_NUMBERS:,}", space, _EXTRACT
        )


def _check_actions(space: Space) -> None:
    field, kind = "action_space", type(space).__name__
    if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
        raise UserError(field, f"{kind} is not supported", space, _NUMBER_THEM)
    if not isinstance(space, (spaces.Discrete, spaces.Box)):
        raise UserError(field, f"{kind} is not supported", space, _CHOOSE)
    if num_numbers(space) == 0:
        raise UserError(field, f"{space} has no actions", cure="a policy must have something to choose")
    if num_numbers(space) > MOST_NUMBERS:
        raise UserError(field, f"more than {MOST_NUMBERS:,} actions", space, _CHOOSE)
    if isinstance(space, spaces.Discrete) and int(space.start) + int(space.n) - 1 > np.iinfo(space.dtype).max:
        raise UserError(field, f"the last action does not fit into {space.dtype}", space, "start from a smaller number")


def num_numbers(space: Space) -> int:
    """How many numbers stand for an element; for actions, how many there are to choose from or to set."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    return math.prod(space.shape)


def bounds(space: Space) -> tuple[Float[np.ndarray, "O"], Float[np.ndarray, "O"]]:
    """Lowest and highest values of these numbers."""
    if isinstance(space, spaces.Box):
        with np.errstate(over="ignore"):  # Bounds beyond float32 are no bounds.
            return space.low.astype(np.float32).ravel(), space.high.astype(np.float32).ravel()
    return np.zeros(num_numbers(space), np.float32), np.ones(num_numbers(space), np.float32)


def record(space: Space) -> dict[str, Any]:
    """Of the kinds that can be played."""
    common = {"kind": type(space).__name__, "dtype": str(space.dtype)}
    match space:
        case spaces.Discrete():
            return common | {"n": int(space.n), "start": int(space.start)}
        case spaces.Box():
            # As text: JSON has no infinity.
            low, high = ([repr(float(bound)) for bound in bounds.ravel()] for bounds in (space.low, space.high))
            return common | {"shape": list(space.shape), "low": low, "high": high}
        case spaces.MultiDiscrete():
            return common | {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        case spaces.MultiBinary():
            return common | {"shape": list(space.shape)}
    raise TypeError(f"no record of {space}")


def restore(told: dict[str, Any]) -> Space:
    """ValueError, TypeError or KeyError where it is no record."""
    kind, dtype = told["kind"], np.dtype(told["dtype"])
    if kind == "Discrete":
        return spaces.Discrete(told["n"], start=told["start"], dtype=dtype.type)
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.asarray(told["nvec"]), dtype=dtype.type, start=np.asarray(told["start"]))
    if kind == "MultiBinary":
        return spaces.MultiBinary(tuple(told["shape"]))
    if kind == "Box":
        low, high = (
            np.asarray([float(bound) for bound in told[name]]).reshape(told["shape"]) for name in ("low", "high")
        )
        with np.errstate(all="ignore"):
            return spaces.Box(low.astype(dtype), high.astype(dtype), tuple(told["shape"]), dtype.type)
    raise ValueError(f"unknown space {kind!r}")
