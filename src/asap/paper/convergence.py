"""The convergence theorem: with Robbins-Monro step sizes the gradient goes to zero, and the run stops by its own test."""

import numpy as np

from asap.base.stats import SeedCurve
from asap.paper.claims import Claim, Finding, Picture, interval
from asap.paper.laboratory import Laboratory, Record
from asap.runs.directory import Run
from asap.show.figures.comparison import compare_curves

# From the approximately optimal partition: from the misspecified one the gradient is small on the plateau at the start, too.
SETTINGS = (
    "learn.learner=actor-critic",
    "policy.start=approximate",
    "learn.lanes=256",
    "learn.schedule=robbins-monro",
    "learn.schedule_scale=20",
    "learn.schedule_power=1.0",
    "learn.step_size_theta=0.15",
    "learn.step_size_beta=0.15",
    "run.chunk=40",
    "run.eval_episodes=16",
    "run.episodes=200000",
)
FIRST, LAST = 5, 3  # Chunks of 40 updates at both ends of the run that are compared; the last one of all is not full.


def run(laboratory: Laboratory) -> Finding:
    record = laboratory.train("two-rooms-robbins-monro", ["two-rooms"], *SETTINGS)
    norms = gradient_norms(record)
    ratio = np.asarray([curve.returns[-1 - LAST : -1].mean() / curve.returns[:FIRST].max() for curve in norms])
    stopped = np.asarray([curve.episodes[-1] < record.config.run.episodes for curve in norms])
    near = record.num_near_optimal()
    claims = [
        Claim(
            claim="the gradient goes to zero under a Robbins-Monro schedule",
            paper="theorem: converges (errata E19: to a stationary point)",
            ours=f"norm at the end is {np.median(ratio):.3f} of its largest value at the beginning (median)",
            ci=interval(ratio),
            seeds=laboratory.seeds,
            passed=bool(np.median(ratio) <= 0.1),
            note="norm of the mean gradient over 40 updates of 16,384 steps each, without the bias by noise: the inner product of the means of even and odd updates estimates its square",
        ),
        Claim(
            claim="the run stops by its own convergence test",
            paper="until converged (Algorithm 1)",
            ours=f"{stopped.sum()} of {laboratory.seeds} seeds, {near} of them near-optimal; after {np.median([c.episodes[-1] for c in norms]):,.0f} episodes (median)",
            ci=None,
            seeds=laboratory.seeds,
            passed=bool(stopped.all()),
        ),
    ]
    drawn = compare_curves(
        {"norm": norms}, None, "two-rooms, Robbins-Monro: norm of the gradient estimate", ylabel="norm of the gradient"
    )
    return Finding(
        claims, {"convergence": Picture(drawn, "Thin: seeds. Thick: interquartile mean with its 95 % interval.")}
    )


def gradient_norms(record: Record) -> list[SeedCurve]:
    """Per seed, the norm of the gradient estimate of the last update of each chunk, by episodes, until the seed stopped."""
    rows = {event["update"]: event for event in Run.open(record.path).events() if "gradient_theta" in event}
    columns = {
        name: np.asarray([rows[u][name] for u in sorted(rows)], float)
        for name in ("episodes", "active", "gradient_theta", "gradient_beta")
    }
    norms = np.hypot(columns["gradient_theta"], columns["gradient_beta"])
    actives = (columns["active"] > 0).T
    return [SeedCurve(columns["episodes"][active, s], norms[active, s]) for s, active in enumerate(actives)]
