"""The numbers of a policy as rules have them: two digits, in the environment's own units.

What is printed must be what is played: words and policy are both made from one `Rulebook`.

Rounding slopes turns a plane about the origin, which may be far from all states. So the constant makes up for it at the
mean of what was observed, and has as many digits as the sum needs that it is compared with.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from asap.base.spec import ControlUnits, Spec, Task
from asap.policy.features import Features, Polynomial
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.skills import GaussianSkills, GibbsSkills
from asap.show.words.expressions import monomials, multiplied_out, without_task

DIGITS = 2
NINETY = math.log(9)  # The margin at which a sigmoid is 90 %.
FAR = 2  # Deviations.
NEVER = -30.0  # Logarithm of the chance that stands for 0 %: policies hold finite numbers.


class Shares(NamedTuple):
    """Skills that are one distribution over actions each, in whole percents."""

    probabilities: Float[np.ndarray, "S A"]


class Logits(NamedTuple):
    """Skills whose action has a chance proportional to exp(weights^T phi)."""

    weights: Float[np.ndarray, "S A D"]


class Controls(NamedTuple):
    """Skills that set numbers, in the environment's units."""

    weights: Float[np.ndarray, "S A D"]  # Of the means.
    deviations: Float[np.ndarray, "S A"]
    units: ControlUnits


class Rulebook(NamedTuple):
    psi: Features
    phi: Features
    planes: Float[np.ndarray, "K F"]  # The positive side is planes^T psi > 0; the largest slope is 1 or -1.
    reaches: Float[np.ndarray, "K"]  # What planes^T psi is where the positive side has a chance of 90 %.
    skills: Shares | Logits | Controls
    psi_sizes: Float[np.ndarray, "F"]  # By how much each feature changes from state to state, roughly.
    phi_sizes: Float[np.ndarray, "D"]
    termination: float | None

    @property
    def policy(self) -> ASAPPolicy:
        beta = np.float32(self.planes * (NINETY / self.reaches)[:, None])
        return ASAPPolicy(Partition(beta, np.float32(1)), self._skills, self.psi, self.phi, self.termination)

    @property
    def _skills(self) -> GibbsSkills | GaussianSkills:
        match self.skills:
            case Shares(probabilities):
                logs = np.where(probabilities > 0, np.log(np.maximum(probabilities, 1e-9)), NEVER)
                return GibbsSkills(np.float32(logs)[..., None], np.float32(1))
            case Logits(weights):
                return GibbsSkills(np.float32(weights), np.float32(1))
            case Controls(weights, deviations, units):
                theta = (
                    np.concatenate([weights[..., :1] - units.shift[:, None], weights[..., 1:]], -1)
                    / units.scale[:, None]
                )
                return GaussianSkills(np.float32(theta), np.float32(np.log(deviations / units.scale)))


def rounded(policy: ASAPPolicy, task: Task, digits: int = DIGITS) -> ASAPPolicy:
    """The policy that the printed rules are, for this task."""
    return rulebook(policy, task, digits).policy


def rulebook(policy: ASAPPolicy, task: Task, digits: int = DIGITS) -> Rulebook:
    policy = in_task(policy, task.descriptor)
    psi, phi = (_plain(features, digits) for features in (policy.psi, policy.phi))
    margins = np.asarray(policy.partition.alpha_beta * policy.partition.beta, float)
    planes, reaches = _planes(_rows(policy.psi, psi, margins), digits)
    skills = _skills(policy, phi, task.spec, digits)
    sizes = (_sizes(features) for features in (policy.psi, policy.phi))
    return Rulebook(psi, phi, planes, reaches, skills, *sizes, policy.termination)


def in_task(policy: ASAPPolicy, m: ArrayLike) -> ASAPPolicy:
    """The policy with the numbers of one task in place of its descriptor."""
    psi, beta = _in_task(policy.psi, policy.partition.beta, m)
    phi, theta = _in_task(policy.phi, policy.skills.theta, m)
    partition, skills = Partition(beta, policy.partition.alpha_beta), dataclasses.replace(policy.skills, theta=theta)
    return ASAPPolicy(partition, skills, psi, phi, policy.termination)


def _in_task(
    features: Features, weights: Float[np.ndarray, "*rows F"], m: ArrayLike
) -> tuple[Features, Float[np.ndarray, "*rows G"]]:
    if features.task == "none":
        return features, weights
    weights, constants = without_task(features, np.array(weights, float), np.asarray(m, float))
    basis = features.basis
    if not basis.has_bias:
        basis, weights = dataclasses.replace(basis, bias=True), np.insert(weights, 0, 0.0, axis=-1)
    weights[..., 0] += constants
    return dataclasses.replace(features, basis=basis, task="none"), np.float32(weights)


class Rows(NamedTuple):
    """Linear combinations of features, to be rounded."""

    weights: Float[np.ndarray, "R F"]
    spreads: Float[np.ndarray, "R"]  # By how much each changes from state to state, roughly.
    at_centre: Float[np.ndarray, "F"]  # The features of the mean observation.
    has_constant: bool  # Whether the first feature is 1.

    def scaled(self, factors: Float[np.ndarray, "R"]) -> "Rows":
        return self._replace(weights=self.weights * factors[:, None], spreads=self.spreads * factors)

    def rounded(self, digits: int) -> Float[np.ndarray, "R F"]:
        if not self.has_constant:
            return significant(self.weights, digits)
        slopes = significant(self.weights[:, 1:], digits)
        constants = self.weights[:, 0] + (self.weights[:, 1:] - slopes) @ self.at_centre[1:]
        constants = [_like(spread, constant, digits) for spread, constant in zip(self.spreads, constants)]
        return np.column_stack([constants, slopes])

    @property
    def largest_slopes(self) -> Float[np.ndarray, "R"]:
        """1 where there is none."""
        slopes = self.weights[:, 1:] if self.has_constant else self.weights
        largest = np.abs(slopes).max(1, initial=0.0)
        return np.where(largest > 0, largest, 1.0)


def _planes(rows: Rows, digits: int) -> tuple[Float[np.ndarray, "K F"], Float[np.ndarray, "K"]]:
    lengths = rows.largest_slopes
    return rows.scaled(1 / lengths).rounded(digits), significant(NINETY / lengths, digits)


def _skills(policy: ASAPPolicy, phi: Features, spec: Spec, digits: int) -> Shares | Logits | Controls:
    theta = np.asarray(policy.skills.theta, float)
    num_skills, num_actions, _ = theta.shape
    if isinstance(policy.skills, GaussianSkills):
        units = ControlUnits.of_bounds(spec.action_low, spec.action_high)
        rows = _rows(policy.phi, phi, theta.reshape(num_skills * num_actions, -1)).scaled(
            np.tile(units.scale, num_skills)
        )
        rows.weights[:, 0] += np.tile(units.shift, num_skills)
        deviations = significant(np.exp(np.asarray(policy.skills.log_std, float)) * units.scale, digits)
        return Controls(rows.rounded(digits).reshape(theta.shape), deviations, units)
    theta = float(policy.skills.alpha_theta) * (
        theta - theta.mean(1, keepdims=True)
    )  # The mean cancels in the softmax.
    if policy.phi.constant:
        chances = np.exp(theta[..., 0] - theta[..., 0].max(1, keepdims=True))
        return Shares(np.stack([whole_percents(row / row.sum()) for row in chances]) / 100)
    return Logits(
        _rows(policy.phi, phi, theta.reshape(num_skills * num_actions, -1)).rounded(digits).reshape(theta.shape)
    )


def _plain(features: Features, digits: int) -> Features:
    """The same features without scaling; with rounded scaling, where it cannot be multiplied out."""
    if isinstance(features.basis, Polynomial):
        plain = Features.of(features.basis, features.inputs)
        return plain if features.basis.degree < 2 else dataclasses.replace(plain, shift=_centres(features))
    deviations = significant(1 / np.asarray(features.scale, float), digits)
    shift = [_like(size, centre, digits) for size, centre in zip(deviations, np.asarray(features.shift, float))]
    return dataclasses.replace(features, shift=np.float32(shift), scale=np.float32(1 / deviations))


def _centres(features: Features) -> Float[np.ndarray, "n"]:
    """For products: of what is far from 0, a round number in the midst. Multiplied out, two digits of it would be of no
    use."""
    shift, deviations = np.asarray(features.shift, float), 1 / np.asarray(features.scale, float)
    round_numbers = [_like(size, centre, 0) for size, centre in zip(deviations, shift)]
    return np.float32(np.where(np.abs(shift) > FAR * deviations, round_numbers, 0.0))


def _rows(before: Features, plain: Features, weights: Float[np.ndarray, "R F"]) -> Rows:
    """Weights on features as learned, put onto the plain ones."""
    shift, scale = np.asarray(before.shift, float), np.asarray(before.scale, float)
    has_constant = before.basis.has_bias
    spreads = np.linalg.norm(weights[:, 1:] if has_constant else weights, axis=1)
    if isinstance(before.basis, Polynomial):
        order = monomials(before.basis, len(shift))
        out = [multiplied_out(before.basis, row, shift - plain.shift, scale) for row in weights]
        weights = np.array([[coefficients[monomial] for monomial in order] for coefficients in out])
        weights = weights.reshape(len(out), len(order))  # Without rows, too.
    mean = np.zeros(1 + max(before.inputs), np.float32)
    mean[list(before.inputs)] = shift
    return Rows(weights, spreads, np.asarray(plain(mean, np.zeros(0, np.float32)), float), has_constant)


def _sizes(features: Features) -> Float[np.ndarray, "F"]:
    if not isinstance(features.basis, Polynomial):
        return np.ones(features.size(0))
    deviations = 1 / np.asarray(features.scale, float)
    return np.array([math.prod(deviations[list(monomial)]) for monomial in monomials(features.basis, len(deviations))])


def significant(values: Float[np.ndarray, "..."], digits: int) -> Float[np.ndarray, "..."]:
    return np.vectorize(lambda value: float(f"{value:.{digits - 1}e}"), otypes=[float])(values)


def _like(size: float, value: float, digits: int) -> float:
    """The value to within a share of the size that is at least as small as for the size to so many digits."""
    if size == 0:
        return float(significant(np.asarray(value), digits))
    return round(float(value), digits - math.floor(math.log10(size)))


def whole_percents(shares: Float[np.ndarray, "A"]) -> Float[np.ndarray, "A"]:
    """They sum to 100: what is missing goes to those that were rounded off most."""
    percents = np.floor(100 * shares)
    missing = round(100 - percents.sum())
    percents[np.argsort(percents - 100 * shares, kind="stable")[:missing]] += 1
    return percents
