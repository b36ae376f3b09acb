"""Weights on features become sums in the units that people read, rounded for the states of a sample.

Rounding slopes turns a plane about the origin, which may be far from all states. So the constant makes up for it at the
mean of the states of a sample, and has as many digits as the sum needs that it is compared with. Waves and the units of a
network are rounded in the same way, so that what is printed is all that there is.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from asap.policy.features import Features, Network
from asap.policy.rules.rulebook import Vocabulary, terms_of
from asap.policy.rules.sums import ONE, Sum, Term, Wave, term_at

Layers = tuple[
    tuple[Sum, ...], ...
]  # Of a network: what each unit is tanh of, in terms of variables or of units below.


class Sample(NamedTuple):
    """States that numbers are rounded for: what differs only elsewhere does not count."""

    observations: Float[np.ndarray, "N O"]
    m: Float[np.ndarray, "N Z"]  # Descriptors of their tasks.

    @classmethod
    def of(cls, states: dict[tuple[float, ...], Float[np.ndarray, "n O"]]) -> "Sample":
        """States by the descriptor of their task."""
        descriptors = [np.tile(np.asarray(m, float), (len(x), 1)) for m, x in states.items()]
        return cls(np.concatenate([np.asarray(x, float) for x in states.values()]), np.concatenate(descriptors))


class SumReader:
    """Of one feature map. `fixed` is the descriptor to put in, where the sums are for one task."""

    def __init__(
        self,
        features: Features,
        vocabulary: Vocabulary,
        sample: Sample,
        digits: int | None = None,
        fixed: tuple[float, ...] | None = None,
    ):
        self.terms, self._digits = terms_of(features, vocabulary), digits
        count = len(vocabulary.observations)
        scale, shift = vocabulary.affine
        self._scale, self._shift = 1 / scale, -shift / scale
        inputs = list(features.inputs)
        own, centre = np.asarray(features.scale, float), np.asarray(features.shift, float)
        self._scale[inputs] *= own
        self._shift[inputs] = own * (self._shift[inputs] - centre)
        if fixed is not None:
            self._scale[count:], self._shift[count:] = 0.0, np.asarray(fixed, float)
        self._values = vocabulary.values(sample.observations, sample.m)
        self._moments: dict[Term, tuple[float, float]] = {}
        self._waves: dict[Wave, Wave] = {}
        self.layers: Layers = ()
        self.units: Float[np.ndarray, "U N"] | None = None  # Of the network, at the states of the sample.
        self.network: Features | None = None  # With the numbers of the layers.
        if isinstance(features.basis, Network):
            self._read_network(features, features.basis, vocabulary, fixed is not None)

    def sum(self, weights: Float[np.ndarray, "F"]) -> Sum:
        """With all digits but those of waves, which have to be alike in all sums."""
        value = Sum.of(zip(self.terms, weights.tolist())).substituted(self._scale, self._shift)
        return Sum.of((self._with_rounded_wave(term), c) for term, c in value.items)

    def rounded(self, value: Sum) -> Sum:
        return rounded(value, self._digits, self._moments_of)

    def at(self, value: Sum) -> Float[np.ndarray, "N"]:
        return value.at(self._values, self.units)

    def _moments_of(self, term: Term) -> tuple[float, float]:
        if term not in self._moments:
            values = term_at(term, self._values, self.units)
            self._moments[term] = float(values.mean()), float(values.std())
        return self._moments[term]

    def _with_rounded_wave(self, term: Term) -> Term:
        if term.wave is None or self._digits is None:
            return term
        if term.wave not in self._waves:
            turns = Sum({Term((v,)): f for v, f in term.wave.frequencies}, term.wave.phase)
            near = rounded(turns, self._digits, self._moments_of)
            frequencies = tuple(sorted((each.variables[0], f) for each, f in near.terms.items()))
            phase = near.constant - 2 * round(near.constant / 2)  # Waves repeat themselves.
            self._waves[term.wave] = Wave(frequencies, round(phase, self._digits + 1))
        return term._replace(wave=self._waves[term.wave])

    def _read_network(self, features: Features, network: Network, vocabulary: Vocabulary, is_fixed: bool) -> None:
        below, moments = [Term((v,)) for v in features.inputs], self._moments_of
        layers, weights, biases, values = [], [], [], None
        scale, shift = vocabulary.affine
        for rows, constants in zip(network.weights, network.biases):
            sums = [
                Sum.of([(ONE, float(b)), *zip(below, np.asarray(row, float).tolist())])
                for row, b in zip(rows, constants)
            ]
            if not layers:
                sums = [value.substituted(self._scale, self._shift) for value in sums]
            layers.append(tuple(rounded(value, self._digits, moments) for value in sums))
            values = np.tanh([value.at(self._values, values) for value in layers[-1]])
            in_numbers = layers[-1] if len(layers) > 1 else [each.substituted(scale, shift) for each in layers[-1]]
            weights.append(np.float32([[value.terms.get(term, 0.0) for term in below] for value in in_numbers]))
            biases.append(np.float32([value.constant for value in in_numbers]))
            below, moments = [Term(unit=u) for u in range(len(values))], _moments_of_rows(values)
        self.layers, self.units = tuple(layers), values
        task = "none" if is_fixed else features.task
        self.network = Features.of(Network(tuple(weights), tuple(biases)), features.inputs, task)


def _moments_of_rows(values: Float[np.ndarray, "U N"]) -> Callable[[Term], tuple[float, float]]:
    means, deviations = values.mean(1).tolist(), values.std(1).tolist()
    return lambda term: (means[term.unit], deviations[term.unit])


def rounded(value: Sum, digits: int | None, moments: Callable[[Term], tuple[float, float]]) -> Sum:
    """With terms in the order of what they contribute; those that contribute next to nothing become constants.

    `moments` are mean and deviation of a term over the sample.
    """
    shares = {term: abs(c) * moments(term)[1] for term, c in value.terms.items()}
    order = sorted(value.terms, key=lambda term: (-shares[term], term.variables))
    if digits is None:
        return Sum({term: value.terms[term] for term in order}, value.constant)
    largest = max(shares.values(), default=0.0)
    slopes = {
        term: significant(value.terms[term], digits)
        for term in order
        if shares[term] == 0 or shares[term] >= largest * 10.0 ** -(digits + 1)
    }
    errors = (((c - slopes.get(term, 0.0)) * moments(term)[0]) for term, c in value.terms.items())
    constant = value.constant + math.fsum(errors)
    return Sum(slopes, _like(math.hypot(*shares.values()), constant, digits))


def significant(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}")


def _like(size: float, value: float, digits: int) -> float:
    """The value to within a share of the size that is at least as small as for the size to so many digits."""
    if size == 0:
        return significant(value, digits)
    return round(float(value), digits - math.floor(math.log10(size)))


def least_varied(sums: Sequence[Sum], reader: SumReader) -> Sum:
    """The one that differs least from state to state."""
    return min(sums, key=lambda value: float(reader.at(value).std()))
