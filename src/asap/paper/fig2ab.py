"""Figure 2 a, b: ASAP from the misspecified start, against learning skills alone on fixed partitions."""

from asap.paper.claims import Claim, Finding, Picture, interval
from asap.paper.laboratory import Laboratory
from asap.show.figures.comparison import compare_curves

FIXED = "learn.step_size_beta=0.0"


def run(laboratory: Laboratory, figure: str, task: str) -> Finding:
    asap = laboratory.train(task, [task])
    wrong = laboratory.train(f"{task}-misspecified", [task], FIXED)
    right = laboratory.train(f"{task}-approximate", [task], FIXED, "policy.start=approximate")
    ours, theirs, best = (interval(record.returns()) for record in (asap, wrong, right))
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
            passed=ours[0] > theirs[1],
            note="holds if the two 95 % intervals do not overlap",
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
