"""Figure 1 i: partition and skills after Two Rooms, and after Flipped Two Rooms learned from there."""

import numpy as np

from asap.paper import fig2c
from asap.paper.claims import Claim, Finding, Picture, interval
from asap.paper.laboratory import Laboratory, Record
from asap.policy.regions import regions_at, states_in_bounds
from asap.show.figures.gallery import partition_gallery


def run(laboratory: Laboratory) -> Finding:
    before, after = fig2c.source(laboratory), fig2c.warm(laboratory)
    kept = np.asarray([_same_side(before, after, s) for s in range(laboratory.seeds)])
    low, high = interval(kept)
    claim = Claim(
        claim="the partition hardly changes from 2R to flipped 2R, the skills are learned anew",
        paper="SPs do not significantly change between tasks, yet the skills are completely relearned",
        ours=f"{np.median(kept):.2f} of the square stays with its skill (median)",
        ci=(low, high),
        seeds=laboratory.seeds,
        passed=bool(np.median(kept) >= 0.8),
        note=f"{int((kept >= 0.8).sum())} of {laboratory.seeds} seeds keep at least 80 %, {int((kept <= 0.2).sum())} swap the sides instead of the skills (at most 20 %)",
    )
    typical = after.typical_seed()
    pairs = [(before, "after 2R"), (after, "then after flipped 2R")]
    drawn = partition_gallery(
        [record.policy(typical) for record, _ in pairs],
        [record.tasks[0] for record, _ in pairs],
        [title for _, title in pairs],
        f"seed {laboratory.seed + typical}: before and after the second task",
        columns=2,
    )
    return Finding([claim], {"fig1i": Picture(drawn, "The seed whose return after both tasks is the median.")})


def _same_side(before: Record, after: Record, seed: int) -> float:
    """Share of the square where the most probable skill is the same."""
    task = before.tasks[0]
    states, m = states_in_bounds(task.env.spec), np.asarray(task.env.descriptor(task.task))
    one, other = (regions_at(record.policy(seed), states, m).rulers for record in (before, after))
    return float((one == other).mean())
