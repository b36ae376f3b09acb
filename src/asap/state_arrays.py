"""Pytrees as named arrays and back: what checkpoints hold. Names are paths such as `policy.skills.theta`."""

from typing import Any

import jax
import numpy as np

from asap.base.errors import RunError
from asap.policy.policy import ASAPPolicy
from asap.policy.score import parameters_of
from asap.runs.checkpoints import digest


def _named_leaves(tree: Any) -> tuple[list[tuple[str, Any]], Any]:
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path).lstrip("."), leaf) for path, leaf in leaves], structure


def to_arrays(tree: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(leaf) for name, leaf in _named_leaves(tree)[0]}


def from_arrays(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The tree of the template's shape; a checkpoint of something else is refused by name and shape."""
    named, structure = _named_leaves(template)
    for name, leaf in named:
        found = arrays.get(name)
        if found is None or found.shape != leaf.shape or found.dtype != leaf.dtype:
            got = "nothing" if found is None else f"{found.dtype}{list(found.shape)}"
            raise RunError(
                "checkpoint",
                f"was made by another task, K or feature map: {name} should be {leaf.dtype}{list(leaf.shape)}",
                got,
                "use the config that is saved with the run",
            )
    return jax.tree.unflatten(structure, [jax.numpy.asarray(arrays[name]) for name, _ in named])


def parameter_digest(policy: ASAPPolicy) -> str:
    """SHA-256 of what was learned: Theta and beta of all seeds, and what else there is."""
    return digest(to_arrays(parameters_of(policy)))
