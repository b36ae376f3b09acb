"""The policy on the host, in NumPy, one observation at a time.

A foreign environment is played step by step on the host. There a compiled function costs more to call than to compute, and
a worker that need not import JAX starts in a fraction of a second. So the formulas of `asap.policy` and `asap.policy.features`
stand here once more, with what does not change within an episode multiplied out beforehand; a test holds both to the same
probabilities. Random numbers are drawn ahead, in blocks, in the form in which a choice is one comparison:

    side of plane k:    margin_k > logistic noise
    action of a Gibbs skill:    argmax_a (logit_a + Gumbel noise)
    action of a Gaussian skill:    mean + deviation * normal noise
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

BLOCK = 128  # Steps whose random numbers are drawn at once.
NO_SKILL = -1
_TINY = np.finfo(float).tiny

Feature = Callable[[Float[np.ndarray, "O"]], Float[np.ndarray, "F"]]


class Plan(NamedTuple):
    """A policy for a player: what is fixed about it, as JSON has it, and its numbers."""

    static: dict[str, Any]
    arrays: dict[str, np.ndarray]


class Player:
    """Chooses skill and action; `begin` at the start of each episode."""

    def __init__(self, plan: Plan):
        static, arrays = plan
        as_float = {name: np.asarray(values, float) for name, values in arrays.items()}
        planes = as_float["alpha_beta"] * as_float["beta"]
        self.margins = scores_of(planes, static["psi"], _part(as_float, "psi"))
        self.num_planes = len(planes)
        self.bits = 1 << np.arange(self.num_planes)
        self.gaussian = static["skills"] == "gaussian"
        theta = as_float["theta"] if self.gaussian else as_float["alpha_theta"] * as_float["theta"]
        self.scores = [scores_of(skill, static["phi"], _part(as_float, "phi")) for skill in theta]
        self.num_scores = theta.shape[1]
        self.deviations = np.exp(as_float["log_std"]) if self.gaussian else None
        self.termination: float | None = static["termination"]

    def begin(self, generator: np.random.Generator, deterministic: bool) -> None:
        self.generator, self.deterministic = generator, deterministic
        self.previous, self.place = NO_SKILL, BLOCK

    def choose(self, x: Float[np.ndarray, "O"]) -> tuple[int, int | Float[np.ndarray, "A"]]:
        margins = self.margins(x)
        if self.deterministic:
            skill = self._likeliest(margins)
        else:
            if self.place == BLOCK:
                self._draw()
            skill = int((margins > self.sides[self.place]).dot(self.bits))
            if self.termination is not None and self.previous != NO_SKILL:
                if self.stays[self.place] < (1 - self.termination) * self._probability(margins, self.previous):
                    skill = self.previous
        self.previous = skill
        return skill, self._act(skill, self.scores[skill](x))

    def _act(self, skill: int, scores: Float[np.ndarray, "A"]) -> int | Float[np.ndarray, "A"]:
        if self.deterministic:
            return scores.copy() if self.gaussian else int(scores.argmax())
        noise = self.noise[self.place]
        self.place += 1
        return scores + self.deviations[skill] * noise if self.gaussian else int((scores + noise).argmax())

    def _draw(self) -> None:
        uniform = self.generator.random((BLOCK, self.num_planes))
        self.sides = np.log(np.maximum(uniform, _TINY)) - np.log1p(-uniform)
        shape = (BLOCK, self.num_scores)
        self.noise = self.generator.standard_normal(shape) if self.gaussian else self.generator.gumbel(size=shape)
        if self.termination is not None:
            self.stays = self.generator.random(BLOCK)
        self.place = 0

    def _probability(self, margins: Float[np.ndarray, "K"], skill: int) -> float:
        """p(i | x) of one skill."""
        signs = np.where(self.bits & skill, 1.0, -1.0)
        return float(np.exp(-np.logaddexp(0.0, -signs * margins).sum()))

    def _likeliest(self, margins: Float[np.ndarray, "K"]) -> int:
        skill = int((margins > 0).dot(self.bits))
        if self.termination is None or self.previous in (NO_SKILL, skill):
            return skill
        # P(j) = (1 - s) p_j, and s more for the skill in force, where s = (1 - termination) p_previous.
        previous = self._probability(margins, self.previous)
        stay = (1 - self.termination) * previous
        anew = (1 - stay) * self._probability(margins, skill)
        return self.previous if stay + (1 - stay) * previous >= anew else skill


def _part(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(f"{prefix}."): values for name, values in arrays.items() if name.startswith(f"{prefix}.")}


def scores_of(weights: Float[np.ndarray, "R F"], static: dict[str, Any], arrays: dict[str, np.ndarray]) -> Feature:
    """weights @ features(x); where that is linear in x, scaling and all, it is multiplied out."""
    if static["kind"] == "constant":
        fixed = weights[:, 0]
        return lambda x: fixed
    if static["kind"] == "polynomial" and static["degree"] == 1:
        slopes = np.zeros((len(weights), static["observations"]))
        slopes[:, static["inputs"]] = weights[:, 1:] * arrays["scale"]
        bias = weights[:, 0] - weights[:, 1:] @ (arrays["scale"] * arrays["shift"])
        return lambda x: slopes.dot(x) + bias
    expand = features(static, arrays)
    return lambda x: weights @ expand(x)


def features(static: dict[str, Any], arrays: dict[str, np.ndarray]) -> Feature:
    """A feature map: inputs chosen and scaled, then expanded."""
    inputs, shift, scale = np.asarray(static["inputs"]), arrays["shift"], arrays["scale"]
    expand = _EXPANSIONS[static["kind"]](static, arrays)
    whole = len(inputs) == static["observations"] and (inputs == np.arange(len(inputs))).all()
    if whole:
        return lambda x: expand((x - shift) * scale)
    return lambda x: expand((x[inputs] - shift) * scale)


def _polynomial(static: dict[str, Any], arrays: dict[str, np.ndarray]) -> Feature:
    count, degree = len(static["inputs"]), static["degree"]
    products = [np.array(list(itertools.combinations_with_replacement(range(count), d))) for d in range(2, degree + 1)]
    one = np.ones(1)
    return lambda z: np.concatenate([one, z, *(z[terms].prod(1) for terms in products)])


def _fourier(static: dict[str, Any], arrays: dict[str, np.ndarray]) -> Feature:
    frequencies = np.pi * arrays["frequencies"]
    return _with_bias(static, lambda z: np.sin(frequencies @ z))


def _rbf(static: dict[str, Any], arrays: dict[str, np.ndarray]) -> Feature:
    centres, factor = arrays["centres"], -0.5 / static["width"] ** 2
    return _with_bias(static, lambda z: np.exp(factor * np.square(z - centres).sum(1)))


def _network(static: dict[str, Any], arrays: dict[str, np.ndarray]) -> Feature:
    layers = [(arrays[f"weights.{i}"], arrays[f"biases.{i}"]) for i in range(static["layers"])]
    one = np.ones(1)

    def expand(z: Float[np.ndarray, "n"]) -> Float[np.ndarray, "F"]:
        for weights, biases in layers:
            z = np.tanh(weights @ z + biases)
        return np.concatenate([one, z])

    return expand


def _with_bias(static: dict[str, Any], expand: Feature) -> Feature:
    one = np.ones(1)
    return (lambda z: np.concatenate([one, expand(z)])) if static["bias"] else expand


_EXPANSIONS = {"polynomial": _polynomial, "fourier": _fourier, "rbf": _rbf, "network": _network}
