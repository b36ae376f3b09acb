"""Small operations in the form that the CPU compiler fuses into one loop over a batch.

Throughout the policy, axis 0 is the vector's own (features, skills, actions) and any batch axes come after it, so one
function serves one sample and many, and every element is a flat array over the batch. (Under `vmap` the batch axis
would come first and the vector's own few elements last, where the compiler cannot vectorise: three times slower,
measured.) A dot product, a gather or a cumulative sum is written out over a few elements, because as an operation of
its own it walks memory once more; long vectors take the ordinary operation.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.custom_batching
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num
from numpy.typing import ArrayLike

from asap.base import compile_cache
from asap.base.errors import RunError

UNROLL = 16


def lift(values: Array, own_axes: int, batch_axes: int) -> Array:
    """`values` with batch axes of length 1 where it has none, so that it broadcasts over a batch."""
    missing = own_axes + batch_axes - values.ndim
    return values.reshape(values.shape + (1,) * missing)


def contract(weights: Float[Array, "*rest F"], vector: Float[Array, "F *batch"]) -> Float[Array, "..."]:
    """weights @ vector."""
    if vector.shape[0] > UNROLL:
        return jnp.tensordot(weights, vector, axes=1)
    own = weights.ndim - 1
    return sum(lift(weights[..., f], own, vector.ndim - 1) * vector[f] for f in range(vector.shape[0]))


def row(table: Num[Array, "S *rest"], index: Int[Array, "*batch"]) -> Num[Array, "..."]:
    """table[index]."""
    own = table.ndim - 1
    if table.shape[0] > UNROLL:
        return jnp.moveaxis(table[index], range(index.ndim), range(-index.ndim, 0)) if index.ndim else table[index]
    chosen = lift(table[0], own, index.ndim)
    for s in range(1, table.shape[0]):
        chosen = jnp.where(index == s, lift(table[s], own, index.ndim), chosen)
    return chosen


def element(vector: Float[Array, "S ..."], index: Int[Array, "*batch"]) -> Float[Array, "..."]:
    """vector[index], each sample with its own index; further axes of the vector go along."""
    if vector.shape[0] > UNROLL:
        return jnp.take_along_axis(vector, jnp.clip(index, 0)[None], axis=0)[0]
    chosen = vector[0]
    for s in range(1, vector.shape[0]):
        chosen = jnp.where(index == s, vector[s], chosen)
    return chosen


def pick(uniform: Float[Array, "*batch"], probabilities: Float[Array, "A *batch"]) -> Int[Array, "*batch"]:
    """The index at which the cumulative distribution passes `uniform`."""
    if probabilities.shape[0] > UNROLL:
        return (uniform >= jnp.cumsum(probabilities, axis=0)[:-1]).sum(0).astype(jnp.int32)
    index, cumulative = jnp.zeros_like(uniform, jnp.int32), 0.0
    for a in range(probabilities.shape[0] - 1):
        cumulative = cumulative + probabilities[a]
        index = index + (uniform >= cumulative).astype(jnp.int32)
    return index


def total(vector: Float[Array, "S *batch"]) -> Float[Array, "*batch"]:
    """vector.sum(0)."""
    return vector.sum(0) if vector.shape[0] > UNROLL else sum(vector[s] for s in range(vector.shape[0]))


def log_total(logs: Float[Array, "S *batch"]) -> tuple[Float[Array, "*batch"], Float[Array, "S *batch"]]:
    """log(exp(logs).sum(0)) and the shares exp(logs) / exp(logs).sum(0), from the same exponentials."""
    largest = logs.max(0)
    if logs.shape[0] <= UNROLL:
        largest = functools.reduce(jnp.maximum, [logs[s] for s in range(logs.shape[0])])
    relative = jnp.exp(logs - largest)
    norm = total(relative)
    return largest + jnp.log(norm), relative / norm


COMPILER_OPTIONS = {"xla_cpu_use_fusion_emitters": False}


@functools.cache
def _compiler_options() -> dict[str, bool] | None:
    """The older loop emitter of the CPU compiler, where there is one: JAX 0.12 has it no more.

    It compiles in half the time and runs as fast (measured on the rooms; soccer runs at three quarters of the speed):
    most runs last seconds.
    """
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda: 0, compiler_options=COMPILER_OPTIONS).lower().compile()
    except RuntimeError:  # An option that the compiler does not know.
        return None
    return COMPILER_OPTIONS


def compiled(function: Callable, **options: Any) -> Callable:
    """`jax.jit` with the options of the compiler that are best here; programs are kept for later processes."""
    compile_cache.use()
    return jax.jit(function, compiler_options=_compiler_options(), **options)


def compiled_when_called(function: Callable) -> Callable:
    """The same for functions of modules: to import them changes nothing in the process."""
    program = functools.cache(lambda: compiled(function))
    return functools.wraps(function)(lambda *arguments: program()(*arguments))


def over_seeds(function: Callable) -> Callable:
    """`vmap` over seeds; a single seed is done without, because a loop under `vmap` selects its whole carry at each
    step."""

    def mapped(*arguments):
        if jax.tree.leaves(arguments)[0].shape[0] > 1:
            return jax.vmap(function)(*arguments)
        alone = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
        return jax.tree.map(lambda leaf: leaf[None], alone)

    return mapped


@jax.custom_batching.custom_vmap
def anyone(flag: Bool[Array, ""]) -> Bool[Array, ""]:
    """The flag; under `vmap`, whether it is set for any of those that are mapped over: one answer for all.

    A loop that asks it goes on for all as long as for one, and has nothing to select.
    """
    return flag


@anyone.def_vmap
def _anyone(size: int, is_mapped: list[bool], flag: Bool[Array, "*mapped"]) -> tuple[Bool[Array, ""], bool]:
    return (flag.any(0) if is_mapped[0] else flag), False


def _named_leaves(tree: Any) -> tuple[list[tuple[str, Any]], Any]:
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path).lstrip("."), leaf) for path, leaf in leaves], structure


def to_arrays(tree: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(leaf) for name, leaf in _named_leaves(tree)[0]}


def blank_arrays(template: Any, prefix: str) -> dict[str, np.ndarray]:
    """Zeros for every array of a part of a tree, by the names that start with `prefix`."""
    return {prefix + name: np.zeros(leaf.shape, leaf.dtype) for name, leaf in _named_leaves(template)[0]}


def from_arrays(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The tree of the template's shape, on the host; a checkpoint of something else is refused by name and shape."""
    named, structure = _named_leaves(template)
    for name, leaf in named:
        found = arrays.get(name)
        if found is None or (found.shape, found.dtype) != (leaf.shape, leaf.dtype):
            _refuse(name, found, leaf)
    return jax.tree.unflatten(structure, [arrays[name] for name, _ in named])


def _refuse(name: str, found: np.ndarray | None, leaf: Any) -> None:
    if found is not None and (found.shape, found.dtype.kind) == (leaf.shape, leaf.dtype.kind):
        if max(found.dtype.itemsize, leaf.dtype.itemsize) == 8:  # Numbers of 32 and of 64 bits.
            what = f"was saved in another mode of JAX: {name} is {leaf.dtype} in this process"
            cure = "set JAX_ENABLE_X64=1" if found.dtype.itemsize == 8 else "unset JAX_ENABLE_X64"
            raise RunError("checkpoint", what, found.dtype, cure)
    what = f"was made for another task, K or feature map: {name} should be {leaf.dtype}{list(leaf.shape)}"
    got = "nothing" if found is None else f"{found.dtype}{list(found.shape)}"
    raise RunError("checkpoint", what, got, "use the config that is saved with the run")


def stack(trees: list) -> Any:
    """Trees of one shape as one, with a first axis over them; on the host."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def members(tree: Any, count: int) -> list:
    """All trees that were stacked; walking through a tree of modules takes longer than an index, so it is done once."""
    leaves, structure = jax.tree.flatten(tree)
    leaves = [*map(np.asarray, leaves)]
    return [structure.unflatten([leaf[index] for leaf in leaves]) for index in range(count)]


def member(tree: Any, index: int) -> Any:
    """One of the trees that were stacked; on the host, where an index of JAX would be one more program to compile."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], tree)


def known_mean(values: ArrayLike, axis: int | tuple[int, ...] = -1) -> np.ndarray | np.floating:
    """The mean of what is known; NaN where nothing is, which NumPy's own would warn of."""
    values = np.asarray(values, float)
    known = ~np.isnan(values)
    count = known.sum(axis)
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis) / np.maximum(count, 1), np.nan)
