"""A policy as rules: if the sum of these observations is positive, then do this.

All numbers are those of the rulebook, so that whoever follows the text plays `asap.show.words.rounding.rounded`.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from asap.base.errors import UserError
from asap.base.numbers import listed, sum_in_full
from asap.base.spec import Spec, Task
from asap.policy.features import Features, Network, Polynomial
from asap.policy.partition import region_bits
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import OWNS, regions_at
from asap.show.words.expressions import CONSTANT, term_names
from asap.show.words.readings import ControlRule, Losses, PlaneRule, RulesReading, SkillRule, Sum
from asap.show.words.rounding import DIGITS, Controls, Logits, Rulebook, Shares, rulebook, significant

MOST_WEIGHED = 4  # Inputs named for each unit of a network.
OPERATORS = ("+", "-", "*", "/", "^", "is")
UNIT = "unit"


def rules_reading(
    policy: ASAPPolicy,
    tasks: Sequence[Task],
    usage: list[float | None],
    durations: list[float | None],
    losses: Losses | None,
) -> RulesReading:
    """For one task, or for several that the policy does not tell apart: they share a spec."""
    names = tuple(task.name for task in tasks)
    if len(tasks) > 1 and {policy.psi.task, policy.phi.task} != {"none"}:
        raise UserError("task", "these rules differ from task to task", listed(names), "name one of them")
    book, inputs = rulebook(policy, tasks[0]), tuple(map(_in_a_sum, tasks[0].spec.observation_names))
    planes = tuple(_plane(book, inputs, k) for k in range(len(book.planes)))
    return RulesReading(
        task=listed(names),
        termination=policy.termination,
        planes=planes,
        skills=_skills(book, tasks[0].spec, inputs, planes, usage, durations),
        scaled=_scaled(book.psi, inputs) | _scaled(book.phi, inputs),
        units=_units(book, inputs),
        losses=losses,
        normalized=tasks[0].spec.normalized,
    )


def _in_a_sum(name: str) -> str:
    """`(fingertip x - target x)` and `(mode is 2)`, but `x-velocity` as it is."""
    return f"({name})" if any(f" {sign} " in name for sign in OPERATORS) else name


def _plane(book: Rulebook, names: tuple[str, ...], k: int) -> PlaneRule:
    """Written so that the first term is positive: which side it is for is easily said, two minus signs easily
    missed."""
    value = _sum(book.planes[k], book.psi_sizes, _terms(book.psi, names))
    above = int(next(iter(value.terms.values()), 1.0) > 0)
    if not above:
        value = Sum({name: -c for name, c in value.terms.items()}, -value.constant)
    return PlaneRule(k + 1, value, above, float(book.reaches[k]))


def _terms(features: Features, names: Sequence[str]) -> list[str]:
    if isinstance(features.basis, Polynomial):
        shift = {j: centre for j, centre in zip(features.inputs, _as_rounded(features.shift)) if centre}
        names = [f"({sum_in_full([(name, 1.0)], -shift[j])})" if j in shift else name for j, name in enumerate(names)]
    return term_names(features, names)


def _sum(weights: Float[np.ndarray, "F"], sizes: Float[np.ndarray, "F"], names: Sequence[str]) -> Sum:
    """Terms by what they contribute."""
    order = np.argsort(-np.abs(weights) * sizes, kind="stable")
    terms = {names[f]: float(weights[f]) for f in order if weights[f]}
    constant = terms.pop(CONSTANT, 0.0)
    return Sum(terms, constant)


def _skills(
    book: Rulebook,
    spec: Spec,
    names: tuple[str, ...],
    planes: tuple[PlaneRule, ...],
    usage: list[float | None],
    durations: list[float | None],
) -> tuple[SkillRule, ...]:
    bits = np.asarray(region_bits(len(planes)))
    sides = np.where(bits == [plane.above for plane in planes], 1, -1)
    states = _numbered_states(book, spec)
    actions = spec.action_names

    terms = [_of_a_skill(term) for term in _terms(book.phi, names)]

    def weighed(weights: Float[np.ndarray, "D"]) -> Sum:
        return _sum(weights, book.phi_sizes, terms)

    def read(s: int) -> SkillRule:
        shares = scores = controls = None
        match book.skills:
            case Shares(probabilities):
                shares = dict(zip(actions, probabilities[s].tolist()))
            case Logits(weights):
                scores = {action: weighed(row) for action, row in zip(actions, weights[s])}
            case Controls(weights, deviations, units):
                means, bounds = map(weighed, weights[s]), (map(_finite, bound) for bound in (units.low, units.high))
                controls = dict(zip(actions, map(ControlRule, means, deviations[s].tolist(), *bounds)))
        own = None if states is None else tuple(states[s])
        used = usage[s] >= OWNS if None not in usage else own is None or bool(own)
        return SkillRule(s, tuple(sides[s].tolist()), own, shares, scores, controls, usage[s], durations[s], used)

    return tuple(read(s) for s in range(len(bits)))


def _numbered_states(book: Rulebook, spec: Spec) -> list[list[str]] | None:
    """Where there are just so many states, the names of those that each skill rules."""
    if not spec.numbered:
        return None
    names = spec.observation_names
    rulers = regions_at(book.policy, np.eye(len(names), dtype=np.float32), np.zeros(0)).rulers
    return [[name for name, ruler in zip(names, rulers) if ruler == s] for s in range(2 ** len(book.planes))]


def _scaled(features: Features, names: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    if isinstance(features.basis, Polynomial):
        return {}
    deviations = significant(1 / np.asarray(features.scale, float), DIGITS)
    return {
        names[j]: (mean, float(size)) for j, mean, size in zip(features.inputs, _as_rounded(features.shift), deviations)
    }


def _as_rounded(values: Float[np.ndarray, "n"]) -> list[float]:
    """The decimal numbers that they were before they became floats of 32 bits."""
    return [float(np.format_float_positional(value)) for value in np.asarray(values, np.float32)]


def _of_a_skill(term: str) -> str:
    """Skills and planes have networks of their own."""
    return f"skill {term}" if term.startswith(UNIT) else term


def _units(book: Rulebook, names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """The network's units; of deeper ones, the products of the weights on the way, as far as the units are not
    saturated."""
    units: dict[str, dict[str, float]] = {}
    for features, named in ((book.psi, str), (book.phi, _of_a_skill)):
        if isinstance(features.basis, Network):
            through = np.linalg.multi_dot(
                [*map(np.asarray, reversed(features.basis.weights)), np.eye(len(features.inputs))]
            )
            for u, row in enumerate(significant(through, DIGITS)):
                order = np.argsort(-np.abs(row), kind="stable")[:MOST_WEIGHED]
                units[named(f"{UNIT} {u + 1}")] = {names[features.inputs[j]]: float(row[j]) for j in order}
    return units


def _finite(bound: float) -> float | None:
    return float(f"{bound:.6g}") if math.isfinite(bound) else None
