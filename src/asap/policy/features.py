"""Feature maps: psi under the hyperplanes and phi under the skills.

A map takes the inputs it is given by index from the observation, scales them, and expands them; the task descriptor m
enters psi not at all, additively, or through interactions [1, x, y] (x) [1, m] (only these can swap sides, errata E13).
"""

import abc
import itertools
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from asap.base.arrays import UNROLL, contract, lift


class Basis(eqx.Module):
    """An expansion of the scaled inputs."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "n *batch"]) -> Float[Array, "F *batch"]: ...

    @abc.abstractmethod
    def names(self, inputs: tuple[str, ...]) -> tuple[str, ...]: ...

    @property
    def has_bias(self) -> bool:
        """Whether the first feature is 1; those that may do without it have a field that tells."""
        return getattr(self, "bias", True)


def _with_bias(features: Float[Array, "F *batch"]) -> Float[Array, "G *batch"]:
    return jnp.concatenate([jnp.ones_like(features[:1]), features])


class Polynomial(Basis):
    """1, x, y, then all products up to `degree`. Degree 0 is the bias alone, degree 1 the linear map."""

    degree: int = eqx.field(static=True)

    def terms(self, count: int) -> list[tuple[int, ...]]:
        """The inputs whose product each feature is."""
        return [
            term for d in range(self.degree + 1) for term in itertools.combinations_with_replacement(range(count), d)
        ]

    def __call__(self, x: Float[Array, "n *batch"]) -> Float[Array, "F *batch"]:
        if self.degree == 1 and x.shape[0] > UNROLL:
            return _with_bias(x)
        one = jnp.ones_like(x[0])
        return jnp.stack([math.prod((x[j] for j in term), start=one) for term in self.terms(x.shape[0])])

    def names(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(" ".join(inputs[j] for j in term) or "1" for term in self.terms(len(inputs)))


class Fourier(Basis):
    """sin(pi (a^T x + c)) for every frequency vector a (paper: the 3R feature has a = [3, 0]), with an optional bias.

    Without `phases`, every c is 0.
    """

    frequencies: Float[Array, "F n"]
    bias: bool = eqx.field(static=True)
    phases: Float[Array, "F"] | None = None

    def __call__(self, x: Float[Array, "n *batch"]) -> Float[Array, "G *batch"]:
        turns = contract(self.frequencies, x)
        if self.phases is not None:
            turns = turns + lift(self.phases, 1, x.ndim - 1)
        waves = jnp.sin(math.pi * turns)
        return _with_bias(waves) if self.bias else waves

    def names(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        waves = [
            "sin(pi (" + " + ".join(f"{a:g} {name}" for a, name in zip(row, inputs) if a) + "))"
            for row in self.frequencies.tolist()
        ]
        return ("1", *waves) if self.bias else tuple(waves)


class Network(Basis):
    """1 and the last layer of a small network of tanh units: features that are learned, with what stands on them."""

    weights: tuple[Float[Array, "_ _"], ...]
    biases: tuple[Float[Array, "_"], ...]

    @classmethod
    def drawn(cls, sizes: tuple[int, ...], generator: np.random.Generator) -> "Network":
        """Layers from sizes[0] inputs to sizes[-1] units."""
        weights = tuple(
            generator.standard_normal((after, before), np.float32) / np.float32(math.sqrt(before))
            for before, after in itertools.pairwise(sizes)
        )
        return cls(weights, tuple(np.zeros(size, np.float32) for size in sizes[1:]))

    @classmethod
    def empty(cls, sizes: tuple[int, ...]) -> "Network":
        """Its shape alone."""
        shapes = itertools.pairwise(sizes)
        return cls(
            *zip(*((np.zeros((after, before), np.float32), np.zeros(after, np.float32)) for before, after in shapes))
        )

    def __call__(self, x: Float[Array, "n *batch"]) -> Float[Array, "F *batch"]:
        for weights, biases in zip(self.weights, self.biases):
            x = jnp.tanh(jnp.tensordot(weights, x, axes=1) + lift(biases, 1, x.ndim - 1))
        return _with_bias(x)

    def names(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        return ("1", *(f"unit {u + 1}" for u in range(self.biases[-1].shape[-1])))


class Features(eqx.Module):
    """A basis on chosen, scaled inputs, joined with the task descriptor."""

    basis: Basis
    shift: Float[Array, "n"]
    scale: Float[Array, "n"]
    inputs: tuple[int, ...] = eqx.field(static=True)
    task: str = eqx.field(static=True, default="none")  # none, additive or interactions
    is_fixed: bool = eqx.field(static=True, default=False)  # The scaling stays as it is, whatever is observed later.

    @classmethod
    def of(cls, basis: Basis, inputs: tuple[int, ...], task: str = "none") -> "Features":
        return cls(basis, np.zeros(len(inputs), np.float32), np.ones(len(inputs), np.float32), inputs, task)

    def __call__(self, x: Float[Array, "O *batch"], m: Float[Array, "Z *batch"]) -> Float[Array, "F ..."]:
        if self.constant:
            return jnp.ones(1)  # Without batch axes: what depends on it alone is computed once.
        expanded = self.basis(self._scaled(x))
        if self.task == "additive":
            return jnp.concatenate([expanded, m])
        if self.task == "interactions":
            return jnp.concatenate([expanded, *(expanded * m[z] for z in range(m.shape[0]))])
        return expanded

    def _scaled(self, x: Float[Array, "O *batch"]) -> Float[Array, "n *batch"]:
        if len(self.inputs) > UNROLL:
            shift, scale = (lift(part, 1, x.ndim - 1) for part in (self.shift, self.scale))
            return (x[np.asarray(self.inputs)] - shift) * scale
        return jnp.stack([(x[j] - self.shift[i]) * self.scale[i] for i, j in enumerate(self.inputs)])

    def size(self, descriptor_size: int) -> int:
        names = self.names(tuple("x" for _ in range(1 + max(self.inputs))), descriptor_size)
        return len(names)

    def names(self, observation_names: tuple[str, ...], descriptor_size: int) -> tuple[str, ...]:
        base = self.basis.names(tuple(observation_names[j] for j in self.inputs))
        tasks = tuple(f"m{z + 1}" for z in range(descriptor_size))
        if self.task == "additive":
            return base + tasks
        if self.task == "interactions":
            return base + tuple(m if name == "1" else f"{name} {m}" for m in tasks for name in base)
        return base

    @property
    def constant(self) -> bool:
        """Whether the map is the bias alone, whatever the state."""
        return isinstance(self.basis, Polynomial) and self.basis.degree == 0
