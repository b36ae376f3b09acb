"""The page of Table 1: the paper's marks beside the measured ones, the numbers behind them, and every seed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from asap.base.numbers import counted
from asap.base.stats import SeedCurve, bootstrap_interval, difference_interval, iqm
from asap.paper import table1_marks as marks
from asap.paper.claims import Picture
from asap.paper.laboratory import Laboratory
from asap.rivals.kept import Row
from asap.show.figures.curves import compare_curves

if TYPE_CHECKING:
    from asap.paper.table1 import Cell, ReturnScale

Returns = Mapping[str, Mapping[tuple[str, str], list[Row]]]
# Why a measured mark differs from the printed one: by system and column, or by system, column and track.
REASONS: dict[tuple[str, ...], str] = {}
TRACK_WORDS = {
    "equal": "Equal representation: skills are distributions over actions, and what chooses among them sees [1, x, y]",
    "native": "Native features: what the authors of each system used",
}
CAPTION = "Return of the training episodes by environment steps. Thin: seeds. Thick: interquartile mean with its 95 % interval."


def page(
    cells: Sequence["Cell"],
    returns: Returns,
    scales: Mapping[str, "ReturnScale"],
    authors: Mapping[str, str],
    thresholds: str,
    laboratory: Laboratory,
) -> str:
    """In Markdown, without a heading of its own."""
    blocks = [
        "The paper compares ASAP with five systems by check marks. Here each system is built after its paper, by us and not by "
        "its authors, and each mark is a measured predicate. A mark is given where the 95 % interval clears the threshold. "
        f"The thresholds were fixed in commit {thresholds}, before the first full run: "
        "[table1_marks.py](../src/asap/paper/table1_marks.py).",
        _scales(scales),
    ]
    for track, words in TRACK_WORDS.items():
        blocks += [f"## {words}", _table([cell for cell in cells if cell.track == track], authors)]
    blocks += ["## Where paper and measurement disagree", _disagreements(cells, authors)]
    blocks += ["## Returns", _returns(returns, scales, laboratory), "## Every seed", _seeds(returns)]
    return "\n\n".join(blocks)


def _scales(scales: Mapping[str, "ReturnScale"]) -> str:
    lines = ["| task | random play (0) | scripted optimum (1) | best policy there is |", "|---|---|---|---|"]
    for name, scale in scales.items():
        lines.append(f"| {name} | {scale.random:.2f} | {scale.scripted:.2f} | {scale.richest:.2f} |")
    return "\n".join(["Returns are scaled by two references, which are played with the same seeds:", "", *lines])


def _table(cells: Sequence["Cell"], authors: Mapping[str, str]) -> str:
    columns = list(marks.COLUMNS)
    head = "| system | " + " | ".join(f"{name}: {marks.COLUMNS[name]}" for name in columns) + " |"
    lines = [head, "|---" * (len(columns) + 1) + "|"]
    for system, words in authors.items():
        own = {cell.column: cell for cell in cells if cell.system == system}
        lines.append(f"| {words} (`{system}`) | " + " | ".join(_cell(own[name]) for name in columns) + " |")
    return "\n".join(lines)


def _cell(cell: "Cell") -> str:
    measured = {True: "**yes**", False: "**no**", None: "-"}[cell.mark.passed]
    return f"paper {'yes' if cell.printed else 'no'}, measured {measured}: {cell.mark.number}"


def _disagreements(cells: Sequence["Cell"], authors: Mapping[str, str]) -> str:
    lines = []
    for cell in cells:
        if not cell.agrees:
            reason = REASONS.get((cell.system, cell.column, cell.track)) or REASONS.get((cell.system, cell.column), "")
            words = f"- {authors[cell.system]}, {cell.column} ({cell.track}): the paper says "
            words += f"{'yes' if cell.printed else 'no'}, we measure {cell.mark.number}."
            lines.append(f"{words} {reason}".rstrip())
    return "\n".join(lines) or "Nowhere."


def _returns(returns: Returns, scales: Mapping[str, "ReturnScale"], laboratory: Laboratory) -> str:
    blocks = [
        "Scaled returns of fresh episodes after learning (IQM over seeds, 95 % interval), and the difference to ASAP with the same "
        "features (native for controls). Differences whose interval holds 0 are in brackets. Steps, seconds and parameters are of one seed."
    ]
    for task, systems in returns.items():
        lines = [
            f"### {task}",
            "",
            "| system | features | scaled return | minus ASAP | success | steps | seconds | parameters | seeds |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for (name, track), rows in systems.items():
            lines.append(
                _line(name, track, rows, systems.get(("asap", track)) or systems["asap", "native"], task, scales)
            )
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _line(
    name: str, track: str, rows: list[Row], asap: list[Row], task: str, scales: Mapping[str, "ReturnScale"]
) -> str:
    scaled, theirs = ([scales[task].of(row["tasks"][task]["return"]) for row in group] for group in (rows, asap))
    low, high = bootstrap_interval(scaled)
    difference, cells = "", [name, track, f"{iqm(scaled):.2f} ({low:.2f} to {high:.2f})"]
    if name != "asap":
        lower, upper = difference_interval(scaled, theirs)
        difference = f"{iqm(scaled) - iqm(theirs):+.2f}"
        difference = f"({difference})" if lower <= 0 <= upper else difference
    success = np.mean([row["tasks"][task]["success"] for row in rows])
    steps, seconds = (np.mean([row[key] for row in rows]) for key in ("steps", "seconds"))
    cells += [
        difference,
        f"{success:.2f}",
        f"{steps:,.0f}",
        f"{seconds:.1f}",
        str(rows[0]["parameters"]),
        str(len(rows)),
    ]
    return f"| {' | '.join(cells)} |"


def _seeds(returns: Returns) -> str:
    """Unscaled, in the order of the seeds."""
    lines = []
    for task, systems in returns.items():
        lines.append(f"### {task}: mean return of each seed\n")
        for (name, track), rows in systems.items():
            numbers = " ".join(f"{row['tasks'][task]['return']:.3g}" for row in rows)
            lines.append(f"- {name}, {track}, {counted(len(rows), 'seed')}: {numbers}")
        lines.append("")
    return "\n".join(lines).rstrip()


def domain_pictures(curves: Mapping[str, Mapping[str, list[SeedCurve]]]) -> dict[str, Picture]:
    """Two for each domain: the systems of the table, and ASAP with the controls."""
    pictures = {}
    for task, systems in curves.items():
        named = set(systems) & {"asap", "parameterized-skills", "skill-chaining", "option-critic", "pg-ella", "q-pamdp"}
        for part, names in (("systems", named), ("controls", set(systems) - named | {"asap"})):
            chosen = {name: own for name, own in systems.items() if name in names and all(len(c.episodes) for c in own)}
            if len(chosen) > 1:
                figure = compare_curves(chosen, title=f"{task}: {part}", xlabel="environment steps")
                pictures[f"table1-{task}-{part}"] = Picture(figure, f"{task}. {CAPTION}")
    return pictures
