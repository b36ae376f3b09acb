"""Spaces of Gymnasium as JSON has them, so that a saved model can tell what it was made for without its environment."""

from typing import Any

import numpy as np
from gymnasium import Space, spaces


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
