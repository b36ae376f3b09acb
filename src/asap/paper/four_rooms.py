"""Four rooms with a goal that moves: who finds the new one sooner, ASAP or the systems that learn step by step?

Nobody is told of the change but the two arms of ASAP whose names say so.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, StrMethodFormatter

from asap.base.files import saving
from asap.base.stats import difference_interval
from asap.envs.four_rooms import AFTER_MOVE, INSTEAD_OF_MOVE
from asap.paper.check_option_critic import in_words, median_limits
from asap.paper.claims import Claim, Finding, Picture
from asap.paper.four_rooms_page import one_line, page
from asap.paper.laboratory import Laboratory
from asap.rivals.goal_change import (
    CONTROL,
    EPISODES,
    OPTION_CRITIC,
    Q_LEARNING,
    SARSA,
    SYSTEMS,
    Recovery,
    goal_change,
    tabular_learner,
)
from asap.rivals.goal_change_batches import Arm, asap_goal_change
from asap.show.figures.labels import Label, label_right
from asap.show.figures.palette import MUTED, method_colour, method_line_style

LEARNS_ON, KEEPS, SEES = "ASAP", "ASAP, skills kept", "ASAP, goal in\nthe descriptor"
ARMS = {LEARNS_ON: Arm(), KEEPS: Arm(keeps_skills=True), SEES: Arm(num_goals=4)}
RIVALS = (OPTION_CRITIC, CONTROL, Q_LEARNING, SARSA)
PAIRS = (*((LEARNS_ON, rival) for rival in RIVALS), (KEEPS, OPTION_CRITIC), (SEES, OPTION_CRITIC))
WORDS = {
    AFTER_MOVE: "a slip follows a successful move (as in the code of Option-Critic)",
    INSTEAD_OF_MOVE: "a slip replaces the move (as in the paper of Option-Critic)",
}
QUICK_EPISODES = 50
SHADED = (LEARNS_ON, OPTION_CRITIC)  # More would hide each other.
BLOCK = 20  # Episodes that make one point of a picture.
CAPTION = (
    "Steps per episode by episodes. Lines: median over runs of the mean of 20 episodes; shaded, for ASAP and Option-Critic: quartiles. "
    "The goal moves in the middle."
)


def run(laboratory: Laboratory) -> Finding:
    found, claims, pictures = {}, {}, {}
    num_episodes = QUICK_EPISODES if laboratory.quick else EPISODES
    for slip in (AFTER_MOVE, INSTEAD_OF_MOVE):
        lengths = {name: recorded(laboratory, name, slip, num_episodes) for name in (*ARMS, *RIVALS)}
        found[slip] = {name: Recovery.of(each) for name, each in lengths.items()}
        claims[slip] = recoveries(found[slip], slip)
        pictures[f"four-rooms-{slip}"] = Picture(drawn(lengths, f"Four rooms: {WORDS[slip]}"), CAPTION)
    return Finding(sum(claims.values(), []), pictures, page(found, PAIRS, WORDS, num_episodes))


def recorded(laboratory: Laboratory, name: str, slip: str, num_episodes: int = EPISODES) -> np.ndarray:
    """(runs, episodes): steps of each, kept in files, so that a stopped experiment goes on."""
    runs = range(laboratory.seed, laboratory.seed + laboratory.seeds)
    # Runs of ASAP need very different numbers of updates, and together all of them would wait for the slowest.
    groups = [range(run, run + 1) for run in runs] if name in ARMS else [runs]
    return np.concatenate([_recorded_together(laboratory, name, slip, num_episodes, group) for group in groups])


def _recorded_together(laboratory: Laboratory, name: str, slip: str, num_episodes: int, runs: range) -> np.ndarray:
    is_ours = name in ARMS
    settings = repr((ARMS[name].config if is_ours else SYSTEMS[name], ARMS.get(name), slip, num_episodes))
    plain = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
    path = laboratory.out / "runs" / "four-rooms" / f"{plain}-{slip}-{num_episodes}-{len(runs)}-from-{runs.start}.npz"
    if path.exists():
        with np.load(path) as kept:
            if str(kept["settings"]) == settings:
                return kept["lengths"]
    label = f"{one_line(name)}, {slip}, {f'run {runs.start}' if len(runs) == 1 else f'{len(runs)} runs'}"
    with laboratory.counting(label, 2 * num_episodes, "episodes") as count:

        def heard(slowest: int) -> None:
            count(slowest)
            if laboratory.stop.requested:
                raise SystemExit(laboratory.stop.exit_code)

        if is_ours:
            lengths = asap_goal_change(ARMS[name], slip, runs, num_episodes, heard)
        else:
            lengths = goal_change(tabular_learner(SYSTEMS[name], slip), slip, runs, num_episodes, heard)
    path.parent.mkdir(parents=True, exist_ok=True)
    with saving(path, "run") as file:
        np.savez_compressed(file, lengths=lengths, settings=settings)
    return lengths


def recoveries(found: Mapping[str, Recovery], slip: str) -> list[Claim]:
    """ASAP against each rival; its other two arms against Option-Critic."""
    return [against(found, ours, theirs, slip) for ours, theirs in PAIRS]


def against(found: Mapping[str, Recovery], ours: str, theirs: str, slip: str) -> Claim:
    mine, other = found[ours], found[theirs]
    low, high = difference_interval(mine.first, other.first, np.median)
    name, their_name = one_line(ours), one_line(theirs)
    return Claim(
        claim=f"four rooms, {WORDS[slip]}: {name} finds the new goal sooner than {their_name}",
        paper="not in the paper",
        ours=f"{np.median(mine.first):.0f} steps per episode against {np.median(other.first):.0f}",
        ci=median_limits(mine.first),
        passed=high < 0,
        note=f"median over runs, first 50 episodes after the change; holds if the 95 % interval of the difference, {low:.0f} "
        f"to {high:.0f}, lies below 0. Steps per episode in the last 100 before the change, the first 50, 100 to 200 "
        f"and the last 100 after it: {name} {in_words(mine)}; {their_name} {in_words(other)}",
    )


def drawn(lengths: Mapping[str, np.ndarray], title: str) -> Figure:
    """Steps per episode by episodes."""
    figure = Figure(figsize=(9.6, 5.2), layout="constrained")
    axes: Axes = figure.subplots()
    axes.set_yscale("log")
    labels = []
    for index, (name, steps) in enumerate(lengths.items()):
        size = min(BLOCK, steps.shape[1])
        means = steps[:, : steps.shape[1] // size * size].reshape(len(steps), -1, size).mean(2)
        episodes = size * (np.arange(means.shape[1]) + 0.5)
        low, median, high = np.quantile(means, [0.25, 0.5, 0.75], axis=0)
        colour, is_ours = method_colour(index), name in ARMS
        if name in SHADED:
            axes.fill_between(episodes, low, high, color=colour, alpha=0.15, linewidth=0)
        style = {"color": colour, "linestyle": method_line_style(index), "linewidth": 2.4 if is_ours else 1.6}
        axes.plot(episodes, median, **style)
        labels.append(Label(float(median[-1]), name, colour))
    axes.axvline(next(iter(lengths.values())).shape[1] / 2, color=MUTED, linewidth=1)
    axes.set(xlabel="episodes", ylabel="steps per episode", ylim=(9, 1000), yticks=(10, 20, 50, 100, 200, 500, 1000))
    axes.yaxis.set_minor_locator(NullLocator())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.margins(x=0)
    axes.spines[["top", "right"]].set_visible(False)
    label_right(axes, labels)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    return figure
