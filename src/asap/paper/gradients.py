"""The gradient on Two Rooms: it vanishes, and its two estimators compared under each of the four updates."""

import itertools

import numpy as np

from asap.base.stats import SeedCurve, median_with_failures
from asap.config.presets import PRESETS
from asap.config.schema import GRADIENTS, LEARNERS
from asap.paper.claims import OF_SEEDS, Claim, Finding, Picture, interval, median_interval
from asap.paper.laboratory import Laboratory, TrainedRun
from asap.runs.directory import Run
from asap.show.figures.curves import compare_curves
from asap.show.figures.strip_plot import strip_plot

# From the approximately optimal partition: from the misspecified one the gradient is small on the plateau at the start,
# too.
ROBBINS_MONRO = {
    "learn.learner": "actor-critic",
    "policy.start": "approximate",
    "learn.lanes": 256,
    "learn.schedule": "robbins-monro",
    "learn.schedule_scale": 20,
    "learn.schedule_power": 1.0,
    "learn.step_size_theta": 0.15,
    "learn.step_size_beta": 0.15,
    "run.chunk": 40,
    "run.eval_episodes": 16,
    "run.episodes": 200000,
}
FIRST, LAST = 5, 3  # Chunks of 40 updates at both ends of the run that are compared; the last one of all is not full.
BUDGET = 3000  # Of each estimator,
WITHOUT_CRITIC = 35000  # and of those that learn from returns alone: what the paper had.
AS_PRINTED = "algorithm-1"


def vanishing(laboratory: Laboratory) -> Finding:
    """The convergence theorem: under Robbins-Monro step sizes the gradient goes to zero, and the run stops by its own
    test."""
    record = laboratory.train("two-rooms-robbins-monro", ["two-rooms"], ROBBINS_MONRO)
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
            passed=bool(np.median(ratio) <= 0.1),
            note="norm of the mean gradient over 40 updates of 16,384 steps each, without the bias by noise. The inner product of the means of even and odd updates estimates its square",
        ),
        Claim(
            claim="the run stops by its own convergence test",
            paper="until converged (Algorithm 1)",
            ours=f"{stopped.sum()} of {laboratory.seeds} seeds, {near} of them near-optimal; after {np.median([c.episodes[-1] for c in norms]):,.0f} episodes (median)",
            ci=None,
            passed=bool(stopped.all()),
        ),
    ]
    title, label = "two-rooms, Robbins-Monro: norm of the gradient estimate", "norm of the gradient"
    drawn = compare_curves({"norm": norms}, None, title, ylabel=label)
    return Finding(claims, {"convergence": Picture(drawn, OF_SEEDS)})


def gradient_norms(record: TrainedRun) -> list[SeedCurve]:
    """Per seed, the norm of the gradient estimate of the last update of each chunk, by episodes, until the seed
    stopped."""
    rows = {event["update"]: event for event in Run.open(record.path).events() if "gradient_theta" in event}
    episodes, active, theta, beta = (
        np.asarray([rows[u][name] for u in sorted(rows)], float)
        for name in ("episodes", "active", "gradient_theta", "gradient_beta")
    )
    norms = np.hypot(theta, beta)
    return [SeedCurve(episodes[goes_on, s], norms[goes_on, s]) for s, goes_on in enumerate((active > 0).T)]


def estimators(laboratory: Laboratory) -> Finding:
    """Sampled against marginal, and the four updates against each other, in episodes and in seconds."""
    learners = (*LEARNERS, AS_PRINTED)
    records = {each: trained(laboratory, *each) for each in itertools.product(learners, GRADIENTS)}
    of = {learner: {gradient: records[learner, gradient] for gradient in GRADIENTS} for learner in learners}
    claims = [compared(laboratory, learner, **of[learner]) for learner in LEARNERS]
    claims.append(algorithm_1(laboratory, of[AS_PRINTED], of["reinforce"]))
    episodes = {f"{learner}\n{gradient}": record.episodes_to() for (learner, gradient), record in records.items()}
    seconds = {name: [_seconds(e, r) for e in episodes[name]] for name, r in zip(episodes, records.values())}
    pictures = {
        "estimators-episodes": Picture(
            strip_plot(episodes, "episodes to near-optimal", "two-rooms: episodes", log=True),
            "One dot per seed. Every learner has its own default settings; the budget is 3,000 episodes, 35,000 without a critic.",
        ),
        "estimators-seconds": Picture(
            strip_plot(seconds, "seconds to near-optimal", "two-rooms: time of one seed among all", log=True),
            "Training and evaluation time of the whole batch of seeds, divided by the seeds, without compilation.",
        ),
    }
    return Finding(claims, pictures)


def trained(laboratory: Laboratory, learner: str, gradient: str) -> TrainedRun:
    """`learner` may be the estimator as printed."""
    settings = PRESETS.get(learner, {"learn.learner": learner})
    budget = WITHOUT_CRITIC if learner in ("reinforce", AS_PRINTED) else BUDGET
    own = {**settings, "learn.gradient": gradient, "run.episodes": budget}
    return laboratory.train(f"two-rooms-{learner}-{gradient}", ["two-rooms"], own)


def algorithm_1(laboratory: Laboratory, printed: dict[str, TrainedRun], ours: dict[str, TrainedRun]) -> Claim:
    """The listing as it is printed, beside what `reinforce` makes of it."""

    def counted(records: dict[str, TrainedRun]) -> str:
        return " and ".join(f"{record.num_near_optimal()} ({gradient})" for gradient, record in records.items())

    most = max(record.num_near_optimal() for record in printed.values())
    return Claim(
        claim="Algorithm 1 learns, if rewards are counted from the step on and compared with other episodes",
        paper="Algorithm 1: the whole return times every score, nothing subtracted",
        ours=f"{counted(ours)} of {laboratory.seeds} seeds are near-optimal at the end; as printed {counted(printed)}",
        ci=None,
        passed=all(record.num_near_optimal() >= max(0.8 * laboratory.seeds, most) for record in ours.values()),
        note="a step of the printed estimator counts rewards that came before it, and what all episodes have in common. "
        "In that noise the plane loses a side for good before the skills differ. `reinforce` counts the discounted reward "
        "to go, minus the mean of the other episodes that still run at that time, over its deviation, and adds entropy "
        "and softening; it has no critic",
    )


def compared(laboratory: Laboratory, learner: str, sampled: TrainedRun, marginal: TrainedRun) -> Claim:
    """Whether the marginal gradient needs no more episodes; a seed that never gets there counts as infinite."""
    theirs, ours = (median_with_failures(record.episodes_to()) for record in (sampled, marginal))
    reached = [sum(e is not None for e in record.episodes_to()) for record in (sampled, marginal)]
    return Claim(
        claim=f"{learner}: the marginal gradient needs no more episodes than the sampled one",
        paper="both are unbiased (sampled in the algorithm, marginal in the proof)",
        ours=f"{_number(ours)} against {_number(theirs)} episodes (median)",
        ci=median_interval(marginal.episodes_to()),
        passed=ours is not None and (theirs is None or ours <= theirs),
        note=f"near-optimal at some time: {reached[1]} marginal, {reached[0]} sampled, of {laboratory.seeds} seeds",
    )


def _number(value: float | None) -> str:
    return "never" if value is None else f"{value:,.0f}"


def _seconds(episodes: int | None, record: TrainedRun) -> float | None:
    """Share of the training time up to that episode, of one seed among all that were trained together."""
    if episodes is None:
        return None
    return record.seconds() * episodes / float(record.result.curve.episodes[-1].sum())
