"""The start of a training: the best of some policies drawn at random.

A policy gradient begins from what random play reaches. Where that is always the same (a car in a valley that one random
push after the other never leaves), it has nothing to go by. A policy of a few hyperplanes and decided skills has so few
numbers that drawing all of them at once is a search that gets somewhere: a plane across the velocity is found among
some dozens of planes, a useful sequence of single actions never. It is paid from the budget like everything else.

All that were drawn play once; the better quarter plays on, and so on, until one is left. Where all did equally badly,
more are drawn. Where the scaling of observations is learned, the first group plays twice: before, to see their range.
A small budget has smaller groups, so that most of it is left to learn from, and one that is too small has no search.

The best of some policies is a decided one, and gradual learning leaves it less easily than a start that is undecided.
With `run.search_if_stuck` there is no search where the first episodes differ and some end before the time limit.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from asap.base.arrays import stack
from asap.base.episodes import SEARCH
from asap.base.keys import host_generator
from asap.base.spec import TaskSet
from asap.base.types import EpisodeTotals
from asap.config.schema import SINGLE, Config
from asap.experience.protocol import EpisodeIds, Evaluation, Experience, OnProgress, ignore_progress
from asap.learn.state import Budget, Start, drawn_start
from asap.policy.build import build_policy
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import Moments, merged, rescaled, scaled_anew
from asap.policy.skills import GaussianSkills
from asap.policy.surgery import with_one_skill

KEPT = 4  # One in so many plays on.
AGAIN = 2  # Episodes of each that does.
FIRST = 8  # Episodes that tell whether a policy is stuck.
GROUP = 16  # Drawn at a time: those that come later know better how to scale.
MARGIN, LOGIT, MEAN = 3.0, 1.5, 1.0  # How decided they are: typical margins, logits, and means in units of the range.
ROUNDING = 1e-9  # Shares of the budget are no exact numbers.
_CANDIDATES = 8  # Id of the stream that candidates are drawn from.


class Candidate(NamedTuple):
    policy: ASAPPolicy
    returns: list[float]  # Of the episodes it has played, over tasks by their weights.
    lengths: list[float]  # Steps on all tasks together.

    @property
    def merit(self) -> float:
        return float(np.mean(self.returns))


class Trials:
    """Plays policies of one seed, and keeps account in its start of what was seen and spent."""

    def __init__(self, config: Config, experience: Experience, seed: int):
        self.experience, self.seed, self._budget = experience, seed, Budget.of(config)
        self.start, self._number = drawn_start(config, experience.tasks, seed), 0

    @property
    def share(self) -> float:
        """Of the budget, spent so far."""
        spent = self.start.totals
        return self.share_of(int(spent.episodes.sum()), int(spent.steps.sum()))

    def share_of(self, episodes: int, steps: int | float) -> float:
        return max(episodes / int(self._budget.episodes), steps / int(self._budget.steps))

    def play(
        self, policies: Sequence[ASAPPolicy], num_episodes: int = 1, on_progress: OnProgress = ignore_progress
    ) -> Evaluation:
        """Each policy plays so many episodes of every task, which nobody has played before; `on_progress` hears how many
        policies have."""
        numbers = self._number + num_episodes * np.arange(len(policies))
        self._number += num_episodes * len(policies)
        ids = EpisodeIds([self.seed] * len(policies), SEARCH, numbers.tolist())
        each = num_episodes * self.experience.tasks.size

        def on_episodes(count: int) -> None:
            on_progress(count // each)

        played = self.experience.evaluate(stack(list(policies)), ids, num_episodes, False, on_episodes)
        totals, moments = self.start.totals, self.start.moments
        totals = EpisodeTotals(*(before + now for before, now in zip(totals, totals_of(played))))
        for seen in () if moments is None else played.seen:
            moments = merged(moments, seen)
        self.start = self.start._replace(totals=totals, moments=moments)
        return played

    def play_within(
        self,
        policies: Sequence[ASAPPolicy],
        until: float,
        end: float,
        num_episodes: int = 1,
        on_progress: OnProgress = ignore_progress,
    ) -> list[Candidate]:
        """The first of the policies: as many as are begun before the share `until` is spent.

        Nobody knows how long an episode is before it was played, only how long it can be. So they play in parts, none
        of which can pass the share `end`.
        """
        tasks, found = self.experience.tasks, []
        episodes = num_episodes * tasks.size
        longest = self.share_of(episodes, episodes * tasks.spec.horizon)
        while len(found) < len(policies) and self.share < until:
            fits, surely = (int((limit - self.share) / longest + ROUNDING) for limit in (until, end))
            count = min(max(fits, 1), surely)
            if not count:
                break
            part, before = policies[len(found) : len(found) + count], len(found)
            played = self.play(part, num_episodes, lambda done: on_progress(before + done))
            returns, lengths = np.einsum("m,pmn->pn", tasks.shares, played.returns), played.lengths.sum(1)
            found += map(Candidate, part, returns.tolist(), lengths.tolist())
        return found


def totals_of(played: Evaluation) -> EpisodeTotals:
    """Per task, over all policies."""
    num_policies, num_tasks, num_episodes = played.returns.shape
    return EpisodeTotals(
        episodes=np.full(num_tasks, num_policies * num_episodes, np.int64),
        returns=played.returns.sum((0, 2)),
        successes=np.int64(np.nan_to_num(played.success).sum((0, 2))),
        steps=np.int64(played.lengths.sum((0, 2))),
    )


def search(config: Config, experience: Experience, seed: int, on_progress: OnProgress = ignore_progress) -> Start:
    """The best of `run.candidates` policies, or of as many more as it takes to see a difference; fewer where the share
    of the budget is used up, and none where it is too small for two of them. `on_progress` hears how many have played.

    Playing the better ones again may take as much once more.
    """
    run, trials, candidates = config.run, Trials(config, experience, seed), []
    most, end = run.search_share, min(2 * run.search_share, 1.0)

    def group(size: int) -> list[ASAPPolicy]:
        numbers = range(len(candidates), len(candidates) + size)
        drawn = [draw(config, experience.tasks, host_generator(seed, _CANDIDATES, number)) for number in numbers]
        if SINGLE in run.race:  # One skill everywhere is enough for many tasks.
            drawn = [with_one_skill(policy) if number % 2 else policy for number, policy in zip(numbers, drawn)]
        return [_as_seen(policy, trials.start.moments) for policy in drawn]

    on_progress(0)
    if run.search_if_stuck and not is_stuck(trials):
        return trials.start._replace(policy=_as_seen(trials.start.policy, trials.start.moments))
    size = GROUP
    if (
        trials.start.moments is not None
    ):  # For these alone: on raw observations they are not as decided as they are meant.
        size = len(trials.play_within(group(GROUP), most / 2, end))
    while size > 1 and trials.share < most:
        if len(candidates) >= run.candidates and np.ptp([one.merit for one in candidates]) > 0:
            break
        drawn, before = group(size), len(candidates)
        played = trials.play_within(drawn, end, end, on_progress=lambda done: on_progress(before + done))
        candidates += played
        if len(played) < len(drawn):
            break
    if len(candidates) < 2:
        return trials.start._replace(policy=_as_seen(trials.start.policy, trials.start.moments))
    best, start = best_of(trials, candidates, end).policy, trials.start
    return start._replace(policy=best if start.moments is None else rescaled(best, start.moments))


def is_stuck(trials: Trials) -> bool:
    """Whether a gradient has nothing to go by: the drawn policy plays some episodes that are alike, or that nothing ends."""
    tasks = trials.experience.tasks
    if trials.share_of(FIRST * tasks.size, FIRST * tasks.size * tasks.spec.horizon) > 1:
        return False
    played = trials.play([trials.start.policy], FIRST)
    return bool(np.ptp(played.returns) == 0 or (played.lengths >= tasks.spec.horizon).all())


def _as_seen(policy: ASAPPolicy, moments: Moments | None) -> ASAPPolicy:
    """As it was drawn, on observations in the units in which they have been seen, if any were."""
    return policy if moments is None or not float(moments.count) else scaled_anew(policy, moments)


def best_of(trials: Trials, candidates: list[Candidate], end: float, few: int = GROUP) -> Candidate:
    """The better quarter plays on, and so on, until one is left; of fewer than `few`, the best so far."""
    rest = sorted(candidates, key=lambda one: -one.merit)
    rest = rest[:1] if len(rest) < few else rest
    while len(rest) > 1:
        rest = sorted(rest, key=lambda one: -one.merit)[: len(rest) // KEPT or 1]
        left, num_tasks = end - trials.share + ROUNDING, trials.experience.tasks.size
        # As far as is known, before they play again.
        costs = [trials.share_of(AGAIN * num_tasks, AGAIN * float(np.mean(one.lengths))) for one in rest]
        rest = rest[: np.searchsorted(np.cumsum(costs), left, side="right")] or rest[:1]
        again = [] if costs[0] > left else trials.play_within([one.policy for one in rest], 1.0, 1.0, AGAIN)
        if not again:
            break
        rest = rest[: len(again)]
        for one, more in zip(rest, again):
            one.returns.extend(more.returns)
            one.lengths.extend(more.lengths)
    return max(rest, key=lambda one: one.merit)


def draw(config: Config, tasks: TaskSet, generator: np.random.Generator) -> ASAPPolicy:
    """A policy that knows what it wants: planes in random directions, each skill with a preference.

    It is the same on all tasks: otherwise it would have to be good on each by chance. What differs is for learning to find.
    """
    policy = build_policy(config.policy, tasks.tasks, generator)
    leaves = policy.partition.beta, policy.skills.theta
    beta, theta = (generator.standard_normal(leaf.shape, np.float32) for leaf in leaves)
    base_psi, base_phi = policy.psi.size(0), policy.phi.size(0)  # What stands behind them is multiplied by m.
    beta[:, base_psi:], theta[..., base_phi:] = 0.0, 0.0
    slopes = np.linalg.norm(beta[:, int(policy.psi.basis.has_bias) :], axis=-1, keepdims=True)
    beta = beta * np.float32(MARGIN / policy.partition.alpha_beta) / slopes
    if isinstance(policy.skills, GaussianSkills):
        theta = theta * np.float32(MEAN / np.sqrt(base_phi))
    else:
        theta = theta * np.float32(LOGIT / policy.skills.alpha_theta)
    partition = dataclasses.replace(policy.partition, beta=beta)
    return dataclasses.replace(policy, partition=partition, skills=dataclasses.replace(policy.skills, theta=theta))
