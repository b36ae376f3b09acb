"""Actions in our units, and as the environment wants them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from jaxtyping import Float

from asap.base.spec import ControlUnits
from asap.envs.gymnasium.spaces import choices, combinations, num_actions

Action = int | Float[np.ndarray, "A"]


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
