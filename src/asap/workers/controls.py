"""Actions in our units as the environment wants them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from jaxtyping import Float

Control = Callable[[Any], Any]


def control(space: Space) -> Control:
    """Discrete: the number of an action, from 0. Box: one number per dimension, see `_scaled`."""
    if isinstance(space, spaces.Discrete):
        kind, start = space.dtype.type, int(space.start)
        # As `sample` gives them, which is what environments have been tried with; made beforehand, to save time.
        return [kind(start + action) for action in range(int(space.n))].__getitem__
    return _scaled(space)


def _scaled(space: spaces.Box) -> Callable[[Float[np.ndarray, "A"]], np.ndarray]:
    """Dimensions with two bounds take -1 to 1 for low to high; all are clipped to the bounds they have."""
    low, high = (bound.astype(float).ravel() for bound in (space.low, space.high))
    has_both = np.isfinite(low) & np.isfinite(high)
    halves = np.where(has_both, low, 0) / 2, np.where(has_both, high, 0) / 2
    scale, shift = np.where(has_both, halves[1] - halves[0], 1), halves[0] + halves[1]
    shape, dtype, is_whole = space.shape, space.dtype, np.issubdtype(space.dtype, np.integer)

    def act(action: Float[np.ndarray, "A"]) -> np.ndarray:
        # Clipped after scaling: rounding must not carry an action over its bound.
        clipped = np.minimum(np.maximum(action * scale + shift, low), high)
        return (np.rint(clipped) if is_whole else clipped).astype(dtype).reshape(shape)

    return act
