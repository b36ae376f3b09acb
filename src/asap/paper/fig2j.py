"""Figure 2 j: return on R1 while learning, with polynomial and with linear hyperplanes."""

from asap.paper.claims import Claim, Finding, Picture, interval
from asap.paper.laboratory import Laboratory
from asap.paper.strikers import learned, linear
from asap.show.figures.comparison import compare_curves


def run(laboratory: Laboratory) -> Finding:
    records = {"polynomial": learned(laboratory, "striker-r1"), "linear": linear(laboratory)}
    reference = records["polynomial"].tasks[0].reference
    start, best = reference.misspecified, reference.approx_optimal
    claims = []
    for basis, record in records.items():
        reached = (record.iqm() - start) / (best - start)
        claims.append(
            Claim(
                claim=f"R1, {basis} hyperplane: the return comes near to that of the approximately optimal controller",
                paper="near-optimal (a picture)",
                ours=f"{record.iqm():.3f} against {best:.3f}, from {start:.3f}: {reached:.0%} of the way",
                ci=interval(record.returns()),
                seeds=laboratory.seeds,
                passed=reached >= 0.95,
                note="holds from 95% of the way from the misspecified start to dist:12",
            )
        )
    drawn = compare_curves(
        {name: record.curves() for name, record in records.items()}, reference, "striker-r1: return while learning"
    )
    return Finding(claims, {"fig2j": Picture(drawn, "Thin: seeds. Thick: interquartile mean with its 95 % interval.")})
