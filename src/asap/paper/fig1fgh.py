"""Figure 1 f, g, h: the partitions and skills that ASAP learns from the misspecified start."""

from asap.paper.claims import Claim, Finding, Picture, interval
from asap.paper.laboratory import Laboratory
from asap.show.figures.gallery import partition_gallery
from asap.show.figures.partition_map import partition_map

ENOUGH = 19 / 20  # Share of the seeds that must be near-optimal.


def run(laboratory: Laboratory, figure: str, task: str) -> Finding:
    record = laboratory.train(task, [task])
    named, (near,) = record.tasks[0], record.near_optimal
    count, typical = record.num_near_optimal(), record.typical_seed()
    claim = Claim(
        claim=f"{task}: near-optimal partition and skills are learned from the misspecified start",
        paper="near-optimal (a picture, no number)",
        ours=f"{count} of {laboratory.seeds} seeds at or above {near:.1f}; return {record.iqm():.1f} (IQM)",
        ci=interval(record.returns()),
        seeds=laboratory.seeds,
        passed=count >= ENOUGH * laboratory.seeds,
        note=f"near-optimal is 95 % of the way from {named.reference.misspecified} to {named.reference.approx_optimal}",
    )
    seed = laboratory.seed
    titles = [f"seed {seed + s}: {value:.1f}" for s, value in enumerate(record.returns())]
    policies = [record.policy(s) for s in range(laboratory.seeds)]
    best = partition_map(
        record.policy(typical), named, title=f"{task}, seed {seed + typical}", usage=record.usage()[typical]
    )
    every = partition_gallery(
        policies, [named] * laboratory.seeds, titles, f"{task}: what each seed learned, with its return"
    )
    return Finding(
        [claim],
        {
            figure: Picture(best, "The seed whose return is the median over seeds."),
            f"{figure}-seeds": Picture(
                every, "Every seed. Numbers of skills are arbitrary: swapping them changes nothing."
            ),
        },
    )
