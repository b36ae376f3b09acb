"""Figure 2 e and the supplement's figure on K: one, two and three hyperplanes on Two Rooms."""

import numpy as np

from asap.base.stats import median_with_failures
from asap.paper.claims import Claim, Finding, Picture, difference, interval
from asap.paper.laboratory import Laboratory, TrainedRun
from asap.show.figures.curves import compare_curves
from asap.show.figures.policy_map import partition_gallery

CARRIED = 0.95


def run(laboratory: Laboratory) -> Finding:
    records = {k: laboratory.train(name(k), ["two-rooms"], settings(k)) for k in (1, 2, 3)}
    one, best = records[1], max(records.values(), key=TrainedRun.iqm)
    counts = {k: skills_in_use(record.usage()) for k, record in records.items()}
    seconds = {k: record.seconds_per_step() for k, record in records.items()}
    changes = {k: difference(records[k].returns(), one.returns()) for k in (2, 3)}
    same = all(low <= 0 <= high for low, high in changes.values())
    claims = [
        Claim(
            claim="more hyperplanes do not change the final reward",
            paper="no impact",
            ours=", ".join(f"K={k}: {record.iqm():.1f}" for k, record in records.items()),
            ci=interval(one.returns()),
            seeds=laboratory.seeds,
            passed=same,
            note=(
                "holds if the 95 % intervals of the differences from K=1 contain 0: "
                + ", ".join(f"K={k} {low:.1f} to {high:.1f}" for k, (low, high) in changes.items())
                + (
                    ""
                    if same
                    else f". {'More' if best is not one else 'Fewer'} hyperplanes reach a better reward than the paper says"
                )
            ),
        ),
        Claim(
            claim="they cost more computation, since 2^K skills are learned",
            paper="computational complexity increases",
            ours=", ".join(f"K={k}: {1e9 * s:.0f} ns per step" for k, s in seconds.items()),
            ci=None,
            seeds=laboratory.seeds,
            passed=seconds[3] > seconds[1],
            note="episodes to near-optimal (median): "
            + ", ".join(
                f"K={k} {median_with_failures(record.episodes_to()) or float('nan'):,.0f}"
                for k, record in records.items()
            ),
        ),
        Claim(
            claim=f"two skills dominate: they carry {CARRIED:.0%} of the steps",
            paper="two skills dominate in each case",
            ours=", ".join(f"K={k}: {np.median(count):.0f} of {2**k}" for k, count in counts.items()),
            ci=interval(counts[3]),
            seeds=laboratory.seeds,
            passed=all(np.median(count) <= 2 for count in counts.values()),
            note=f"median number of skills that together make {CARRIED:.0%} of the steps; the interval is for K=3",
        ),
    ]
    curves = compare_curves(
        {f"K = {k}": record.curves() for k, record in records.items()},
        one.tasks[0].reference,
        "two-rooms: number of hyperplanes",
    )
    chosen = {k: record.typical_seed() for k, record in records.items()}
    maps = partition_gallery(
        [record.policy(chosen[k]) for k, record in records.items()],
        [one.tasks[0]] * 3,
        [f"K = {k}, seed {laboratory.seed + chosen[k]}" for k in records],
        "Partitions with one, two and three hyperplanes",
        columns=3,
    )
    return Finding(
        claims,
        {
            "fig2e": Picture(curves, "Thin: seeds. Thick: interquartile mean with its 95 % interval."),
            "fig2e-partitions": Picture(maps, "For each K the seed whose return is the median."),
        },
    )


def name(num_planes: int) -> str:
    return "two-rooms" if num_planes == 1 else f"two-rooms-k{num_planes}"


def settings(num_planes: int) -> dict[str, int]:
    return {} if num_planes == 1 else {"policy.hyperplanes": num_planes}


def skills_in_use(usage: np.ndarray) -> np.ndarray:
    """(seeds,): the smallest number of skills that together carry CARRIED of the steps."""
    ordered = np.sort(usage, -1)[:, ::-1].cumsum(-1)
    return (ordered < CARRIED).sum(-1) + 1
