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
    yield "## What falls short\n"
    yield "Counted from the tables above, for each row of ours. Others return more where their figure is larger than our IQM.\n"
    yield "| row | seeds below the threshold | failed starts | lost in print | who returns more |\n|---|---|---|---|---|"
    for line in lines:
        if line.is_ours:
            yield f"| {' | '.join(shortfalls_of(line, lines))} |"
    yield ""
    measured = {line.row for line in lines}
    if missing := [name for name, row in ROWS.items() if name not in measured and (row.flags or not row.is_best)]:
        yield f"Not measured yet: {', '.join(missing)}.\n"
    if unset := [row.env for row in BEST.values() if not row.flags]:
        yield f"No settings of their own yet: {', '.join(unset)}.\n"


def shortfalls_of(line: Line, lines: list[Line]) -> Iterator[str]:
    reports, about = line.reports, ENVIRONMENTS[line.env]
    returns, printed, failed = (reports.all(what) for what in ("return", "printed", "failed"))
    yield f"{line.env}, {'best settings' if ROWS[line.row].is_best else 'defaults'}"
    below = sum(value < about.threshold for value in returns)
    yield f"{below} of {len(returns)}" if below else "none"
    yield share(failed) if any(failed) else "none"
    lost = line.mean - iqm(printed) if printed else 0.0
    unread = len(returns) - len(printed)
    words = [f"{unread} of {len(returns)} could not be read again"] if unread else []
    yield "; ".join([number(lost), *words] if lost > 0 else words) or "nothing"
    others = [(other.mean, other.words) for other in lines if other.env == line.env and not other.is_ours]
    others += [(one.value, one.who) for one in PUBLISHED.get(line.env, ())]
    yield "; ".join(f"{words}: {number(value)}" for value, words in others if value > line.mean) or "nobody"
