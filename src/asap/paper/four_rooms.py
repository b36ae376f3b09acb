"""Four rooms with a goal that moves: who finds the new one sooner, ASAP or the systems that learn step by step?

Nobody is told of the change but the two arms of ASAP whose names say so.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from asap.base.files import saving
from asap.base.stats import difference_interval
from asap.envs.four_rooms import AFTER_MOVE, INSTEAD_OF_MOVE
from asap.paper.check_option_critic import in_words, median_limits
from asap.paper.claims import Claim, Finding, Picture
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
WORDS = {
    AFTER_MOVE: "slip after a successful move, bumping suppresses it (as in the code of Option-Critic)",
    INSTEAD_OF_MOVE: "a failure replaces the move (as in the text of its paper)",
}
BLOCK = 20  # Episodes that make one point of a picture.
CAPTION = (
    "Lines: median over runs of the mean of 20 episodes; shaded: quartiles. The goal moves after 1,000 episodes. "
    "With the goal in the descriptor, ASAP has learned for four goals before, in the same number of episodes in all."
)


def run(laboratory: Laboratory) -> Finding:
    claims, pictures = [], {}
    for slip in (AFTER_MOVE, INSTEAD_OF_MOVE):
        lengths = {name: recorded(laboratory, name, slip) for name in (*ARMS, *RIVALS)}
        claims += recoveries({name: Recovery.of(each) for name, each in lengths.items()}, slip)
        pictures[f"four-rooms-{slip}"] = Picture(drawn(lengths, f"Four rooms: {WORDS[slip]}"), CAPTION)
    return Finding(claims, pictures)


def recorded(laboratory: Laboratory, name: str, slip: str, num_episodes: int = EPISODES) -> np.ndarray:
    """(runs, episodes): steps of each, kept in a file, so that an experiment that was stopped goes on."""
    is_ours = name in ARMS
    settings = repr((ARMS[name].config if is_ours else SYSTEMS[name], ARMS.get(name), slip, num_episodes))
    plain = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
    path = laboratory.out / "runs" / "four-rooms" / f"{plain}-{slip}-{laboratory.seeds}-from-{laboratory.seed}.npz"
    if path.exists():
        with np.load(path) as kept:
            if str(kept["settings"]) == settings:
                return kept["lengths"]

    def check() -> None:
        if laboratory.stop.requested:
            raise SystemExit(laboratory.stop.exit_code)

    runs = range(laboratory.seed, laboratory.seed + laboratory.seeds)
    if is_ours:
        lengths = asap_goal_change(ARMS[name], slip, runs, num_episodes, check)
    else:
        lengths = goal_change(tabular_learner(SYSTEMS[name], slip), slip, runs, num_episodes, check)
    path.parent.mkdir(parents=True, exist_ok=True)
    with saving(path, "run") as file:
        np.savez_compressed(file, lengths=lengths, settings=settings)
    return lengths


def recoveries(found: Mapping[str, Recovery], slip: str) -> list[Claim]:
    """ASAP against each rival; its other two arms against Option-Critic."""
    pairs = [(LEARNS_ON, rival) for rival in RIVALS] + [(arm, OPTION_CRITIC) for arm in (KEEPS, SEES)]
    return [against(found, ours, theirs, slip) for ours, theirs in pairs]


def against(found: Mapping[str, Recovery], ours: str, theirs: str, slip: str) -> Claim:
    mine, other = found[ours], found[theirs]
    low, high = difference_interval(mine.first, other.first, np.median)
    name, their_name = (words.replace("\n", " ") for words in (ours, theirs))
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
        axes.fill_between(episodes, low, high, color=colour, alpha=0.12, linewidth=0)
        style = {"color": colour, "linestyle": method_line_style(index), "linewidth": 2.4 if is_ours else 1.6}
        axes.plot(episodes, median, **style)
        labels.append(Label(float(median[-1]), name, colour))
    axes.axvline(next(iter(lengths.values())).shape[1] / 2, color=MUTED, linewidth=1)
    axes.set(xlabel="episodes", ylabel="steps per episode")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.margins(x=0)
    axes.spines[["top", "right"]].set_visible(False)
    label_right(axes, labels)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    return figure
