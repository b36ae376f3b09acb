"""Rows of families.py: one policy for a family of environments, beside one that is not told which of them it plays.

Each seed is one training with the descriptor and one without it, with the same budget. Both are evaluated on every task that they were
trained on and on as many that they were not, by the most probable actions in 100 episodes each. A seed passes where each of these
means reaches the threshold.
"""

import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

EPISODES = 100
MOST_NUMBERS = 40
WAYS = ("told", "not told")
HEAD = (
    "| family | which task it is | numbers | seeds that pass | worst task, median | worst unseen task, median |\n"
    "|---|---|---|---|---|---|"
)


class PolicyRow(NamedTuple):
    name: str
    tasks: tuple[str, ...]
    unseen: tuple[str, ...]
    threshold: float
    steps: int
    options: dict[str, Any]  # As ASAP(...) takes them.
    settings: tuple[str, ...] = ()
    seeds: int = 20
    head: str = HEAD

    def results(self, seeds: range, folder: Path, tiny: bool) -> list[dict[str, Any]]:
        return [self._finished(seed, folder, tiny) for seed in seeds]

    def _finished(self, seed: int, folder: Path, tiny: bool) -> dict[str, Any]:
        """As it was kept, or run now."""
        kept = folder / f"{self.name}-{seed}{'-tiny' if tiny else ''}.json"
        if not kept.exists():
            began = time.monotonic()
            found = {
                way: self._trained(seed, way, 2000 if tiny else self.steps, 2 if tiny else EPISODES) for way in WAYS
            }
            kept.write_text(json.dumps({"row": self.name, "seed": seed, **found, "seconds": time.monotonic() - began}))
            worst = {way: (min(found[way]["trained"]), min(found[way]["unseen"])) for way in WAYS}
            print(f"{self.name} seed {seed}: worst tasks {worst}", file=sys.stderr, flush=True)
        return json.loads(kept.read_text())

    def _trained(self, seed: int, way: str, steps: int, episodes: int) -> dict[str, Any]:
        from asap import ASAP

        blind = () if way == "told" else ("policy.task_features=none", "policy.task_in_skills=false")
        settings = [*self.settings, *blind]
        model = ASAP(list(self.tasks), seed=seed, settings=settings, **self.options).learn(steps)
        returns = {
            which: [model.evaluate(episodes, name, 1, True)["return"] for name in names]
            for which, names in (("trained", self.tasks), ("unseen", self.unseen))
        }
        return {**returns, "numbers": model.num_parameters}

    def summary(self, results: list[dict[str, Any]]) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "row": self.name,
            "threshold": self.threshold,
            "seeds": len(results),
            "steps": self.steps,
        }
        entry |= {"tasks": list(self.tasks), "unseen": list(self.unseen)}
        for way in WAYS:
            trained, unseen = ([min(one[way][which]) for one in results] for which in ("trained", "unseen"))
            numbers = max(one[way]["numbers"] for one in results)
            passed = sum(min(pair) >= self.threshold for pair in zip(trained, unseen))
            entry[way] = {"numbers": numbers, "passed": passed, "worst": trained, "worst_unseen": unseen}
        entry["is_small"] = entry["told"]["numbers"] <= MOST_NUMBERS
        return entry

    def lines(self, entry: dict[str, Any]) -> list[str]:
        rows = []
        for way in WAYS:
            one = entry[way]
            cells = [self.name, way, str(one["numbers"]), f"{one['passed']} of {entry['seeds']}"]
            cells += [f"{sorted(one[key])[len(one[key]) // 2]:.0f}" for key in ("worst", "worst_unseen")]
            rows.append(f"| {' | '.join(cells)} |")
        return rows


def poles(lengths: tuple, forces: tuple, gravities: tuple) -> tuple[str, ...]:
    """Every combination."""
    every = itertools.product(lengths, forces, gravities)
    return tuple(f"CartPole-v1?length={length:g}&force_mag={force:g}&gravity={g:g}" for length, force, g in every)


POLICIES = (
    PolicyRow(
        "joint",
        poles((0.3, 1.0), (5, 15), (6, 14)),
        poles((0.45, 0.85), (7, 13), (8, 12)),
        475,
        300_000,
        {"hyperplanes": 1, "skills": "constant"},
        ("policy.task_features=additive",),
    ),
    PolicyRow(  # A negative force: the actions are in the opposite order.
        "needed",
        tuple(f"CartPole-v1?force_mag={force}" for force in (-14, -10, -7, 7, 10, 14)),
        tuple(f"CartPole-v1?force_mag={force}" for force in (-12, -8, 8, 12)),
        475,
        300_000,
        {"hyperplanes": 1, "skills": "constant"},
        ("policy.task_features=interactions",),
    ),
)
