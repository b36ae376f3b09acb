"""How a training came out: its return, whether that is better than random play, and whether it was still improving.

All come from numbers that a run records, so that who reads the run later need not play.
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
from asap.base.numbers import counted, number
from asap.base.spec import TaskSet
from asap.base.stats import mean_difference_interval
from asap.config.schema import Config
from asap.experience.protocol import EpisodeIds, Evaluation, Experience
from asap.policy.policy import ASAPPolicy
from asap.policy.surgery import uniform
from asap.runs.events import Curve
from asap.runs.signals import StopRequest

RANDOM_EPISODES, RANDOM_SECONDS = 20, 10.0  # At most.
RANDOM_SHARE, FEWEST_RANDOM = 0.02, 2  # Of the budget, at most; so many are played in any case, to know their spread.
CURVE_DIGITS, SAME = 3, 1e-6  # Of the returns in a learning curve; relative error of a sum in single precision.
LAST = 5  # The last one in so many entries of the curve is held against as many before.
LEAST_ENTRIES = 3  # On both sides: fewer do not tell what is noise.


class SeedReturns(NamedTuple):
    """Mean return of each seed, and how it was played."""

    returns: tuple[float, ...]
    episodes: int | None  # Of each seed and task; None: those of the last fifth of the learning curve.
    deterministic: bool  # By the most probable skill and action.

    def as_dict(self) -> dict[str, Any]:
        return {"return": list(self.returns), "episodes": self.episodes, "deterministic": self.deterministic}

    @classmethod
    def read(cls, record: object, num_seeds: int) -> "SeedReturns | None":
        """As `as_dict` gave it; None for anything else, which a file may hold."""
        if not isinstance(record, dict):
            return None
        returns, episodes, deterministic = (record.get(key) for key in ("return", "episodes", "deterministic"))
        are_known = isinstance(returns, list) and len(returns) == num_seeds and all(map(_is_finite, returns))
        if not (are_known and (episodes is None or _is_count(episodes)) and isinstance(deterministic, bool)):
            return None
        return cls(tuple(returns), episodes, deterministic)


class Verdict(NamedTuple):
    """What is recorded of a training that was finished."""

    final: float | None  # Mean return over seeds: of the evaluation at the end, or of the end of the learning curve.
    random: float | None  # Mean return of random play; None where nothing could be played.
    random_episodes: int
    no_better: bool | None  # Than random play, beyond chance; None where nobody knows.
    improving: int  # So many seeds were still improving.
    seeds: int
    evaluated: SeedReturns | None = None  # At the end.
    trained: SeedReturns | None = None  # In the last fifth of the learning curve.
    without_update: int = 0  # So many seeds used up their budget before their first update.

    def notes(self) -> list[str]:
        """What a user should know, a sentence each."""
        found = []
        if self.without_update:
            which = "" if self.seeds == 1 else f" in {self.without_update} of {self.seeds} seeds"
            found.append(f"no update was made{which}: the start used up the budget; give a larger one")
        if self.no_better:
            played = f"{_shown(self.final)}; random play has {_shown(self.random)}"
            count = counted(self.random_episodes, "episode")
            # Episodes that are few and differ much can hide a gain: then it was not shown, and may still be there.
            if self.final > self.random:
                found.append(f"not shown to be better than random play ({played} in {count}: it may be chance)")
            else:
                found.append(f"no better than random play ({played}, {count})")
        if self.improving:
            which = "" if self.seeds == 1 else f" ({self.improving} of {self.seeds} seeds)"
            found.append(f"still improving: give it more steps{which}")
        return found

    def as_dict(self) -> dict[str, Any]:
        per_seed = {"evaluated": self.evaluated, "trained": self.trained}
        recorded = {name: None if returns is None else returns.as_dict() for name, returns in per_seed.items()}
        return {**dict(zip(_KEYS, self)), **recorded, "without_update": self.without_update}

    @classmethod
    def read(cls, record: object) -> "Verdict | None":
        """As `as_dict` gave it; None for anything else, which a file may hold."""
        if not isinstance(record, dict) or not record.keys() >= set(_KEYS):
            return None
        final, random, episodes, no_better, improving, seeds = (record[key] for key in _KEYS)
        are_counts = all(map(_is_count, (episodes, improving, seeds)))
        known = all(mean is None or _is_finite(mean) for mean in (final, random))
        is_whole = not no_better or None not in (final, random)
        if not (are_counts and known and is_whole and no_better in (None, True, False)):
            return None
        returns = (SeedReturns.read(record.get(key), seeds) for key in ("evaluated", "trained"))
        without = record.get("without_update")
        return cls(final, random, episodes, no_better, improving, seeds, *returns, without if _is_count(without) else 0)


_KEYS = ("return", "random_return", "random_episodes", "no_better_than_random", "still_improving", "seeds")


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _is_finite(value: object) -> bool:
    return type(value) is float and math.isfinite(value)


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
            if len(found) >= FEWEST_RANDOM and steps * (round_ + 1) / round_ > most:
                break
            played = experience.evaluate(players, EpisodeIds(seeds, RANDOM, round_), size, deterministic=False)
            found += np.einsum("m,pmn->np", tasks.shares, played.returns).ravel().tolist()
            steps += float(played.lengths.sum())
    return np.asarray(found[:RANDOM_EPISODES])


def verdict_of(
    tasks: TaskSet,
    curve: Curve,
    evaluation: Evaluation | None,
    deterministic: bool,
    at_random: Float[np.ndarray, "n"],
    out_of_budget: Bool[np.ndarray, "seeds"],
) -> Verdict:
    """More steps are of no use to a seed that has converged, or that is as good as its task asks for."""
    curves = [curve_of(curve, seed, tasks.shares) for seed in range(len(out_of_budget))]
    ends = [returns[-max(1, len(returns) // LAST) :] for returns in curves]
    if evaluation is not None:
        finals = list(np.einsum("m,smn->sn", tasks.shares, evaluation.returns))
    else:
        finals, at_random = ends, np.round(at_random, CURVE_DIGITS)
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
        evaluated=None if evaluation is None else _seed_returns(finals, evaluation.returns.shape[-1], deterministic),
        trained=_seed_returns(ends, None, False),
    )


def _seed_returns(found: list[Float[np.ndarray, "n"]], episodes: int | None, deterministic: bool) -> SeedReturns | None:
    """None where a seed has none, or one that is not finite."""
    means = tuple(float(np.mean(returns)) if len(returns) else math.nan for returns in found)
    return SeedReturns(means, episodes, deterministic) if np.isfinite(means).all() else None


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
    return bool(low <= SAME * abs(float(np.mean(at_random)))) if math.isfinite(low) and math.isfinite(high) else None


def is_improving(returns: Float[np.ndarray, "n"]) -> bool:
    """Whether the last fifth of a learning curve is better than the fifth before, beyond its noise."""
    count = len(returns) // LAST
    if count < LEAST_ENTRIES:
        return False
    return mean_difference_interval(returns[-count:], returns[-2 * count : -count])[0] > 0
