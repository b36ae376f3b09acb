"""How a training came out: whether it is better than random play, and whether it was still improving at its end.

Both are told from numbers that a run records, so that who reads the run later need not play.
"""

import contextlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from asap.base.arrays import member, stack
from asap.base.episodes import RANDOM
from asap.base.errors import Interrupted
from asap.base.numbers import number
from asap.base.spec import TaskSet
from asap.base.stats import mean_difference_interval
from asap.config.schema import Config
from asap.experience.protocol import EpisodeIds, Evaluation, Experience
from asap.policy.policy import ASAPPolicy
from asap.policy.surgery import uniform
from asap.runs.events import Curve
from asap.runs.signals import StopRequest

RANDOM_EPISODES, RANDOM_SECONDS = 20, 10.0  # At most.
RANDOM_SHARE = 0.02  # Of the budget, at most; one episode is played in any case.
LAST = 5  # The last one in so many entries of the curve is held against as many before.
LEAST_ENTRIES = 3  # On both sides: fewer do not tell what is noise.


class Verdict(NamedTuple):
    """What is recorded of a training that was finished."""

    final: float | None  # Mean return over seeds: of the evaluation at the end, or of the end of the learning curve.
    random: float | None  # Mean return of random play; None where nothing could be played.
    random_episodes: int
    no_better: bool | None  # Than random play, beyond chance; None where nobody knows.
    improving: int  # So many seeds were still improving.
    seeds: int

    def notes(self) -> list[str]:
        """What a user should know, a sentence each."""
        found = []
        if self.no_better:
            played = f"{self.random_episodes} episode{'' if self.random_episodes == 1 else 's'}"
            found.append(
                f"no better than random play ({_shown(self.final)}; random play has {_shown(self.random)}, {played})"
            )
        if self.improving:
            which = "" if self.seeds == 1 else f" ({self.improving} of {self.seeds} seeds)"
            found.append(f"still improving: give it more steps{which}")
        return found

    def as_dict(self) -> dict[str, Any]:
        return {
            "return": self.final,
            "random_return": self.random,
            "random_episodes": self.random_episodes,
            "no_better_than_random": self.no_better,
            "still_improving": self.improving,
            "seeds": self.seeds,
        }

    @classmethod
    def read(cls, told: object) -> "Verdict | None":
        """As `as_dict` gave it; None for anything else, which a file may hold."""
        if not isinstance(told, dict) or not told.keys() >= dict.fromkeys(_KEYS).keys():
            return None
        final, random, episodes, no_better, improving, seeds = (told[key] for key in _KEYS)
        counted = all(type(count) is int and 0 <= count < 2**53 for count in (episodes, improving, seeds))
        known = all(mean is None or (type(mean) is float and math.isfinite(mean)) for mean in (final, random))
        is_whole = not no_better or None not in (final, random)
        if not (counted and known and is_whole and no_better in (None, True, False)):
            return None
        return cls(final, random, episodes, no_better, improving, seeds)


_KEYS = ("return", "random_return", "random_episodes", "no_better_than_random", "still_improving", "seeds")


def _shown(mean: float) -> str:
    return f"{mean:.1f}" if abs(mean) >= 10 else number(mean)


def random_play(
    experience: Experience, policies: ASAPPolicy, seeds: Sequence[int], config: Config, stop: StopRequest
) -> Float[np.ndarray, "n"]:
    """Returns of some episodes in which every action is equally likely, over tasks by their weights.

    They are of a stream of their own, and count nowhere. They end early when the time or the share of the budget is
    used up.
    """
    tasks, run = experience.tasks, config.run
    seeds = seeds[:RANDOM_EPISODES]
    players = stack([uniform(member(policies, index)) for index in range(len(seeds))])
    budget = run.episodes * tasks.spec.horizon if run.steps is None else run.steps
    most, size = RANDOM_SHARE * budget * len(seeds), experience.least_episodes
    found, steps = [], 0.0
    with contextlib.suppress(Interrupted), stop.within(RANDOM_SECONDS):
        for round_ in range(max(1, RANDOM_EPISODES // (len(seeds) * size))):
            if round_ and steps * (round_ + 1) / round_ > most:
                break
            played = experience.evaluate(players, EpisodeIds(seeds, RANDOM, round_), size, deterministic=False)
            found += np.einsum("m,pmn->np", tasks.shares, played.returns).ravel().tolist()
            steps += float(played.lengths.sum())
    return np.asarray(found[:RANDOM_EPISODES])


def verdict_of(
    tasks: TaskSet,
    curve: Curve,
    evaluation: Evaluation | None,
    at_random: Float[np.ndarray, "n"],
    out_of_budget: Bool[np.ndarray, "seeds"],
) -> Verdict:
    """More steps are of no use to a seed that has converged, or that is as good as its task asks for."""
    curves = [curve_of(curve, seed, tasks.shares) for seed in range(len(out_of_budget))]
    if evaluation is not None:
        finals = list(np.einsum("m,smn->sn", tasks.shares, evaluation.returns))
    else:
        finals = [returns[-max(1, len(returns) // LAST) :] for returns in curves]
    every = np.concatenate(finals)
    thresholds = [task.threshold for task in tasks.tasks]
    enough = math.inf if None in thresholds else float(tasks.shares @ np.asarray(thresholds, float))
    improving = [
        bool(is_out) and is_improving(returns) and float(np.mean(final)) < enough
        for is_out, returns, final in zip(out_of_budget, curves, finals)
    ]
    return Verdict(
        final=float(every.mean()) if len(every) else None,
        random=float(at_random.mean()) if len(at_random) else None,
        random_episodes=len(at_random),
        no_better=is_no_better(every, at_random),
        improving=sum(improving),
        seeds=len(curves),
    )


def curve_of(curve: Curve, seed: int, shares: Float[np.ndarray, "M"]) -> Float[np.ndarray, "n"]:
    """The return after each of its updates that was looked at, over those of the tasks that were played."""
    if not len(curve.episodes):  # The event log may have been lost.
        return np.zeros(0)
    returns = curve.returns[1:, seed][curve.active[1:, seed] > 0]
    weights = np.where(np.isnan(returns), 0.0, shares)
    known = weights.sum(-1) > 0
    return (np.nan_to_num(returns) * weights).sum(-1)[known] / weights.sum(-1)[known]


def is_no_better(final: Float[np.ndarray, "n"], at_random: Float[np.ndarray, "m"]) -> bool | None:
    """Whether a 95 % interval of the difference of means reaches down to 0; None where too little is known."""
    if not len(final) or not len(at_random):
        return None
    low, high = mean_difference_interval(final, at_random)
    return bool(low <= 0) if math.isfinite(low) and math.isfinite(high) else None


def is_improving(returns: Float[np.ndarray, "n"]) -> bool:
    """Whether the last fifth of a learning curve is better than the fifth before, beyond its noise."""
    count = len(returns) // LAST
    if count < LEAST_ENTRIES:
        return False
    return mean_difference_interval(returns[-count:], returns[-2 * count : -count])[0] > 0
