"""Whether Option-Critic, as it is built here, does what it was published for: find a goal of four rooms that has moved."""

import numpy as np

from asap.base.stats import bootstrap_interval
from asap.envs.four_rooms import AFTER_MOVE
from asap.paper.claims import Claim
from asap.rivals.goal_change import (
    EPISODES,
    OPTION_CRITIC,
    PRIMITIVE,
    SARSA,
    SYSTEMS,
    Recovery,
    goal_change,
    tabular_learner,
)
from asap.runs.loggers import Phase

FIRST_SEED, QUICK_EPISODES = 1000, 400
HALF, NEAR = 0.5, 60.0


def check(seeds: int, quick: bool, tell: Phase) -> list[Claim]:
    """The goal-change experiment with the slip of the authors' public code; `quick`: with fewer episodes."""
    episodes, runs = QUICK_EPISODES if quick else EPISODES, range(FIRST_SEED, FIRST_SEED + seeds)
    found = {}
    for name in (OPTION_CRITIC, SARSA, PRIMITIVE):

        def heard(slowest: int, name: str = name) -> None:
            tell(f"{name}, {slowest:,} of {2 * episodes:,} episodes")

        learner = tabular_learner(SYSTEMS[name], AFTER_MOVE)
        found[name] = Recovery.of(goal_change(learner, AFTER_MOVE, runs, episodes, heard))
    first = {name: float(np.median(recovery.first)) for name, recovery in found.items()}
    ours, note = found[OPTION_CRITIC], ". ".join(f"{name}: {in_words(recovery)}" for name, recovery in found.items())
    sooner = [
        Claim(
            claim=f"four rooms: after the goal has moved, Option-Critic needs less than half of the steps of {whose}",
            paper="recovers sooner (a picture)",
            ours=f"{first[OPTION_CRITIC]:.0f} steps per episode against {first[other]:.0f}",
            ci=median_limits(ours.first),
            passed=first[OPTION_CRITIC] < HALF * first[other],
            note=f"medians over runs, first 50 episodes after the change. {note}",
            seeds=seeds,
        )
        for other, whose in ((SARSA, "Sarsa"), (PRIMITIVE, "a primitive actor-critic"))
    ]
    late = Claim(
        claim="four rooms: in the end Option-Critic is near the shortest paths to the new goal",
        paper="as before the change (a picture)",
        ours=f"{np.median(ours.last):.0f} steps per episode in the last 100",
        ci=median_limits(ours.last),
        passed=bool(np.median(ours.last) < NEAR),
        note=f"holds below {NEAR:.0f}, the median over runs",
        seeds=seeds,
    )
    return [*sooner, late]


def median_limits(values: np.ndarray) -> tuple[float, float]:
    """95 % bootstrap interval of the median over runs."""
    return bootstrap_interval(values, statistic=np.median)


def in_words(recovery: Recovery) -> str:
    """Medians over runs."""
    before, first, soon, last, total = (np.median(part) for part in recovery)
    return f"{before:.0f} before, {first:.0f}, {soon:.0f} and {last:.0f} after, {total:,.0f} steps in all"
