"""The sampled against the marginal gradient, and the four updates against each other, in episodes and in seconds."""

from asap.base.stats import median_with_failures
from asap.config.schema import GRADIENTS, LEARNERS
from asap.paper.claims import Claim, Finding, Picture, median_interval
from asap.paper.laboratory import Laboratory, Record
from asap.show.figures.comparison import seed_dots

BUDGET = "run.episodes=3000"


def run(laboratory: Laboratory) -> Finding:
    records = {
        (learner, gradient): trained(laboratory, learner, gradient) for learner in LEARNERS for gradient in GRADIENTS
    }
    claims = [
        compared(laboratory, learner, *(records[learner, gradient] for gradient in GRADIENTS)) for learner in LEARNERS
    ]
    episodes = {f"{learner}\n{gradient}": record.episodes_to() for (learner, gradient), record in records.items()}
    seconds = {name: [_seconds(e, r) for e in episodes[name]] for name, r in zip(episodes, records.values())}
    return Finding(
        claims,
        {
            "estimators-episodes": Picture(
                seed_dots(episodes, "episodes to near-optimal", "two-rooms: episodes", log=True),
                "One dot per seed. Every learner has its own default settings; the budget is 3,000 episodes.",
            ),
            "estimators-seconds": Picture(
                seed_dots(seconds, "seconds to near-optimal", "two-rooms: time of one seed among all", log=True),
                "Training and evaluation time of the whole batch of seeds, divided by the seeds, without compilation.",
            ),
        },
    )


def trained(laboratory: Laboratory, learner: str, gradient: str) -> Record:
    if (learner, gradient) == ("ppo", "marginal"):
        return laboratory.train("two-rooms", ["two-rooms"])
    return laboratory.train(
        f"two-rooms-{learner}-{gradient}",
        ["two-rooms"],
        f"learn.learner={learner}",
        f"learn.gradient={gradient}",
        BUDGET,
    )


def compared(laboratory: Laboratory, learner: str, sampled: Record, marginal: Record) -> Claim:
    """Whether the marginal gradient needs no more episodes; a seed that never gets there counts as infinite."""
    theirs, ours = (median_with_failures(record.episodes_to()) for record in (sampled, marginal))
    reached = [sum(e is not None for e in record.episodes_to()) for record in (sampled, marginal)]
    return Claim(
        claim=f"{learner}: the marginal gradient needs no more episodes than the sampled one",
        paper="both are unbiased (sampled in the algorithm, marginal in the proof)",
        ours=f"{_number(ours)} against {_number(theirs)} episodes (median)",
        ci=median_interval(marginal.episodes_to()),
        seeds=laboratory.seeds,
        passed=ours is not None and (theirs is None or ours <= theirs),
        note=f"near-optimal at some time: {reached[1]} marginal, {reached[0]} sampled, of {laboratory.seeds} seeds"
        + (
            "; Algorithm 1 has neither entropy nor softening, and needs larger batches"
            if learner == "reinforce"
            else ""
        ),
    )


def _number(value: float | None) -> str:
    return "never" if value is None else f"{value:,.0f}"


def _seconds(episodes: int | None, record: Record) -> float | None:
    """Share of the training time up to that episode, of one seed among all that were trained together."""
    if episodes is None:
        return None
    return record.seconds() * episodes / float(record.result.curve.episodes[-1].sum())
