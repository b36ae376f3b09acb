"""Actions in our units, and as the environment wants them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from jaxtyping import Float

from asap.base.action_units import ControlUnits
from asap.envs.gymnasium.spaces import num_numbers

Action = int | Float[np.ndarray, "A"]


def control(space: Space) -> Callable[[Action], Any]:
    """Discrete: the number of an action, from 0. Box: one number per dimension, see `_scaled`."""
    if isinstance(space, spaces.Discrete):
        kind, start = space.dtype.type, int(space.start)
        # As `sample` gives them, which is what environments have been tried with; made beforehand, to save time.
        return [kind(start + action) for action in range(int(space.n))].__getitem__
    return _scaled(space)


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
    if isinstance(space, spaces.Discrete):
        return int(generator.integers(space.n))
    return generator.uniform(-1, 1, num_numbers(space))


def recorded(space: Space, value: Any) -> Action:
    """An action as JSON has it; ValueError if it is none."""
    if isinstance(space, spaces.Discrete):
        if type(value) is not int or not 0 <= value < space.n:
            raise ValueError(f"{value!r} is none of {space.n} actions")
        return value
    try:
        action = np.asarray(value, float)
    except OverflowError:
        action = np.empty(0)
    # Beyond float32 it was not recorded: no policy has such numbers.
    if action.shape != (num_numbers(space),) or not (np.abs(action) <= np.finfo(np.float32).max).all():
        raise ValueError(f"{value!r:.80} is not a list of {num_numbers(space)} numbers")
    return action
