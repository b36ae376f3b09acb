"""The supplement's goal ratios on R1, R2 and R3: the misspecified start, ASAP, and the controller."""

import numpy as np

from asap.base import stats
from asap.paper.claims import Claim, Finding, Picture, interval
from asap.paper.laboratory import Laboratory
from asap.paper.strikers import (
    CONTROLLER,
    EPISODES,
    TASKS,
    best_distance,
    goals_by_distance,
    learned,
    short,
    start_goals,
)
from asap.show.figures.comparison import seed_dots

PAPER = {"striker-r1": "I 0.18, A 0.79, O 0.91", "striker-r2": "a bar chart", "striker-r3": "a bar chart"}


def run(laboratory: Laboratory) -> Finding:
    claims, rows = [], {}
    for task in TASKS:
        record = learned(laboratory, task)
        start, goals, by_distance = start_goals(record), record.success(), goals_by_distance(laboratory, task)
        best, controller = best_distance(by_distance), by_distance[CONTROLLER]
        low, high = interval(goals)
        name = short(task)
        claims.append(
            Claim(
                claim=f"{name}: ASAP scores at least as often as the best shooting distance",
                paper=PAPER[task],
                ours=(
                    f"{np.median(goals):.3f} (median) against {by_distance[best].mean():.3f} (dist:{best:g}); "
                    f"start {np.median(start):.3f}, dist:{CONTROLLER:g} {controller.mean():.3f}"
                ),
                ci=(low, high),
                seeds=laboratory.seeds,
                passed=np.median(goals) >= by_distance[best].mean(),
                note=(
                    f"goals per episode, {EPISODES:,} episodes per seed; seeds {' '.join(f'{value:.3f}' for value in goals)}; IQM {stats.iqm(goals):.3f} "
                    f"with the interval; distances "
                    + ", ".join(f"{distance:g} m {values.mean():.3f}" for distance, values in by_distance.items())
                ),
            )
        )
        claims.append(
            Claim(
                claim=f"{name}: from the misspecified start to ASAP",
                paper="I far below A",
                ours=f"{np.median(start):.3f} to {np.median(goals):.3f}",
                ci=interval(start),
                seeds=laboratory.seeds,
                passed=interval(start)[1] < low,
                note="holds if the 95% intervals do not overlap; the interval is that of the start",
            )
        )
        rows |= {f"{name}: start": start, f"{name}: ASAP": goals, f"{name}: dist:{CONTROLLER:g}": controller}
        if best != CONTROLLER:
            rows[f"{name}: dist:{best:g} (best)"] = by_distance[best]
    drawn = seed_dots(
        {name: list(map(float, values)) for name, values in rows.items()}, "goals per episode", "Goal ratios"
    )
    return Finding(
        claims, {"goal-ratios": Picture(drawn, f"A dot is a seed, with {EPISODES:,} episodes. Thick: median.")}
    )
