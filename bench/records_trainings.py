"""One seed of a row by one system: what decides its report, and which reports of a file belong together."""

import ast
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from records_rivals import SETTINGS, TREE
from records_rows import FIRST_FRESH_SEED, ROWS, Row
from trainings import Key

import asap

SYSTEMS = ("asap", *SETTINGS)


class Training(NamedTuple):
    name: str  # Of the row.
    system: str
    seed: int
    steps: int

    @property
    def row(self) -> Row:
        return ROWS[self.name]

    @property
    def measure(self) -> dict[str, Any]:
        about = self.row.about
        return {"threshold": about.threshold, "starts": about.starts, "episodes": about.episodes}

    @property
    def settings(self) -> Any:
        """All that decides the report beside seed and steps."""
        if self.system == "asap":
            return [*self.row.flags, self.measure]
        tree = {"tree": TREE} if self.system == "ppo" else {}
        return {**SETTINGS[self.system][self.row.env], **tree, **self.measure}

    def key(self, code: str) -> Key:
        digest = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:12]
        return self.name, self.system, self.seed, self.steps, digest, code if self.system == "asap" else ""

    def job(self, runs: Path, code: str) -> dict[str, Any]:
        job = {"env": self.row.env, "seed": self.seed, "steps": self.steps, **self.measure}
        if self.system == "asap":
            run = runs / "-".join(map(str, self.key(code))).replace(":", "-")
            return job | {"command": self.row.command(self.steps), "run": str(run)}
        tree = TREE if self.system == "ppo" else None
        return job | {"settings": SETTINGS[self.system][self.row.env], "tree": tree}


def systems_of(row: Row) -> tuple[str, ...]:
    """Rivals run once for an environment, beside its row by defaults. A row of its own flags is run once it has some."""
    if not row.is_best:
        return SYSTEMS
    return ("asap",) if row.flags else ()


class Reports(NamedTuple):
    """The finished seeds of one row and system."""

    by_seed: dict[int, dict[str, Any]]
    code: str = ""  # Of the library that they ran with.

    def __bool__(self) -> bool:
        return bool(self.by_seed)

    def all(self, what: str) -> list[Any]:
        """One number of every seed, those left out that do not have it."""
        return [report[what] for report in self.by_seed.values() if report.get(what) is not None]

    @property
    def best(self) -> tuple[int, dict[str, Any]]:
        """The seed whose printed rules, or else whose policy, returns most; of equal ones that of fewer numbers."""

        def merit(item: tuple[int, dict[str, Any]]) -> tuple[bool, float, int]:
            printed = item[1].get("printed")
            return (
                printed is not None,
                item[1]["return"] if printed is None else printed,
                -(item[1].get("numbers") or 0),
            )

        return max(self.by_seed.items(), key=merit)


def reports_of(kept: Mapping[Key, dict[str, Any]], name: str, system: str, steps: int) -> Reports:
    """Of fresh seeds, under the settings of today. Where there are some of several codes of the library, those of the
    code with most seeds, the newer of two with as many. `tree` is distilled from `ppo` and stands in its reports."""
    source = "ppo" if system == "tree" else system
    wanted = Training(name, source, 0, steps).key("")
    found = {key: report for key, report in kept.items() if (*key[:2], *key[3:5]) == (*wanted[:2], *wanted[3:5])}
    found = {key: report for key, report in found.items() if key[2] >= FIRST_FRESH_SEED}
    counts = Counter(key[5] for key in reversed(found))  # Of equal counts, the first that is met is the most common.
    if not counts:
        return Reports({})
    code = counts.most_common(1)[0][0]
    own = {key[2]: report for key, report in sorted(found.items()) if key[5] == code}
    return Reports({seed: report["tree"] for seed, report in own.items()} if system == "tree" else own, code)


def digest_of_code() -> str:
    """Of the library as it is imported; comments and spaces do not count."""
    digest, package = hashlib.sha256(), Path(asap.__file__).parent
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}: {ast.dump(ast.parse(path.read_text()))}".encode())
    return digest.hexdigest()[:12]
