"""The tables of docs/records.md, and what the rows fall short of, which is counted from them and not chosen."""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

from records_rivals import WORDS
from records_rows import BEST, ENVIRONMENTS, PUBLISHED, ROWS, Environment, Published
from records_trainings import Reports, reports_of
from trainings import Key

from asap.base.stats import bootstrap_interval, iqm

HEAD = (
    "environment",
    "policy",
    "return: IQM [95 %]",
    "drawn",
    "as printed",
    "solved",
    "failed starts",
    "numbers",
    "steps",
    "s",
    "return of each seed",
)


class Line(NamedTuple):
    """One policy of an environment that was measured here."""

    env: str
    words: str
    reports: Reports
    is_ours: bool
    row: str = ""  # Its name, where it is a row of ours.

    @property
    def mean(self) -> float:
        return float(iqm(self.reports.all("return")))


def lines_of(kept: Mapping[Key, dict[str, Any]], env: str, steps: int | None) -> Iterator[Line]:
    budget = steps or ENVIRONMENTS[env].steps
    for name, row in ROWS.items():
        if row.env == env and (reports := reports_of(kept, name, "asap", budget)):
            yield Line(env, "ASAP, best settings" if row.is_best else "ASAP, defaults", reports, True, name)
    for system, words in WORDS.items():
        if reports := reports_of(kept, env, system, budget):
            yield Line(env, words, reports, False)


# ---- Tables -------------------------------------------------------------------------------------------------------


def tables(lines: list[Line]) -> Iterator[str]:
    for kind in dict.fromkeys(about.kind for about in ENVIRONMENTS.values()):
        envs = [env for env, about in ENVIRONMENTS.items() if about.kind == kind]
        if not any(line.env in envs for line in lines):
            continue
        yield f"## {kind}\n"
        yield f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}"
        for env in envs:
            own = [line for line in lines if line.env == env]
            for line in own:
                yield f"| {' | '.join(cells(line, ENVIRONMENTS[env]))} |"
            for one in PUBLISHED.get(env, ()) if own else ():
                yield f"| {' | '.join(published_cells(env, one))} |"
        yield ""


def cells(line: Line, about: Environment) -> tuple[str, ...]:
    reports, returns = line.reports, line.reports.all("return")
    low, high = bootstrap_interval(returns)
    return (
        line.env,
        f"**{line.words}**" if line.is_ours else line.words,
        f"{number(iqm(returns))} [{number(low)}, {number(high)}]",
        mean_of(reports, "sampled"),
        mean_of(reports, "printed"),
        f"{sum(value >= about.threshold for value in returns)} of {len(returns)} >= {about.threshold:g}",
        share(reports.all("failed")),
        size(reports) + (" nodes" if "nodes" in reports.best[1] else ""),
        f"{median(reports.all('steps')):,.0f}",
        f"{median(seconds):,.0f}" if (seconds := reports.all("seconds")) else "",
        ", ".join(map(number, returns)),
    )


def published_cells(env: str, one: Published) -> tuple[str, ...]:
    return (env, f"*published: {one.who}*", number(one.value), *[""] * 4, one.size, one.steps, "", "")


def number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 2 else f"{value:.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def mean_of(reports: Reports, what: str) -> str:
    values = reports.all(what)
    return number(iqm(values)) if values else ""


def share(values: list[float]) -> str:
    return f"{100 * sum(values) / len(values):.3g} %" if values else ""


def size(reports: Reports) -> str:
    """`5`, `12 (9 to 14)`, `0 and 11 states`."""
    found = []
    for what, noun in (("numbers", ""), ("states", " states")):
        values = reports.all(what)
        if values and (what == "numbers" or max(values)):
            low, high = min(values), max(values)
            spread = "" if low == high else f" ({low:,} to {high:,})"
            found.append(f"{median(values):,.0f}{spread}{noun}")
    return " and ".join(found)


# ---- What falls short ---------------------------------------------------------------------------------------------


def shortfalls(lines: list[Line]) -> Iterator[str]:
    """For each row: seeds below the threshold, failed starts, and who returns more."""
    yield "## What falls short\n"
    yield "Everything below is counted from the tables above, row by row. A figure of others counts as more where it is larger than our IQM.\n"
    clean = []
    for line in lines:
        if line.is_ours:
            found = list(shortfalls_of(line, lines))
            if found:
                yield f"- **{named(line)}**: {'; '.join(found)}."
            else:
                clean.append(named(line))
    if clean:
        yield f"- Nothing of this kind: {', '.join(clean)}."
    missing = [
        name for name in ROWS if name not in {line.row for line in lines} and (name not in BEST or ROWS[name].flags)
    ]
    if missing:
        yield f"- Not measured yet: {', '.join(missing)}."
    if unset := [row.env for row in BEST.values() if not row.flags]:
        yield f"- No settings of their own yet: {', '.join(unset)}."
    yield ""


def named(line: Line) -> str:
    return f"{line.env}, {'best settings' if ROWS[line.row].is_best else 'defaults'}"


def shortfalls_of(line: Line, lines: list[Line]) -> Iterator[str]:
    about, returns = ENVIRONMENTS[line.env], line.reports.all("return")
    if below := sum(value < about.threshold for value in returns):
        yield f"{below} of {len(returns)} seeds below {about.threshold:g}"
    if (failed := line.reports.all("failed")) and max(failed) > 0:
        yield f"{share(failed)} of starts fail"
    printed = line.reports.all("printed")
    if printed and iqm(printed) < line.mean - max(0.01 * abs(line.mean), 1e-9):
        yield f"print costs {number(line.mean - iqm(printed))}"
    if len(printed) < len(returns):
        yield f"the rules of {len(returns) - len(printed)} seeds could not be read again"
    better = [(other.mean, other.words) for other in lines if other.env == line.env and not other.is_ours]
    better += [(one.value, one.who) for one in PUBLISHED.get(line.env, ())]
    for value, words in better:
        if value > line.mean:
            yield f"{words} has {number(value)}"
