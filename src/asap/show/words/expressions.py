"""A linear combination of features as an expression in the observations themselves.

Weights live on scaled inputs and may be multiplied by the task descriptor m. A reader wants neither: here scaling is
multiplied out and m is replaced by its numbers, so that what is left is in the observations' own units.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from asap.base.numbers import sum_of
from asap.policy.features import Features, Fourier, Polynomial

ZERO = 1e-9  # Relative to the largest: left over from multiplying out, not learned.
CONSTANT = "1"


class Expression(NamedTuple):
    """sum of coefficient * term + constant."""

    terms: tuple[tuple[str, float], ...]
    constant: float
    inputs: tuple[str, ...]  # The observations that occur in it.
    slope: float | None  # Length of the gradient by the inputs, if the expression is linear in them.

    def scaled(self, factor: float) -> "Expression":
        terms = tuple((name, factor * c) for name, c in self.terms)
        slope = None if self.slope is None else factor * self.slope
        return Expression(terms, factor * self.constant, self.inputs, slope)

    def __str__(self) -> str:
        return sum_of(self.terms, self.constant)


def expression(features: Features, weights: ArrayLike, observation_names: Sequence[str], m: ArrayLike) -> Expression:
    """weights^T features(x, m) for this m."""
    weights, constant = without_task(features, np.asarray(weights, float), np.asarray(m, float))
    constant = float(constant)
    names = [observation_names[j] for j in features.inputs]
    shift, scale = np.asarray(features.shift, float), np.asarray(features.scale, float)
    match features.basis:
        case Polynomial():
            return _polynomial(features.basis, weights, constant, names, shift, scale)
        case Fourier():
            frequencies = np.asarray(features.basis.frequencies, float) * scale
            waves = [f"sin(pi ({_phase(row, shift, names)}))" for row in frequencies]
            return _combined(waves, frequencies != 0, weights, constant, names)
    base = [name for name in features.basis.names(tuple(names)) if name != CONSTANT]
    return _combined(base, np.ones((len(base), len(names)), bool), weights, constant, names)


def without_task(
    features: Features, weights: Float[np.ndarray, "*rows F"], m: Float[np.ndarray, "Z"]
) -> tuple[Float[np.ndarray, "*rows G"], Float[np.ndarray, "*rows"]]:
    """Weights of the basis alone, and the constants that the task adds."""
    size = weights.shape[-1] - len(m)
    if features.task == "additive":
        return weights[..., :size], weights[..., size:] @ m
    if features.task == "interactions":
        weights = weights.reshape(*weights.shape[:-1], 1 + len(m), -1)
        return np.concatenate([[1.0], m]) @ weights, np.zeros(weights.shape[:-2])
    return weights, np.zeros(weights.shape[:-1])


def _polynomial(
    basis: Polynomial, weights: np.ndarray, constant: float, names: list[str], shift: np.ndarray, scale: np.ndarray
) -> Expression:
    coefficients = multiplied_out(basis, weights, shift, scale)
    constant += coefficients.pop(())
    coefficients = _without_zeros(coefficients)
    terms = tuple((_product(monomial, names), c) for monomial, c in coefficients.items())
    inputs = tuple(name for j, name in enumerate(names) if any(j in monomial for monomial in coefficients))
    linear = all(len(monomial) == 1 for monomial in coefficients)
    return Expression(terms, constant, inputs, math.hypot(*coefficients.values()) if linear else None)


def monomials(basis: Polynomial, num_inputs: int) -> list[tuple[int, ...]]:
    """The inputs whose product each feature is, in the order of the features."""
    tokens = {f"input{j}": j for j in range(num_inputs)}
    terms = basis.names(tuple(tokens))  # The basis knows the order of its terms.
    return [tuple(tokens[token] for token in term.split() if token != CONSTANT) for term in terms]


def multiplied_out(
    basis: Polynomial, weights: np.ndarray, shift: np.ndarray, scale: np.ndarray
) -> dict[tuple[int, ...], float]:
    """Each product of scaled inputs s_j (x_j - c_j) multiplied out into products of the x_j, with their
    coefficients."""
    coefficients: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for factors, weight in zip(monomials(basis, len(shift)), weights):
        for kept in itertools.product((True, False), repeat=len(factors)):
            monomial = tuple(j for j, keep in zip(factors, kept) if keep)
            values = [scale[j] * (1.0 if keep else -shift[j]) for j, keep in zip(factors, kept)]
            coefficients[monomial] += weight * math.prod(values)
    return coefficients


def term_names(features: Features, observation_names: Sequence[str]) -> list[str]:
    """Of each feature, in terms of its inputs as they are scaled."""
    names = [observation_names[j] for j in features.inputs]
    if isinstance(features.basis, Polynomial):
        return [
            _product(monomial, names).replace(" * ", "*") or CONSTANT
            for monomial in monomials(features.basis, len(names))
        ]
    return list(features.basis.names(tuple(names)))


def _combined(base: list[str], uses: np.ndarray, weights: np.ndarray, constant: float, names: list[str]) -> Expression:
    """Weights on named features, with the bias in front if there is one more weight than names."""
    if len(weights) > len(base):
        constant, weights = constant + float(weights[0]), weights[1:]
    kept = _without_zeros(dict(enumerate(map(float, weights))))
    inputs = tuple(name for j, name in enumerate(names) if any(uses[f, j] for f in kept))
    return Expression(tuple((base[f], c) for f, c in kept.items()), constant, inputs, None)


def _without_zeros(coefficients: dict) -> dict:
    largest = max(map(abs, coefficients.values()), default=0.0)
    return {key: float(c) for key, c in coefficients.items() if abs(c) > ZERO * largest}


def _phase(frequencies: np.ndarray, shift: np.ndarray, names: list[str]) -> str:
    return sum_of([(name, a) for name, a in zip(names, frequencies) if a], -float(frequencies @ shift))


def _product(monomial: tuple[int, ...], names: list[str]) -> str:
    powers = Counter(monomial)
    return " * ".join(names[j] if power == 1 else f"{names[j]}^{power}" for j, power in powers.items())
