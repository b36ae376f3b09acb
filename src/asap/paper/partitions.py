"""Figure 1 f, g, h and Figure 2 a, b: the partitions that ASAP learns from the misspecified start, and what they are
worth."""

from asap.paper.claims import Claim, Finding, Picture, difference, interval
from asap.paper.laboratory import Laboratory
from asap.show.figures.curves import compare_curves
from asap.show.figures.policy_map import partition_gallery, policy_map

ENOUGH = 19 / 20  # Share of the seeds that must be near-optimal.
FIXED = {"learn.step_size_beta": 0.0}


def learned(laboratory: Laboratory, figure: str, task: str) -> Finding:
    """Figure 1 f, g, h: from the misspecified start, all seeds."""
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
    best = policy_map(
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


def against_fixed(laboratory: Laboratory, figure: str, task: str) -> Finding:
    """Figure 2 a, b: against learning skills alone, on a partition that stays wrong or was right from the start."""
    asap = laboratory.train(task, [task])
    wrong = laboratory.train(f"{task}-misspecified", [task], FIXED)
    right = laboratory.train(f"{task}-approximate", [task], {**FIXED, "policy.start": "approximate"})
    ours, theirs, best = (interval(record.returns()) for record in (asap, wrong, right))
    low, high = difference(asap.returns(), wrong.returns())
    start = asap.tasks[0].reference.misspecified
    reached = (asap.iqm() - start) / (right.iqm() - start)
    seeds = laboratory.seeds
    claims = [
        Claim(
            claim=f"{task}: ASAP improves on learning with the misspecified partition",
            paper="clearly above (a picture)",
            ours=f"{asap.iqm():.1f} against {wrong.iqm():.1f} ({theirs[0]:.1f} to {theirs[1]:.1f})",
            ci=ours,
            seeds=seeds,
            passed=low > 0,
            note=f"holds if the 95 % interval of the difference, {low:.1f} to {high:.1f}, lies above 0",
        ),
        Claim(
            claim=f"{task}: ASAP comes near to learning with the approximately optimal partition",
            paper="near-optimal (a picture)",
            ours=f"{asap.iqm():.1f} against {right.iqm():.1f} ({best[0]:.1f} to {best[1]:.1f}): {reached:.0%} of the way",
            ci=ours,
            seeds=seeds,
            passed=reached >= 0.95,
            note="holds from 95 % of the way from the start to the fixed approximately optimal partition, trained alike",
        ),
    ]
    groups = {"ASAP": asap, "fixed approximately\noptimal partition": right, "fixed misspecified\npartition": wrong}
    drawn = compare_curves(
        {name: record.curves() for name, record in groups.items()},
        asap.tasks[0].reference,
        f"{task}: return while learning",
    )
    return Finding(claims, {figure: Picture(drawn, "Thin: seeds. Thick: interquartile mean with its 95 % interval.")})
