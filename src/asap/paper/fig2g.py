"""Figure 2 g: polynomial hyperplanes end in different optima; and what a straight line can do."""

import numpy as np

from asap.base import stats
from asap.paper.claims import Claim, Finding, Picture, interval
from asap.paper.laboratory import Laboratory
from asap.paper.strikers import learned, linear
from asap.show.figures.gallery import partition_gallery

NEAR = 0.95  # Of the goals of the best optimum: a kind that has as many is as good.


def run(laboratory: Laboratory) -> Finding:
    curved, straight = learned(laboratory, "striker-r1"), linear(laboratory)
    kinds = np.asarray([kind_of(curved.policy(s).partition.beta[0]) for s in range(laboratory.seeds)])
    goals = curved.success()
    means = {str(kind): stats.iqm(goals[kinds == kind]) for kind in np.unique(kinds)}
    count = {kind: int((kinds == kind).sum()) for kind in means}
    as_good = [kind for kind, mean in means.items() if mean >= NEAR * max(means.values())]
    ours, theirs = interval(straight.success()), interval(goals)
    claims = [
        Claim(
            claim="R1: the polynomial hyperplane attains different solutions, both near-optimal",
            paper="two different solutions, near-optimal",
            ours="; ".join(
                f"{kind}: {count[kind]} seeds, {mean:.3f} goals per episode (IQM)" for kind, mean in means.items()
            ),
            ci=None,
            seeds=laboratory.seeds,
            passed=len(as_good) >= 2,
            note=f"kinds by the conic that the hyperplane draws on the pitch; near-optimal: {NEAR:.0%} of the goals of the best kind",
        ),
        Claim(
            claim="R1: the linear hyperplane outperforms the polynomial one",
            paper="near-optimal, outperforming the polynomial representation",
            ours=f"{stats.iqm(straight.success()):.3f} goals per episode against {stats.iqm(goals):.3f}",
            ci=ours,
            seeds=laboratory.seeds,
            passed=ours[0] > theirs[1],
            note=f"holds if the intervals do not overlap; that of the polynomial one is {theirs[0]:.3f} to {theirs[1]:.3f}",
        ),
    ]
    examples = [(curved, int(np.flatnonzero(kinds == kind)[0]), str(kind)) for kind in means]
    examples.append((straight, straight.typical_seed(), "line"))
    maps = partition_gallery(
        [record.policy(s) for record, s, _ in examples],
        [curved.tasks[0]] * len(examples),
        [f"{kind}, seed {laboratory.seed + s}: {record.success()[s]:.3f}" for record, s, kind in examples],
        "R1: kinds of solutions, with their goals per episode",
        columns=len(examples),
    )
    every = partition_gallery(
        [straight.policy(s) for s in range(laboratory.seeds)],
        [curved.tasks[0]] * laboratory.seeds,
        [f"seed {laboratory.seed + s}: {value:.3f}" for s, value in enumerate(straight.success())],
        "R1 with a linear hyperplane: every seed, with its goals per episode",
    )
    return Finding(
        claims,
        {
            "fig2g": Picture(maps, "The first seed of each kind, and the typical seed of the linear hyperplane."),
            "fig2g-linear": Picture(every, "Every seed of the linear hyperplane."),
        },
    )


def kind_of(beta: np.ndarray) -> str:
    """The conic b0 + b1 x + b2 y + b3 x^2 + b4 x y + b5 y^2 = 0: closed, or open on both sides."""
    _, _, _, xx, xy, yy = np.asarray(beta, float)
    return "ellipse" if xy**2 < 4 * xx * yy else "hyperbola"
