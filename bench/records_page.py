"""The page docs/records.md, from the reports that are finished."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from records_pictures import draw_all, file_of, holds, slug
from records_rivals import TREE
from records_rows import BEST, DEFAULTS_TUNED, ENVIRONMENTS, FIRST_FRESH_SEED, ROWS
from records_tables import lines_of, number, shortfalls, tables
from records_trainings import Reports
from trainings import Key

LONGEST_RULES = 60  # Lines of rules on the page; the file has all.
ABOUT = f"""\
# Records: readable policies on problems that people compare on

This page is written by `bench/records.py`. It shows what a policy of this library reaches where a person can read all of it.
Beside it stand rivals that ran here with equally many steps, and figures that others have published.

## How it was measured

- **Seeds.** Settings were chosen on seeds below {FIRST_FRESH_SEED:,}. Every seed from there on that was run is listed.
- **Returns** are means over fresh episodes: 100, on FrozenLake 2,000. Every action is the most probable one; `drawn` has actions
  drawn. IQM is the interquartile mean over seeds, with its 95 % bootstrap interval.
- **As printed** is the return of the rules as `model.rules()` prints them, read again and played. So it includes what rounding costs.
- **Solved** counts the seeds that reach the threshold. **Failed starts** is the share of episodes below it: of 10,000 on CartPole,
  2,000 on FrozenLake, 100 on landers and MuJoCo, else 1,000.
- **Numbers** are those in the printed rules: coefficients, limits, constants, percentages and `within` (median and range over
  seeds). Of percentages that sum to 100 the last does not count. States that are listed count apart. Networks have weights, trees nodes.
- **Steps** are medians of all steps of the environment. The tree needs those of its network, and further ones. **s** are medians of
  processor seconds, compiling included.
- The tree has at most {TREE["leaves"]} leaves and comes from {TREE["rounds"]} rounds. Each gathers {TREE["episodes"]} episodes \
(`bench/records_tree.py`).
- Published figures are quoted. They were measured by others, on their seeds and sometimes on earlier versions of an environment.
"""


def write_page(
    kept: Mapping[Key, dict[str, Any]], docs: Path, examples: Path, steps: int | None = None, plays: bool = True
) -> Path:
    """`steps` are those of trials, in place of each row's budget. Unless it `plays`, pictures and files of rules stay."""
    lines = [line for env in ENVIRONMENTS for line in lines_of(kept, env, steps)]
    rows = {line.row: line.reports for line in lines if line.is_ours}
    if plays:
        draw_all(rows, docs / "pictures", examples)
    blocks = [ABOUT, *tables(lines), *shortfalls(lines), *policies(rows, docs, examples, steps), *settings_tried(rows)]
    page = docs / "records.md"
    docs.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(blocks).rstrip() + "\n")
    return page


# ---- The policies -------------------------------------------------------------------------------------------------


def policies(rows: Mapping[str, Reports], docs: Path, examples: Path, steps: int | None) -> Iterator[str]:
    yield "## The best policy of each row\n"
    yield "The seed whose printed rules return most. It was chosen among the seeds above by the same episodes, so it flatters a little.\n"
    if (docs / "pictures/records-curves.png").exists():
        yield (
            "![Learning curves of all rows: every seed, the interquartile mean with its interval, and the threshold]"
            + ("(pictures/records-curves.png)\n")
        )
    for name, reports in rows.items():
        seed, report = reports.best
        command = shlex.join(["asap", *ROWS[name].command(steps or ROWS[name].about.steps), "--seed", str(seed)])
        yield f"### {ROWS[name].env}{', best settings' if ROWS[name].is_best else ''}\n"
        yield f"Seed {seed}: {said_of(report)}. The command is `{command}`.{rules_file(name, report, examples)}\n"
        lines = report["rules"].rstrip().splitlines()
        more = [f"... {len(lines) - LONGEST_RULES} more lines"] if len(lines) > LONGEST_RULES else []
        yield "\n".join(["```", *lines[:LONGEST_RULES], *more, "```\n"])
        picture = f"pictures/records-{slug(name)}.png"
        if (docs / picture).exists():
            yield f"![Which skill rules where: {ROWS[name].env}, seed {seed}]({picture})\n"


def said_of(report: Mapping[str, Any]) -> str:
    if report.get("printed") is None:
        return number(report["return"])
    failures = f"{100 * report['printed_failed']:.3g} % of the starts fail"
    return f"{number(report['return'])}, as printed {number(report['printed'])}, where {failures}"


def rules_file(name: str, report: Mapping[str, Any], examples: Path) -> str:
    """Where these rules stand in a file, too."""
    path = file_of(name, examples)
    return f" It is also in `examples/rules/{path.name}`." if holds(path, report["rules"]) else ""


def settings_tried(rows: Mapping[str, Reports]) -> Iterator[str]:
    yield "## Settings, and which were tried\n"
    yield "Every row is one command, `asap train`, with `--seed` and nothing else than what stands here.\n"
    for sentence in DEFAULTS_TUNED:
        yield f"- {sentence}"
    for row in BEST.values():
        if row.flags:
            yield f"- {row.env}: `{shlex.join(row.flags)}`. Tried on tuning seeds: {len(row.tried)} settings."
            yield from (f"  - `{each}`" for each in row.tried)
    codes = {reports.code for reports in rows.values()}
    versions = {f"{what} {which}" for r in rows.values() for v in r.all("versions") for what, which in v.items()}
    if codes:
        yield f"\nCode of the library (a digest): {', '.join(sorted(codes))}. Versions: {', '.join(sorted(versions))}."
