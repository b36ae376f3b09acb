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
REASONS: dict[tuple[str, ...], str] = {
    ("asap", "C2"): (
        "Two planes over [1, x, y] and four constant skills have to be found together, and nothing is gained before all of them fit. "
        "A few seeds do find them. With the paper's own feature, which needs one plane, all do."
    ),
    ("asap", "C3"): (
        "The first half holds: one policy serves both tasks. The second does not: skills that are certain on 2R must be unlearned on "
        "flipped 2R, which takes longer than starting undecided. `asap transfer --search-symmetries` tries mirror images first and is much "
        "faster ([results](results.md)); the paper has no such search, so it is not used here."
    ),
    ("asap", "C4"): (
        "Four regions have a skill each, and nothing leads two regions to the same one. The paper's own feature is alike in the first "
        "and the third room, so one skill must serve both: that reuse is in the feature, and not found by learning."
    ),
    ("parameterized-skills", "C1"): (
        "It learns a map from tasks to policies. Within a policy there are no skills that could be frozen."
    ),
    ("parameterized-skills", "C3", "equal"): "Its policy is one distribution over actions here, which cannot solve 2R.",
    ("parameterized-skills", "C3", "native"): (
        "Most seeds serve both tasks, and the interval just misses the threshold. After 2R it has to sample tasks anew, so it saves no steps."
    ),
    ("parameterized-skills", "C5"): (
        "Its policy search goes on from any start. The cross can mean that the paper of the system does not ask, hardly that it fails."
    ),
    ("skill-chaining", "C2"): (
        "Inside an option there is one distribution over actions here, and values are linear in x and y. Nearly no episode reaches "
        "the goal, and a chain begins with episodes that do."
    ),
    ("skill-chaining", "C5"): "It learns values and goes on learning them: a wrong start costs steps, and no more.",
    ("option-critic", "C5"): "It goes on learning from any start; its own experiments move the goal and show that.",
    ("pg-ella", "C3", "equal"): "Its policy is one distribution over actions here, which cannot solve 2R.",
    ("pg-ella", "C3", "native"): (
        "Most seeds serve both tasks, a few serve neither. On flipped 2R alone, the basis that was learned on 2R mostly stays at "
        "policies that never get there."
    ),
}
CAVEATS = (
    "Settings were chosen on other seeds, six for each system on 2R and 3R (`bench/rivals_tuning.py`). Option-Critic had more looks, "
    "and parameterized-skills two more designs, before they worked at all. The settings of the equal track of 3R were tuned for ASAP alone.",
    "`pg-ella` and `parameterized-skills` learn a family of tasks around the one that is measured, door by door and mirrored. So flipped 2R "
    "is not new to them after 2R. Their curves are of all tasks of the family: a high curve is not a high return on the task itself.",
    "`q-pamdp` moves by its own steps of any length in x or y. Its reuse of an action can't be asked by regions.",
    "Steps to a return are read off the learning curves: of evaluations for ASAP and the flat policies, of training episodes, exploration "
    "included, for the others.",
)
TRACK_WORDS = {
    "equal": "Equal representation: skills are distributions over actions, and what chooses among them sees [1, x, y]",
    "native": "Native features: what the authors of each system used",
}
PRACTISED = " The curves of pg-ella and parameterized-skills fall where they begin another task of their family."
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
    blocks += ["## Who does better than ASAP", _ahead(returns, scales)]
    blocks += ["## What to keep in mind", "\n".join(f"- {each}" for each in CAVEATS)]
    blocks += ["## Returns", _returns(returns, scales, laboratory), "## Every seed", _seeds(returns)]
    return "\n\n".join(blocks)


def _scales(scales: Mapping[str, "ReturnScale"]) -> str:
    lines = ["| task | random play (0) | scripted optimum (1) | best policy there is |", "|---|---|---|---|"]
    for name, scale in scales.items():
        lines.append(f"| {name} | {scale.random:z.2f} | {scale.scripted:z.2f} | {scale.richest:z.2f} |")
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


def _ahead(returns: Returns, scales: Mapping[str, "ReturnScale"]) -> str:
    """Systems whose return is higher beyond chance, with the same features (native for controls)."""
    head = ["| task | features | system | scaled return | parameters | ASAP | its parameters |", "|---" * 7 + "|"]
    rows = []
    for task, systems in returns.items():
        better = []
        for (name, track), theirs in systems.items():
            ours = systems.get(("asap", track))
            if name in ("asap", "scripted") or ours is None:
                continue
            scaled, own = ([scales[task].of(row["tasks"][task]["return"]) for row in group] for group in (theirs, ours))
            if difference_interval(scaled, own)[0] > 0:
                cells = (
                    f"{iqm(scaled):z.2f} | {theirs[0]['parameters']:,} | {iqm(own):z.2f} | {ours[0]['parameters']:,}"
                )
                better.append(f"| {task} | {track} | {name} | {cells} |")
        rows += better or [f"| {task} | | nobody | | | | |"]
    return "\n".join(["Scaled return (IQM over seeds), beyond chance:", "", *head, *rows])


def _returns(returns: Returns, scales: Mapping[str, "ReturnScale"], laboratory: Laboratory) -> str:
    blocks = [
        "Scaled returns of fresh episodes after learning (IQM over seeds, 95 % interval), and the difference to ASAP with the same "
        "features (native for controls). Differences whose interval holds 0 are in brackets. Steps, processor seconds and parameters are of one seed."
    ]
    for task, systems in returns.items():
        lines = [
            f"### {task}",
            "",
            "| system | features | scaled return | minus ASAP | success | steps | processor seconds | parameters | seeds |",
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
    difference, cells = "", [name, track, f"{iqm(scaled):z.2f} ({low:z.2f} to {high:z.2f})"]
    if name != "asap":
        lower, upper = difference_interval(scaled, theirs)
        difference = f"{iqm(scaled) - iqm(theirs):+z.2f}"
        difference = f"({difference})" if lower <= 0 <= upper else difference
    success = np.mean([row["tasks"][task]["success"] for row in rows])
    steps, seconds = (np.mean([row[key] for row in rows]) for key in ("steps", "seconds"))
    cells += [
        difference,
        f"{success:z.2f}",
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
                pictures[f"table1-{task}-{part}"] = Picture(
                    figure, f"{task}. {CAPTION}{PRACTISED if part == 'systems' and 'pg-ella' in chosen else ''}"
                )
    return pictures
