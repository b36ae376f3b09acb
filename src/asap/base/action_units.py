"""Numbers of an action in the policy's units, where -1 and 1 are the bounds, and in the environment's. Without JAX."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike


class ControlUnits(NamedTuple):
    """Per number of an action. With two bounds, -1 and 1 are these; otherwise both units are the same."""

    low: Float[np.ndarray, "A"]
    high: Float[np.ndarray, "A"]
    scale: Float[np.ndarray, "A"]
    shift: Float[np.ndarray, "A"]

    @classmethod
    def of_bounds(cls, low: ArrayLike, high: ArrayLike) -> "ControlUnits":
        """In the environment's units; infinite without a bound."""
        low, high = (np.asarray(bound, float).ravel() for bound in (low, high))
        has_both = np.isfinite(low) & np.isfinite(high)
        half_low, half_high = (np.where(has_both, bound, 0.0) / 2 for bound in (low, high))
        width = half_high - half_low
        return cls(low, high, np.where(has_both & (width > 0), width, 1.0), half_low + half_high)

    @classmethod
    def of(cls, space: Any) -> "ControlUnits":
        """Of a Box: its bounds are all that is needed, so Gymnasium is not imported here."""
        return cls.of_bounds(space.low, space.high)

    def ours(self, action: Float[np.ndarray, "*n A"]) -> Float[np.ndarray, "*n A"]:
        """From the environment's units."""
        return (action - self.shift) / self.scale

    def theirs(self, action: Float[np.ndarray, "*n A"]) -> Float[np.ndarray, "*n A"]:
        """To the environment's units, within the bounds."""
        return np.clip(action * self.scale + self.shift, self.low, self.high)

    def clipped(self, action: Float[np.ndarray, "*n A"]) -> Float[np.ndarray, "*n A"]:
        """As the environment gets to see it, in our units."""
        return self.ours(self.theirs(action))
