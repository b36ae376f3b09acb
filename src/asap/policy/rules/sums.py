"""Sums of terms in the variables that people read: products, waves, units of a network."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Wave(NamedTuple):
    """sin(pi * (sum of frequency * variable + phase))."""

    frequencies: tuple[tuple[int, float], ...]
    phase: float = 0.0


class Term(NamedTuple):
    """A product of variables, by index and in order; with a wave, or the unit of a network, as one more factor."""

    variables: tuple[int, ...] = ()
    wave: Wave | None = None
    unit: int | None = None

    def times(self, variable: int) -> "Term":
        return self._replace(variables=tuple(sorted((*self.variables, variable))))


ONE = Term()


class Sum(NamedTuple):
    """Of coefficient times term, and a constant."""

    terms: Mapping[Term, float]
    constant: float = 0.0

    @classmethod
    def of(cls, coefficients: Iterable[tuple[Term, float]]) -> "Sum":
        total: defaultdict[Term, float] = defaultdict(float)
        for term, coefficient in coefficients:
            total[term] += coefficient
        constant = total.pop(ONE, 0.0)
        return cls({term: float(c) for term, c in total.items() if c}, float(constant))

    @property
    def items(self) -> list[tuple[Term, float]]:
        return [(ONE, self.constant), *self.terms.items()]

    @property
    def largest(self) -> float:
        """The size of the largest coefficient; 0 for a constant."""
        return max(map(abs, self.terms.values()), default=0.0)

    def scaled(self, factor: float) -> "Sum":
        return Sum({term: factor * c for term, c in self.terms.items()}, factor * self.constant)

    def plus(self, other: "Sum", sign: float = 1.0) -> "Sum":
        return Sum.of([*self.items, *other.scaled(sign).items])

    def at(
        self, values: Float[np.ndarray, "V N"], units: Float[np.ndarray, "U N"] | None = None
    ) -> Float[np.ndarray, "N"]:
        return self.constant + sum(
            (c * term_at(term, values, units) for term, c in self.terms.items()), np.zeros(values.shape[1])
        )

    def substituted(self, scale: Float[np.ndarray, "V"], shift: Float[np.ndarray, "V"]) -> "Sum":
        """With scale * v + shift in place of every variable v, multiplied out."""
        return Sum.of(pair for term, c in self.items for pair in _multiplied_out(term, c, scale, shift))


def term_at(
    term: Term, values: Float[np.ndarray, "V N"], units: Float[np.ndarray, "U N"] | None = None
) -> Float[np.ndarray, "N"]:
    product = np.prod(values[list(term.variables)], axis=0, initial=1.0)
    if term.wave is not None:
        phase = sum((f * values[v] for v, f in term.wave.frequencies), term.wave.phase)
        product = product * np.sin(np.pi * phase)
    return product * np.ones(values.shape[1]) if term.unit is None else product * units[term.unit]


def _multiplied_out(
    term: Term, coefficient: float, scale: np.ndarray, shift: np.ndarray
) -> Iterable[tuple[Term, float]]:
    wave = term.wave
    if wave is not None and not wave.frequencies:
        wave, coefficient = None, coefficient * math.sin(math.pi * wave.phase)
    elif wave is not None:
        phase = wave.phase + sum(f * shift[v] for v, f in wave.frequencies)
        # Numbers of 32 bits, as feature maps have them: so a wave is found again among the features.
        wave = Wave(tuple((v, float(np.float32(f * scale[v]))) for v, f in wave.frequencies), float(np.float32(phase)))
    for kept in itertools.product((True, False), repeat=len(term.variables)):
        factors = [scale[v] if keep else shift[v] for v, keep in zip(term.variables, kept)]
        left = tuple(v for v, keep in zip(term.variables, kept) if keep)
        yield Term(left, wave, term.unit), coefficient * math.prod(factors)
