"""Rules as a model; and what a person wants to know of them before learning: what they return, which cases are used, what is
missing."""

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from asap.base.arrays import stack
from asap.base.numbers import counted, number, percent
from asap.base.stats import mean_interval
from asap.experience.protocol import Evaluation
from asap.policy.rules.cases import possible_regions
from asap.policy.rules.given import Given
from asap.policy.rules.sums import Term
from asap.policy.surgery import uniform

if TYPE_CHECKING:
    from asap.model.model import ASAP


def load_rules(rules: str | os.PathLike, env: Any = None, **names: Any) -> "ASAP":
    """A model from rules, a text or the path of a file: for an environment, or for `observation_names` and `action_names`
    (and bounds of numbers to set, `action_low` and `action_high`)."""
    from asap.model.model import ASAP

    if env is not None:
        return ASAP(env, rules=rules, **names)
    return ASAP.from_rules(rules, names.pop("observation_names"), names.pop("action_names"), **names)


def check_rules(model: "ASAP", episodes: int, seed: int) -> dict[str, Any]:
    """Plays the rules as they are given, by their most probable actions and drawn, and random play beside them."""
    given = model.given
    policy = given.policy()

    def played(which: Any, deterministic: bool) -> Evaluation:
        return model.play(stack([which]), episodes, [seed], deterministic)

    likeliest, drawn, random = played(policy, True), played(policy, False), played(uniform(policy), False)
    chosen = likeliest if model.config.run.deterministic else drawn
    shares = _shares(given, model, chosen)
    impossible = _impossible(given, model)
    cases = [
        {"line": case.line, "case": case.text, "share": share, "reachable": not set(case.regions) <= impossible}
        for case, share in zip(given.rules.cases, shares)
    ]
    kinds = (("deterministic", likeliest), ("drawn", drawn), ("random", random))
    return {
        "tasks": list(model.tasks.names),
        "tests": len(given.book.tests),
        "skills": len(given.book.skills),
        "cases": cases,
        "uncovered": max(0.0, 1 - sum(shares)) if given.rules.uncovered else 0.0,
        "returns": {name: _return(model, each) for name, each in kinds},
        "success": None if np.isnan(chosen.success).all() else float(np.nanmean(chosen.success)),
        "episodes": episodes,
        "warnings": list(given.rules.warnings),
        "deterministic": model.config.run.deterministic,
        "better_than_random": _is_better(model, chosen, random),
    }


def _totals(model: "ASAP", played: Evaluation) -> np.ndarray:
    return np.einsum("m,mn->n", model.tasks.shares, played.returns[0])


def _return(model: "ASAP", played: Evaluation) -> dict[str, Any]:
    totals = _totals(model, played)
    return {"mean": float(totals.mean()), "ci": mean_interval(totals)}


def _is_better(model: "ASAP", chosen: Evaluation, random: Evaluation) -> bool:
    first, second = _totals(model, chosen), _totals(model, random)
    error = math.sqrt(first.var() / len(first) + second.var() / len(second))
    return bool(first.mean() > second.mean() + 1.96 * error)


def _shares(given: Given, model: "ASAP", played: Evaluation) -> list[float]:
    """Of the steps, by case; where the states are not known, by skill, in equal parts to the cases that share one."""
    book, cases, task = given.book, given.rules.cases, model.tasks.tasks[0]
    if played.observations is not None and len(played.observations):
        states = np.asarray(played.observations, float)
        values = book.vocabulary.values(states, np.tile(np.asarray(task.descriptor, float), (len(states), 1)))
        bits = [(test.value.at(values) > 0).astype(int) << k for k, test in enumerate(book.tests)]
        regions = sum(bits, np.zeros(len(states), int))
        return [float(np.isin(regions, case.regions).mean()) for case in cases]
    steps = np.einsum("m,ms->s", model.tasks.shares, played.usage[0])
    skills = [book.region_skills[case.regions[0]] for case in cases]
    count = len(book.skills)
    return [float(steps[skill::count].sum()) / skills.count(skill) for skill in skills]


def _impossible(given: Given, model: "ASAP") -> set[int]:
    """Regions in which no observation within its bounds can be."""
    vocabulary, spec = given.book.vocabulary, model.tasks.spec
    scale, shift = vocabulary.affine
    bounds = []
    for v, ends in enumerate(zip(spec.observation_low, spec.observation_high)):
        if spec.numbered:
            break
        low, high = sorted(scale[v] * end + shift[v] for end in ends)
        bounds.append((Term((v,)), low if abs(low) < 1e6 else -np.inf, high if abs(high) < 1e6 else np.inf))
    tests = [test.value for test in given.book.tests]
    possible = set(possible_regions(tests, bounds)) if tests and not spec.numbered else set(range(2 ** len(tests)))
    return set(range(2 ** len(tests))) - possible


def rules_in_words(report: dict[str, Any], name: str) -> str:
    returns, how = report["returns"], counted(report["episodes"], "episode")
    lines = [
        f"{' and '.join(report['tasks'])}, {name}: {counted(len(report['cases']), 'case')}, "
        f"{counted(report['tests'], 'different test')}, {counted(report['skills'], 'skill')}",
        f"return       {_told(returns['deterministic'])} by the most probable actions, {_told(returns['drawn'])} drawn, over {how}",
        f"random play  {_told(returns['random'])}"
        + ("" if report["better_than_random"] else f": the rules are {_no_better(report)}"),
    ]
    if report["success"] is not None:
        lines.append(f"success      {percent(report['success'])}")
    for case in report["cases"]:
        used = percent(case["share"]) if case["share"] else "never used"
        used = used if case["reachable"] else "can't be reached within the bounds of the observations"
        lines.append(f"line {case['line']:<7} {used}: {case['case']}")
    if report["uncovered"]:
        lines.append(f"no case      {percent(report['uncovered'])}: any action")
    return "\n".join([*lines, *(f"warning: {text}" for text in report["warnings"])])


def _no_better(report: dict[str, Any]) -> str:
    """A gain within its interval may be chance, and may be none."""
    chosen = report["returns"]["deterministic" if report["deterministic"] else "drawn"]["mean"]
    return "not shown to be better" if chosen > report["returns"]["random"]["mean"] else "no better"


def _told(value: dict[str, Any]) -> str:
    if value["ci"] is None:
        return number(value["mean"])
    return f"{number(value['mean'])} ({number(value['ci'][0])} to {number(value['ci'][1])})"
