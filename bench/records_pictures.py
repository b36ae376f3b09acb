"""The pictures of docs/records.md, and the files in examples/rules."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator
from records_asap import mean, played
from records_rows import ENVIRONMENTS, PUBLISHED, ROWS
from records_trainings import Reports
from trainings import tell

import asap
from asap.base.stats import SeedCurve, bootstrap_interval, common_grid, iqm, mean_interval, resample
from asap.show.figures.palette import CURVE, MUTED, method_colour

PANEL, ACROSS, DPI = (3.2, 2.3), 4, 130  # Inches, panels side by side.
CHARACTERS = 48  # Of a caption, for each panel above it.
COMPARED_SEED = 1  # Of episodes that no seed was chosen by.
TRIED_EPISODES = 20  # By the tests.
MOST_FAILURES = 0.001  # Of CartPole's starts, in a file of rules.


def slug(name: str) -> str:
    return name.lower().replace(":", "-")


def file_of(name: str, examples: Path) -> Path:
    return examples / f"{ROWS[name].about.rules}.txt"


def draw_all(rows: Mapping[str, Reports], pictures: Path, examples: Path) -> None:
    pictures.mkdir(parents=True, exist_ok=True)
    if any(reports.all("curve") for reports in rows.values()):
        draw_curves(rows).savefig(pictures / "records-curves.png", dpi=DPI)
    for name, reports in rows.items():
        seed, report = reports.best
        if not Path(report.get("run") or "", "checkpoints").is_dir():
            tell(f"{name}: no picture, because its run is not here: {report.get('run')}")
            continue
        figure = asap.ASAP.load(report["run"]).plot(title=f"{ROWS[name].env}, seed {seed}")
        figure.savefig(pictures / f"records-{slug(name)}.png", dpi=DPI)
    for env in ENVIRONMENTS:
        own = {name: reports for name, reports in rows.items() if ROWS[name].env == env}
        if own:
            name = max(own, key=lambda name: own[name].best[1].get("printed") or -math.inf)
            keep_if_better(name, *own[name].best, examples)


# ---- Files of rules -----------------------------------------------------------------------------------------------


def keep_if_better(name: str, seed: int, report: Mapping[str, Any], examples: Path) -> bool:
    """Writes the rules of a seed where there are none yet, or where they return more on fresh starts, beyond chance."""
    if report.get("printed") is None:
        return False
    path, about, env = file_of(name, examples), ROWS[name].about, ROWS[name].env
    if holds(path, report["rules"]):
        return False
    job = {"starts": about.starts, "episodes": about.episodes, "threshold": about.threshold}
    new = played(asap.load_rules(report["rules"], env), job, True, COMPARED_SEED)
    if env == "CartPole-v1" and np.mean(new < about.threshold) > MOST_FAILURES:
        tell(f"{path.name}: stays, the new rules fail from {100 * np.mean(new < about.threshold):.2g} % of the starts")
        return False
    if path.exists():
        old = played(asap.load_rules(path, env), job, True, COMPARED_SEED)
        gain = mean_interval(new - old)
        if gain is None or gain[0] <= 0:
            tell(f"{path.name}: stays, the new rules gain {np.mean(new - old):.3g}")
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*header(name, seed, new, job), report["rules"].rstrip(), ""]))
    tell(f"{path.name}: written, {mean(new, job):.4g} over {about.episodes} episodes")
    return True


def holds(path: Path, rules: str) -> bool:
    """Whether a file has these rules, under comments of its own."""
    return path.exists() and statements(path.read_text()) == statements(rules)


def statements(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def header(name: str, seed: int, returns: np.ndarray, job: Mapping[str, Any]) -> Iterator[str]:
    """The second line is read by the tests: what a mean over so few episodes stays above, by four standard errors."""
    least = returns.mean() - 4 * returns.std() / math.sqrt(TRIED_EPISODES)
    yield f"# {ROWS[name].env}: learned, seed {seed} of docs/records.md; {mean(returns, job):.4g} over {job['episodes']} episodes."
    yield f"# Tried by the tests: {TRIED_EPISODES} episodes of {ROWS[name].env} return at least {least:.4g}."


# ---- Learning curves ----------------------------------------------------------------------------------------------


def draw_curves(rows: Mapping[str, Reports]) -> Figure:
    """A panel for each environment: returns in training, by steps."""
    envs = [env for env in ENVIRONMENTS if any(ROWS[name].env == env and rows[name].all("curve") for name in rows)]
    across, down = min(ACROSS, len(envs)), math.ceil(len(envs) / ACROSS)
    figure = Figure(figsize=(PANEL[0] * across, PANEL[1] * down + 0.9), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes, env in zip(panels, envs):
        of_env = {name: reports for name, reports in rows.items() if ROWS[name].env == env and reports.all("curve")}
        for name, reports in of_env.items():
            draw_row(axes, reports, method_colour(1) if ROWS[name].is_best else CURVE)
        draw_levels(axes, env)
        axes.set_title(env, fontsize=10, fontweight="bold")
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 500k, 1M.
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(left=0)
    for axes in panels[len(envs) :]:
        axes.set_axis_off()
    thin = "thin: each seed; thick: interquartile mean; shaded: its 95 % interval; dashed: threshold; dotted: best published"
    best = "; red: best settings" if any(ROWS[name].is_best for name in rows) else ""
    figure.supxlabel(f"steps of the environment\n{fill(thin + best, CHARACTERS * across)}", fontsize=9)
    figure.supylabel("return in training", fontsize=9)
    return figure


def draw_row(axes: Axes, reports: Reports, colour: str) -> None:
    curves = [SeedCurve(*np.array(curve, float).T) for curve in reports.all("curve")]
    grid = common_grid(curves)
    values = resample(curves, grid)
    for curve in curves:
        axes.plot(*curve, color=colour, linewidth=0.5, alpha=0.4, zorder=2)
    axes.fill_between(grid, *bootstrap_interval(values), color=colour, alpha=0.2, linewidth=0, zorder=3)
    axes.plot(grid, iqm(values), color=colour, linewidth=1.8, zorder=4)


def draw_levels(axes: Axes, env: str) -> None:
    """Lines that would leave the curves no room are left out."""
    levels = [(ENVIRONMENTS[env].threshold, "--")]
    levels += [(max(one.value for one in PUBLISHED[env]), ":")] if env in PUBLISHED else []
    low, high = axes.get_ylim()
    for level, style in levels:
        if low - (high - low) < level < high + (high - low):
            axes.axhline(level, color=MUTED, linewidth=1, linestyle=style, zorder=1)
