"""The paper's Table 1, measured: each system on the same domains, under the same number of environment steps."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asap import __version__
from asap.base.episodes import EVALUATION
from asap.base.stats import SeedCurve, iqm
from asap.envs import catalog
from asap.envs.optimum import optimal_return
from asap.experience.counted_play import StepCounter
from asap.paper import table1_runs as runs
from asap.paper.claims import Claim, Finding
from asap.paper.laboratory import Laboratory
from asap.paper.table1_marks import (
    COLUMNS,
    SERVED,
    Mark,
    composed_skills,
    corrected_model,
    learned_skills,
    reused_skills,
    served_tasks,
)
from asap.paper.table1_page import domain_pictures, page
from asap.rivals.kept import Row, kept_rows
from asap.rivals.protocol import System
from asap.rivals.registry import find
from asap.runs.directory import print_note

THRESHOLDS = "ae6f11a"  # The commit that fixed them, before the first full run.
STEPS, CYCLES = 300_000, 1_000_000
SEEDS_ON_R1, QUICK_SEEDS = 5, 4
R1 = "striker-r1"
TRACKS = ("equal", "native")
# In the paper's order, with its marks for C1 to C5.
PAPER = {
    "asap": (True, True, True, True, True),
    "parameterized-skills": (True, False, True, False, False),
    "skill-chaining": (False, True, False, False, False),
    "option-critic": (True, False, False, False, False),
    "pg-ella": (False, False, True, False, False),
    "q-pamdp": (False, False, False, False, False),
}
AUTHORS = {
    "asap": "ASAP (this paper)",
    "parameterized-skills": "da Silva 2012",
    "skill-chaining": "Konidaris 2009",
    "option-critic": "Bacon 2015",
    "pg-ella": "Eaton 2013",
    "q-pamdp": "Masson 2015",
}
CONTROLS = (
    *("asap-k0", "flat-ppo", "flat-ppo-64", "flat-reinforce", "flat-reinforce-64"),
    *("sarsa", "q-learning", "ars", "tree"),
)
ON_R1 = ("asap", "option-critic", "skill-chaining", "q-pamdp", "flat-ppo", "flat-ppo-64", "sarsa")


@dataclass(frozen=True)
class ReturnScale:
    """Returns of a task with random play as 0 and the scripted optimum as 1."""

    random: float
    scripted: float
    richest: float  # Of the best policy there is, scaled.

    def of(self, value: float) -> float:
        return (value - self.random) / (self.scripted - self.random)

    def back(self, share: float) -> float:
        return self.random + share * (self.scripted - self.random)


@dataclass(frozen=True)
class Cell:
    system: str
    track: str
    column: str
    mark: Mark

    @property
    def printed(self) -> bool:
        return PAPER[self.system][list(COLUMNS).index(self.column)]

    @property
    def agrees(self) -> bool:
        return self.mark.passed is None or self.mark.passed == self.printed


def table(laboratory: Laboratory) -> Finding:
    """All cells, the returns of all systems, and the page that shows them."""
    bench = Bench(laboratory)
    cells = [cell for track in TRACKS for name in PAPER for cell in bench.cells(name, track)]
    returns = bench.returns()
    claims = [_claim(cell) for cell in cells if cell.track == "equal"]
    pictures = domain_pictures(bench.curves())
    return Finding(claims, pictures, page(cells, returns, bench.scales, AUTHORS, THRESHOLDS, laboratory))


def _claim(cell: Cell) -> Claim:
    printed = "check mark" if cell.printed else "cross"
    words = f"{AUTHORS[cell.system]}: {COLUMNS[cell.column]}"
    note = "" if cell.mark.passed is not None else "the question can't be asked here"
    return Claim(words, printed, cell.mark.number, cell.mark.ci, cell.agrees, note)


class Bench:
    """Runs what is missing, and keeps it."""

    def __init__(self, laboratory: Laboratory):
        self.laboratory = laboratory
        self.folder = laboratory.out / "runs" / ("table1-quick" if laboratory.quick else "table1")
        self.folder.mkdir(parents=True, exist_ok=True)
        count = min(laboratory.seeds, QUICK_SEEDS) if laboratory.quick else laboratory.seeds
        self.seeds = tuple(range(laboratory.seed, laboratory.seed + count))
        self.steps, self.cycles = (20_000, 50_000) if laboratory.quick else (STEPS, CYCLES)

    @functools.cached_property
    def scales(self) -> dict[str, ReturnScale]:
        names = runs.TWO, runs.FLIPPED, runs.THREE, R1
        return {name: self._scale(name) for name in names}

    def _scale(self, name: str) -> ReturnScale:
        random, scripted = (
            float(np.mean([row["tasks"][name]["return"] for row in self.rows(system, "native", f"only-{name}")]))
            for system in ("random", "scripted")
        )
        scale = ReturnScale(random, scripted, 1.0)
        best = scripted if name == R1 else optimal_return(catalog.find(name).task)
        return dataclasses.replace(scale, richest=scale.of(best))

    def rows(self, name: str, track: str, kind: str) -> list[Row]:
        """Of every seed; `kind` is one of `table1_runs.RUNS`, or only- and a task."""
        system, is_r1 = find(name, track), kind == f"only-{R1}"
        seeds, budget = (self.seeds[:SEEDS_ON_R1], self.cycles) if is_r1 else (self.seeds, self.steps)
        stamp = {"system": repr(system), "kind": kind, "budget": budget, "version": __version__}
        run = self._run_of(kind)

        def compute(missing: Iterable[int]) -> list[Row]:
            with self.laboratory.counting(f"{name}, {track}, {kind}", budget) as count:
                counter = functools.partial(StepCounter, on_progress=count, stop=self.laboratory.stop)
                return run(system, runs.RunSetting(tuple(missing), budget, counter))

        return kept_rows(self._path(f"{name}-{track}-{kind}"), stamp, seeds, compute, print_note)

    def _path(self, label: str) -> Callable[[int], Path]:
        return lambda seed: self.folder / f"{label}-{seed}.json"

    def _run_of(self, kind: str) -> Callable[[System, runs.RunSetting], list[Row]]:
        if not kind.startswith("only-"):
            return runs.RUNS[kind]
        return lambda system, setting: runs.learned(system, [kind.removeprefix("only-")], setting)[1]

    # ---- Cells ----

    def cells(self, name: str, track: str) -> list[Cell]:
        """C1 to C5 of one system."""
        two, flipped, three = (self.scales[task] for task in (runs.TWO, runs.FLIPPED, runs.THREE))
        moved, rooms = self.rows(name, track, "transfer"), self.rows(name, track, "three")
        whole = [two.of(row["first"]["tasks"][runs.TWO]["return"]) for row in moved]
        has_skills = moved[0]["first"]["skills"] > 1
        still = None
        if has_skills:
            frozen = self.rows(name, track, "frozen")
            still = [two.of(row["tasks"][runs.TWO]["return"]) for row in frozen]
        together, scratch = self.rows(name, track, "joint"), self.rows(name, track, "scratch")
        both = [
            [self.scales[task].of(row["tasks"][task]["return"]) for task in (runs.TWO, runs.FLIPPED)]
            for row in together
        ]
        enough = flipped.back(SERVED)
        sooner = [runs.steps_to(row["after"], enough) for row in moved], [runs.steps_to(row, enough) for row in scratch]
        reuse = [row.get("reuse") for row in rooms] if has_skills else None
        marks = {
            "C1": learned_skills(whole, still),
            "C2": self._composed(rooms, track),
            "C3": served_tasks(both, *sooner),
            "C4": self._reused(reuse, rooms, three),
            "C5": corrected_model(
                [row["deployed"]["success"] for row in moved],
                [flipped.of(row["after"]["tasks"][runs.FLIPPED]["return"]) for row in moved],
                flipped.richest,
            ),
        }
        return [Cell(name, track, column, mark) for column, mark in marks.items()]

    def _composed(self, rooms: list[Row], track: str) -> Mark:
        success = [row["tasks"][runs.THREE]["success"] for row in rooms]
        if track == "native":
            return Mark(None, f"one skill with these features could do it; success {iqm(success):.2f}")
        return composed_skills(success, self.single)

    def _reused(self, reuse: list[Row | None] | None, rooms: list[Row], scale: ReturnScale) -> Mark:
        if reuse is None or None in reuse:
            return reused_skills(None, None)
        returns = [row["tasks"][runs.THREE]["return"] for row in rooms]
        cost = [
            scale.of(whole) - scale.of(one["without"]) if one["without"] is not None else 0.0
            for whole, one in zip(returns, reuse)
        ]
        return reused_skills([one["is_reused"] for one in reuse], cost)

    @functools.cached_property
    def single(self) -> float:
        """The best success of one skill on 3R."""
        stamp = {"resolution": 10, "stream": EVALUATION}

        def compute(_: Iterable[int]) -> list[Row]:
            return [{"success": runs.best_single_success(runs.THREE, 4 if self.laboratory.quick else 10)}]

        return kept_rows(self._path("single"), stamp | {"quick": self.laboratory.quick}, [0], compute, print_note)[0][
            "success"
        ]

    # ---- Returns ----

    def returns(self) -> dict[str, dict[tuple[str, str], list[Row]]]:
        """Rows of every seed by task, and there by system and track."""
        found: dict[str, dict[tuple[str, str], list[Row]]] = {task: {} for task in self.scales}
        for name in PAPER:
            for track in TRACKS:
                moved = self.rows(name, track, "transfer")
                found[runs.TWO][name, track] = [row["first"] for row in moved]
                found[runs.FLIPPED][name, track] = self.rows(name, track, "scratch")
                found[runs.THREE][name, track] = self.rows(name, track, "three")
        for name in (*CONTROLS, "random", "scripted"):
            for task in (runs.TWO, runs.FLIPPED, runs.THREE):
                found[task][name, "native"] = self.rows(name, "native", f"only-{task}")
        for name in (*ON_R1, "random", "scripted"):
            found[R1][name, "native"] = self.rows(name, "native", f"only-{R1}")
        return found

    def curves(self) -> dict[str, dict[str, list[SeedCurve]]]:
        """Learning curves by task and system, native features."""
        return {
            task: {
                name: [SeedCurve(row["curve"]["steps"], row["curve"]["returns"]) for row in rows]
                for (name, track), rows in systems.items()
                if track == "native" and name not in ("random", "scripted")
            }
            for task, systems in self.returns().items()
        }
