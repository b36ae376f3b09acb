"""One parameter set for Two Rooms and Flipped Two Rooms together, and why the descriptor must interact with the state.

With interactions psi = [1, x, y] (x) [1, m] the task can turn a hyperplane round; an additive descriptor psi = [1, x, y, m]
only shifts it, so the same sides have the same skills in both tasks (errata E13).
"""

import numpy as np

from asap.paper.claims import Claim, Finding, Picture, interval
from asap.paper.laboratory import Laboratory, Record
from asap.show.figures.comparison import compare_curves
from asap.show.figures.gallery import partition_gallery

TASKS = ["two-rooms", "flipped-two-rooms"]
STEADY = ("learn.lanes=32", "run.episodes=4000")


def run(laboratory: Laboratory) -> Finding:
    together = laboratory.train("joint", TASKS, *STEADY)
    additive = laboratory.train("joint-additive", TASKS, "policy.task_features=additive", *STEADY)
    good, poor = served(together), served(additive)
    seeds = laboratory.seeds
    claims = [
        Claim(
            claim="one policy serves 2R and flipped 2R, with the task descriptor in interactions",
            paper="tasks are learned one after the other",
            ours=f"{good.sum()} of {seeds} seeds reach 90 % of the reference on both tasks; returns {together.iqm(0):.1f} and {together.iqm(1):.1f}",
            ci=interval(together.result.evaluation.returns.mean((-1, -2))),
            seeds=seeds,
            passed=good.sum() >= 0.9 * seeds,
            note="90 % of the way from the misspecified start to the approximately optimal partition; the interval is that of the mean return over both",
        ),
        Claim(
            claim="an additive descriptor cannot do it",
            paper="not in the paper",
            ours=f"{poor.sum()} of {seeds} seeds; returns {additive.iqm(0):.1f} and {additive.iqm(1):.1f}",
            ci=interval(additive.result.evaluation.returns.mean((-1, -2))),
            seeds=seeds,
            passed=poor.sum() <= 0.1 * seeds,
            note="it can shift a boundary and not swap its sides: each seed serves one task, or neither",
        ),
    ]
    worse = {name: _worse_task(record) for name, record in {"interactions": together, "additive": additive}.items()}
    curves = compare_curves(worse, together.tasks[0].reference, "both rooms together: return on the worse task")
    typical = together.typical_seed()
    maps = partition_gallery(
        [
            record.policy(seed)
            for record, seed in ((together, typical),) * 2 + ((additive, additive.typical_seed()),) * 2
        ],
        [*together.tasks] * 2,
        [f"{kind}: {task}" for kind in ("interactions", "additive") for task in TASKS],
        "One policy, seen in each task",
        columns=2,
    )
    return Finding(
        claims,
        {
            "joint-multitask": Picture(curves, "For each seed and evaluation, the task with the smaller return."),
            "joint-multitask-partitions": Picture(maps, "Seeds whose return on Two Rooms is the median."),
        },
    )


def served(record: Record) -> np.ndarray:
    """(seeds,): whether both tasks have 90 % of the reference."""
    references = [task.reference for task in record.tasks]
    enough = [r.misspecified + 0.9 * (r.approx_optimal - r.misspecified) for r in references]
    return (record.result.evaluation.returns.mean(-1) >= np.asarray(enough)).all(-1)


def _worse_task(record: Record) -> list:
    """Curves of the smaller return of the two."""
    first, second = (record.curves(task) for task in range(2))
    return [one._replace(returns=np.minimum(one.returns, other.returns)) for one, other in zip(first, second)]
