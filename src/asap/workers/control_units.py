"""Actions of a Box in units of their range, as policies have them, and in the environment's own."""

from typing import NamedTuple

import numpy as np
from gymnasium import spaces
from jaxtyping import Float


class ControlUnits(NamedTuple):
    """Per number of an action. With two bounds, -1 and 1 are these; otherwise both units are the same."""

    low: Float[np.ndarray, "A"]
    high: Float[np.ndarray, "A"]
    scale: Float[np.ndarray, "A"]
    shift: Float[np.ndarray, "A"]

    @classmethod
    def of(cls, space: spaces.Box) -> "ControlUnits":
        low, high = (np.asarray(bound, float).ravel() for bound in (space.low, space.high))
        has_both = np.isfinite(low) & np.isfinite(high)
        half_low, half_high = (np.where(has_both, bound, 0.0) / 2 for bound in (low, high))
        width = half_high - half_low
        return cls(low, high, np.where(has_both & (width > 0), width, 1.0), half_low + half_high)

    def ours(self, action: Float[np.ndarray, "*n A"]) -> Float[np.ndarray, "*n A"]:
        """From the environment's units."""
        return (action - self.shift) / self.scale

    def clipped(self, action: Float[np.ndarray, "*n A"]) -> Float[np.ndarray, "*n A"]:
        """As the environment gets to see it, in our units."""
        return self.ours(np.clip(action * self.scale + self.shift, self.low, self.high))
