"""Three Rooms with a dictionary of Fourier features and a bias: reuse of a skill has to be found.

The paper's one feature, sin(3 pi x), changes sign at the two walls whatever its weight is: it forces one skill on the
first and the last room (errata E12). Here slower and faster waves, waves in y and a bias compete with it.
"""

import numpy as np

from asap.paper.claims import Claim, Finding, Picture, interval
from asap.paper.laboratory import Laboratory
from asap.paper.visits import visited_components
from asap.show.figures.gallery import partition_gallery

WAVES = [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0], [0.0, 1.0], [0.0, 2.0]]
SETTINGS = (
    "policy.basis=fourier",
    f"policy.frequencies={WAVES}",
    "policy.bias=true",
    "policy.start=random",
    "learn.schedule_scale=200",
    "run.episodes=4000",
)
ENOUGH_VISITS = 0.1


def run(laboratory: Laboratory) -> Finding:
    record = laboratory.train("three-rooms-dictionary", ["three-rooms"], *SETTINGS)
    seeds = laboratory.seeds
    components = [visited_components(record.policy(s), record.tasks[0], laboratory.seed + s) for s in range(seeds)]
    reused = np.asarray(
        [any(sum(share >= ENOUGH_VISITS for share in skill) >= 2 for skill in each) for each in components]
    )
    near = record.returns() >= record.near_optimal[0]
    claim = Claim(
        claim="a skill is reused in two regions that do not touch, although no feature forces it",
        paper="skill A is reused in two parts of the state space (one feature, which forces it)",
        ours=f"{(reused & near).sum()} of {seeds} seeds: near-optimal, and one skill in two regions with at least 10 % of the visits each",
        ci=interval(record.returns()),
        seeds=seeds,
        passed=(reused & near).sum() >= 0.9 * seeds,
        note=f"{near.sum()} seeds are near-optimal, {reused.sum()} reuse a skill; regions are connected components on a grid; the interval is that of the return",
    )
    titles = [
        f"seed {laboratory.seed + s}: {value:.1f}{', reused' if r else ''}"
        for s, (value, r) in enumerate(zip(record.returns(), reused))
    ]
    maps = partition_gallery(
        [record.policy(s) for s in range(seeds)],
        [record.tasks[0]] * seeds,
        titles,
        "three-rooms with a dictionary of features",
    )
    return Finding([claim], {"unforced-reuse": Picture(maps, "Every seed with its return.")})
