"""Which spaces of Gymnasium can be played, as vectors of numbers; actions in our units, and as the environment has them."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from jaxtyping import Float

from asap.base.errors import UserError
from asap.base.spec import ControlUnits

Action = int | Float[np.ndarray, "A"]

MOST_NUMBERS = 4096
MOST_COMBINATIONS = 64  # Of an action that is made of several choices.
LONGEST_KEY, MOST_LEVELS = 80, 8  # Of Dict observations.

_FLATTEN = "flatten with gymnasium.wrappers.FlattenObservation"
_EXTRACT = "wrap it in a feature extractor, or in ResizeObservation and FlattenObservation"
_WRAP = "write a gymnasium.ObservationWrapper that"
_OBSERVATION_CURES = {
    spaces.Tuple: _FLATTEN,
    spaces.OneOf: f"{_WRAP} gives every case the same numbers",
    spaces.Text: f"{_WRAP} turns the text into numbers",
    spaces.Graph: f"{_WRAP} turns the graph into a fixed number of numbers",
    spaces.Sequence: f"{_WRAP} gives a fixed number of numbers",
}
_FEWER = "write a gymnasium.ActionWrapper that offers fewer combinations, or Box actions"
_CHOOSE = "write a gymnasium.ActionWrapper with Discrete or Box actions"


def check_spaces(observation_space: Space, action_space: Space) -> None:
    """Raises UserError where the environment cannot be played."""
    _check_observations(observation_space, "observation_space", 0)
    size = num_numbers(observation_space)
    if size == 0:
        kind = type(observation_space).__name__
        cure = "a policy must see at least one number"
        raise UserError("observation_space", f"{kind} has no numbers in it", observation_space, cure)
    if isinstance(observation_space, spaces.Box) and observation_space.shape == ():
        cure = "give it the shape (1,), e.g. by ReshapeObservation"
        raise UserError("observation_space", "Box has no dimensions", observation_space, cure)
    if size > MOST_NUMBERS:
        what = f"{size:,} numbers are too many to be read, the most is {MOST_NUMBERS:,}"
        raise UserError("observation_space", what, observation_space, _EXTRACT)
    _check_actions(action_space)


def _check_observations(space: Space, field: str, level: int) -> None:
    """Of a Dict, each part under its own field."""
    if isinstance(space, spaces.Dict):
        if level == MOST_LEVELS:
            raise UserError(field, f"Dict is nested more than {MOST_LEVELS} levels deep", cure=_FLATTEN)
        for key in space.spaces:  # Parts are called by their keys: in rules, in messages and in files.
            if not isinstance(key, str) or not key.strip() or not key.isprintable() or len(key) > LONGEST_KEY:
                what = f"a key of Dict must be printable text of at most {LONGEST_KEY} characters"
                raise UserError(field, what, ascii(key)[:LONGEST_KEY], "rename it, or " + _FLATTEN)
        for key, part in space.spaces.items():
            _check_observations(part, f"{field}[{key!r}]", level + 1)
        return
    kind = type(space).__name__
    if not isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        cures = (cure for cls, cure in _OBSERVATION_CURES.items() if isinstance(space, cls))
        cure = next(cures, f"{_WRAP} gives a Box")
        raise UserError(field, f"{kind} is not supported", space, cure)
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3:
        cure = f"rules over pixels cannot be read: {_EXTRACT}"
        raise UserError(field, "images are not supported", space, cure)


def _check_actions(space: Space) -> None:
    field, kind = "action_space", type(space).__name__
    if not isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)):
        raise UserError(field, f"{kind} is not supported", space, _CHOOSE)
    count = num_actions(space)
    if count == 0:
        raise UserError(field, f"{space} has no actions", cure="a policy must have something to choose")
    if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)) and count > MOST_COMBINATIONS:
        shown = f"{count:,}" if count <= 10**9 else "more than 1,000,000,000"
        what = f"{shown} combinations are too many, the most is {MOST_COMBINATIONS}"
        raise UserError(field, what, space, _FEWER)
    if count > MOST_NUMBERS:
        raise UserError(field, f"more than {MOST_NUMBERS:,} actions", space, _CHOOSE)
    if not isinstance(space, spaces.Box) and any(max(part) > np.iinfo(space.dtype).max for part in choices(space)):
        raise UserError(field, f"the last action does not fit into {space.dtype}", space, "start from a smaller number")


def num_numbers(space: Space) -> int:
    """How many numbers stand for an observation."""
    if isinstance(space, spaces.Dict):
        return sum(map(num_numbers, space.spaces.values()))
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    return math.prod(space.shape)


def num_actions(space: Space) -> int:
    """How many actions there are to choose from; of a Box, how many numbers there are to set."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return math.prod(space.nvec.ravel().tolist())
    if isinstance(space, spaces.MultiBinary):
        return 2 ** min(math.prod(space.shape), MOST_NUMBERS)  # A file may tell of any number of them.
    return math.prod(space.shape)


def choices(space: spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary) -> list[range]:
    """The values that each part of an action can have; an action is one of their combinations, in this order."""
    if isinstance(space, spaces.Discrete):
        return [range(int(space.start), int(space.start) + int(space.n))]
    if isinstance(space, spaces.MultiBinary):
        return [range(2)] * math.prod(space.shape)
    pairs = zip(space.start.ravel().tolist(), space.nvec.ravel().tolist(), strict=True)
    return [range(start, start + count) for start, count in pairs]


def combinations(space: spaces.MultiDiscrete | spaces.MultiBinary) -> Iterator[tuple[int, ...]]:
    """All actions, the last part changing fastest."""
    return itertools.product(*choices(space))


def bounds(space: Space) -> tuple[Float[np.ndarray, "O"], Float[np.ndarray, "O"]]:
    """Lowest and highest values of the numbers of an observation."""
    if isinstance(space, spaces.Dict):
        none = np.zeros(0, np.float32)
        pairs = [(none, none), *map(bounds, space.spaces.values())]
        return np.concatenate([low for low, _ in pairs]), np.concatenate([high for _, high in pairs])
    if isinstance(space, spaces.Box):
        with np.errstate(over="ignore"):  # Bounds beyond float32 are no bounds.
            return space.low.astype(np.float32).ravel(), space.high.astype(np.float32).ravel()
    return np.zeros(num_numbers(space), np.float32), np.ones(num_numbers(space), np.float32)


def shape_of(space: Space) -> Any:
    """Of what the environment gives; of a Dict, those of its parts by their keys."""
    is_dict = isinstance(space, spaces.Dict)
    return {key: shape_of(part) for key, part in space.spaces.items()} if is_dict else space.shape


def control(space: Space) -> Callable[[Action], Any]:
    """Discrete: the number of an action, from 0; MultiDiscrete and MultiBinary: that of a combination. Box: one number
    per dimension, see `_scaled`."""
    if isinstance(space, spaces.Box):
        return _scaled(space)
    if isinstance(space, spaces.Discrete):
        kind, start = space.dtype.type, int(space.start)
        # As `sample` gives them, which is what environments have been tried with; made beforehand, to save time.
        return [kind(start + action) for action in range(int(space.n))].__getitem__
    known = [np.array(values, space.dtype).reshape(space.shape) for values in combinations(space)]
    return lambda action: known[action].copy()  # Environments may write into theirs.


def number_of(space: Space, action: Any) -> int:
    """The number of an action to choose, from 0, that `control` turns into this one; ValueError if it is none."""
    given, parts = np.asarray(action), choices(space)
    if given.size != len(parts) or given.dtype.kind not in "biu":
        raise ValueError(f"{action!r:.80} is no action of {space}")
    number = 0
    for value, part in zip(given.ravel().tolist(), parts, strict=True):
        number = len(part) * number + part.index(value)
    return number


def _scaled(space: spaces.Box) -> Callable[[Float[np.ndarray, "A"]], np.ndarray]:
    """Dimensions with two bounds take -1 to 1 for low to high; all are clipped to the bounds they have."""
    low, high, scale, shift = ControlUnits.of(space)
    shape, dtype, is_whole = space.shape, space.dtype, np.issubdtype(space.dtype, np.integer)

    def act(action: Float[np.ndarray, "A"]) -> np.ndarray:
        # Clipped after scaling: rounding must not carry an action over its bound.
        clipped = np.minimum(np.maximum(action * scale + shift, low), high)
        return (np.rint(clipped) if is_whole else clipped).astype(dtype).reshape(shape)

    return act


def sample(space: Space, generator: np.random.Generator) -> Action:
    if isinstance(space, spaces.Box):
        return generator.uniform(-1, 1, num_actions(space))
    return int(generator.integers(num_actions(space)))


def recorded(space: Space, value: Any) -> Action:
    """An action as JSON has it; ValueError if it is none."""
    count = num_actions(space)
    if not isinstance(space, spaces.Box):
        if type(value) is not int or not 0 <= value < count:
            raise ValueError(f"{value!r} is none of {count} actions")
        return value
    try:
        action = np.asarray(value, float)
    except OverflowError:
        action = np.empty(0)
    # Beyond float32 it was not recorded: no policy has such numbers.
    if action.shape != (count,) or not (np.abs(action) <= np.finfo(np.float32).max).all():
        raise ValueError(f"{value!r:.80} is not a list of {count} numbers")
    return action


def record(space: Space) -> dict[str, Any]:
    """Of the kinds that can be played."""
    if isinstance(space, spaces.Dict):  # As pairs: their order is that of the numbers.
        return {"kind": "Dict", "parts": [[key, record(part)] for key, part in space.spaces.items()]}
    common = {"kind": type(space).__name__, "dtype": str(space.dtype)}
    if isinstance(space, spaces.Discrete):
        return common | {"n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return common | {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return common | {"shape": list(space.shape)}
    # As text: JSON has no infinity.
    low, high = ([repr(float(bound)) for bound in bounds.ravel()] for bounds in (space.low, space.high))
    return common | {"shape": list(space.shape), "low": low, "high": high}


def restore(record: dict[str, Any]) -> Space:
    """ValueError, TypeError or KeyError where it is no record."""
    if record["kind"] == "Dict":
        return spaces.Dict([(key, restore(part)) for key, part in record["parts"]])
    kind, dtype = record["kind"], np.dtype(record["dtype"])
    if kind == "Discrete":
        return spaces.Discrete(record["n"], start=record["start"], dtype=dtype.type)
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.asarray(record["nvec"]), dtype=dtype.type, start=np.asarray(record["start"]))
    if kind == "MultiBinary":
        shape = tuple(record["shape"])  # Gymnasium tells a number from a shape of one number.
        return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
    if kind == "Box":
        shape = tuple(record["shape"])
        low, high = (np.asarray([*map(float, record[name])]).reshape(shape) for name in ("low", "high"))
        with np.errstate(all="ignore"):
            return spaces.Box(low.astype(dtype), high.astype(dtype), shape, dtype.type)
    raise ValueError(f"unknown space {kind!r}")
