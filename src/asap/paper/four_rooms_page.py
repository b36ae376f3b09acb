"""The page of the four rooms whose goal moves: what every system needs before and after, and whom ASAP beats."""

from collections.abc import Mapping, Sequence

import numpy as np

from asap.base.stats import difference_interval
from asap.paper.check_option_critic import median_limits
from asap.rivals.goal_change import Recovery

COLUMNS = {
    "before": "last 100 before",
    "first": "first 50 after",
    "soon": "100 to 200 after",
    "last": "last 100 after",
    "total": "all steps",
}
INTRODUCTION = (
    "The experiment is that of Bacon, Harb and Precup (2017). Four rooms have 104 cells and one goal. After {episodes:,} episodes the goal "
    "moves to a cell of the lower right room, drawn for each run. Then {episodes:,} more episodes follow. The numbers are steps per episode, "
    "at most 1,000, so less is better. Nobody hears of the change, except the two variants of ASAP whose names say so.",
    "- *ASAP* goes on learning as before. It has one hyperplane and two skills. Planes and skills see the cell, and PPO learns them.\n"
    "- *ASAP, skills kept* learns only the hyperplane after the change.\n"
    "- *ASAP, goal in the descriptor* has four goals before the change, in {episodes:,} episodes in all, and sees which one it is.\n"
    "- *Option-Critic* has four options. In *one-step options*, its control, each option ends after one step.\n"
    "- *Q-learning* and *Sarsa* are tabular, and draw actions by their values with temperature 0.001, as Option-Critic does.",
    "Two slips are in use, since the text and the public code of Option-Critic differ. One step in three slips in both.",
)
READING = (
    "- ASAP recovers about as fast as Option-Critic: neither is sooner beyond chance. Later Option-Critic needs fewer steps per episode, "
    "and about half as many steps in all.\n"
    "- Options that last more than one step explain nothing here: the control without them does as well or better.\n"
    "- Sarsa and Q-learning recover far more slowly. At this temperature they hardly explore once their values differ.\n"
    "- Keeping the skills costs ASAP most of its speed. The skills are made for the way to the old goal, and one hyperplane can only "
    "choose between them.\n"
    "- The goal in the descriptor does not help either. Four goals have a thousand episodes together, and ASAP has not learned them when "
    "the change comes."
)


def page(
    found: Mapping[str, Mapping[str, Recovery]],
    pairs: Sequence[tuple[str, str]],
    words: Mapping[str, str],
    episodes: int,
) -> str:
    """In Markdown, without a heading of its own. `found` by the kind of slip, which `words` describe; `pairs` are compared."""
    blocks = [text.format(episodes=episodes) for text in INTRODUCTION]
    blocks += ["## What it shows", READING]
    for slip, recoveries in found.items():
        blocks += [f"## {words[slip][0].upper()}{words[slip][1:]}", _steps(recoveries), _sooner(recoveries, pairs)]
    return "\n\n".join(blocks)


def _steps(recoveries: Mapping[str, Recovery]) -> str:
    """Medians with their intervals."""
    runs = len(next(iter(recoveries.values())).total)
    head = [f"| {' | '.join(['system', *COLUMNS.values()])} |", "|---" * (1 + len(COLUMNS)) + "|"]
    rows = []
    for name, recovery in recoveries.items():
        cells = [_median(getattr(recovery, column)) for column in COLUMNS]
        rows.append(f"| {one_line(name)} | {' | '.join(cells)} |")
    return "\n".join([f"Median over {runs} runs, with its 95 % interval:", "", *head, *rows])


def _median(values: np.ndarray) -> str:
    low, high = median_limits(values)
    return f"{np.median(values):,.0f} ({low:,.0f} to {high:,.0f})"


def _sooner(recoveries: Mapping[str, Recovery], pairs: Sequence[tuple[str, str]]) -> str:
    lines = ["| first 50 episodes after the change | difference of the medians | who is sooner |", "|---|---|---|"]
    for ours, theirs in pairs:
        mine, other = recoveries[ours].first, recoveries[theirs].first
        low, high = difference_interval(mine, other, np.median)
        winner = one_line(ours) if high < 0 else one_line(theirs) if low > 0 else "neither beyond chance"
        difference = f"{np.median(mine) - np.median(other):+,.0f} ({low:+,.0f} to {high:+,.0f})"
        lines.append(f"| {one_line(ours)} against {one_line(theirs)} | {difference} | {winner} |")
    return "\n".join(lines)


def one_line(name: str) -> str:
    return name.replace("\n", " ")
