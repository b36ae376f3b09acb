"""The start of a training: the best of some policies drawn at random, or of the symmetric images of a given one.

A policy gradient begins from what random play reaches. Where that is always the same (a car in a valley that one random
push after the other never leaves), it has nothing to go by. A policy of a few hyperplanes and decided skills has so few
numbers that drawing all of them at once is a search that gets somewhere: a plane across the velocity is found among
some dozens of planes, a useful sequence of single actions never. It is paid from the budget like everything else.

All that were drawn play once; the better quarter plays on, and so on, until one is left. Where all did equally badly,
more are drawn. Where the scaling of observations is learned, the first group plays twice: before, to see their range.
A small budget has smaller groups, so that most of it is left to learn from, and one that is too small has no search.
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
from asap.config.schema import Config
from asap.experience.protocol import EpisodeIds, Evaluation, Experience, OnProgress, ignore_progress
from asap.learn.state import Budget, drawn_policy
from asap.policy.build import build_policy
from asap.policy.policy import ASAPPolicy
from asap.policy.rules.from_policy import sample_states
from asap.policy.rules.given import given_rules
from asap.policy.scaling import Moments, merged, no_moments, rescaled, scaled_anew, shift_and_scale
from asap.policy.skills import GaussianSkills
from asap.policy.surgery import flip, sign_patterns, uniform

FIRST_EPISODES, FIRST_SHARE = 4, 0.05  # Of given rules, and as many of random play, before they are learned from.
KEPT = 4  # One in so many plays on.
AGAIN = 2  # Episodes of each that does.
GROUP = 16  # Drawn at a time: those that come later know better how to scale.
MARGIN, LOGIT, MEAN = 3.0, 1.5, 1.0  # How decided they are: typical margins, logits, and means in units of the range.
ROUNDING = 1e-9  # Shares of the budget are no exact numbers.
BOUNDLESS = Budget(np.int64(np.iinfo(np.int64).max), np.int64(np.iinfo(np.int64).max))
_CANDIDATES = 8  # Id of the stream that candidates are drawn from.


class Found(NamedTuple):
    """A policy to start from, and what it took to find it."""

    policy: ASAPPolicy
    moments: Moments | None
    totals: EpisodeTotals
    notes: tuple[str, ...] = ()  # What was done to rules so that they can be learned from.


class Candidate(NamedTuple):
    policy: ASAPPolicy
    returns: list[float]  # Of the episodes it has played, over tasks by their weights.
    lengths: list[float]  # Steps on all tasks together.

    @property
    def merit(self) -> float:
        return float(np.mean(self.returns))

    @property
    def cost(self) -> float:
        """Steps that playing it again will take, as far as is known."""
        return AGAIN * float(np.mean(self.lengths))


class Trials:
    """Plays policies of one seed, and keeps account of what was seen and spent."""

    def __init__(self, experience: Experience, seed: int, budget: Budget = BOUNDLESS):
        self.experience, self.seed, self._budget = experience, seed, budget
        self.spent, self._number = no_totals(experience.tasks), 0
        scaled, size = experience.tasks.is_scaled, len(experience.tasks.spec.observation_names)
        self.moments = no_moments(size) if scaled else None

    @property
    def share(self) -> float:
        """Of the budget, spent so far."""
        return self.share_of(int(self.spent.episodes.sum()), int(self.spent.steps.sum()))

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
        played = self.experience.evaluate(
            stack(list(policies)),
            ids,
            num_episodes,
            deterministic=False,
            on_progress=lambda episodes: on_progress(episodes // each),
        )
        self.spent = EpisodeTotals(*(before + now for before, now in zip(self.spent, totals_of(played))))
        if self.moments is not None:
            for seen in played.seen:
                self.moments = merged(self.moments, seen)
        return played

    def play_within(
        self,
        policies: Sequence[ASAPPolicy],
        until: float,
        end: float,
        num_episodes: int = 1,
        on_progress: OnProgress = ignore_progress,
    ) -> list[tuple[list[float], list[float]]]:
        """Returns and steps of the first of the policies: of as many as are begun before the share `until` is spent.

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
            found += _per_episode(tasks, self.play(part, num_episodes, lambda done: on_progress(before + done)))
        return found


def no_totals(tasks: TaskSet) -> EpisodeTotals:
    zero = np.zeros(tasks.size, np.int64)
    return EpisodeTotals(zero, np.zeros(tasks.size), zero, zero)


def totals_of(played: Evaluation) -> EpisodeTotals:
    """Per task, over all policies."""
    num_policies, num_tasks, num_episodes = played.returns.shape
    return EpisodeTotals(
        episodes=np.full(num_tasks, num_policies * num_episodes, np.int64),
        returns=played.returns.sum((0, 2)),
        successes=np.int64(np.nan_to_num(played.success).sum((0, 2))),
        steps=np.int64(played.lengths.sum((0, 2))),
    )


def search(config: Config, experience: Experience, seed: int, on_progress: OnProgress = ignore_progress) -> Found:
    """The best of `run.candidates` policies, or of as many more as it takes to see a difference; fewer where the share
    of the budget is used up, and none where it is too small for two of them. `on_progress` hears how many have played.

    Playing the better ones again may take as much once more.
    """
    tasks, run = experience.tasks, config.run
    trials, candidates = Trials(experience, seed, Budget.of(config)), []
    most, end = run.search_share, min(2 * run.search_share, 1.0)

    def group(size: int) -> list[ASAPPolicy]:
        numbers = range(len(candidates), len(candidates) + size)
        drawn = [draw(config, tasks, host_generator(seed, _CANDIDATES, number)) for number in numbers]
        return [_as_seen(policy, trials.moments) for policy in drawn]

    on_progress(0)
    size = GROUP
    if trials.moments is not None:  # For these alone: on raw observations they are not as decided as they are meant.
        size = len(trials.play_within(group(GROUP), most / 2, end))
    while size > 1 and trials.share < most and (len(candidates) < run.candidates or _all_alike(candidates)):
        drawn, before = group(size), len(candidates)
        played = trials.play_within(drawn, end, end, on_progress=lambda done: on_progress(before + done))
        candidates += [Candidate(policy, *own) for policy, own in zip(drawn, played)]
        if len(played) < len(drawn):
            break
    if len(candidates) < 2:
        return Found(_as_seen(drawn_policy(config, tasks, seed), trials.moments), trials.moments, trials.spent)
    best = _best(trials, candidates, end).policy
    best = best if trials.moments is None else rescaled(best, trials.moments)
    return Found(best, trials.moments, trials.spent)


def _as_seen(policy: ASAPPolicy, moments: Moments | None) -> ASAPPolicy:
    """As it was drawn, on observations in the units in which they have been seen, if any were."""
    return policy if moments is None or not float(moments.count) else scaled_anew(policy, moments)


def _best(trials: Trials, candidates: list[Candidate], end: float) -> Candidate:
    """The better quarter plays on, and so on, until one is left; of fewer than a group, the best of one episode."""
    rest = sorted(candidates, key=lambda one: -one.merit)
    rest = rest[:1] if len(rest) < GROUP else rest
    while len(rest) > 1:
        rest = sorted(rest, key=lambda one: -one.merit)[: len(rest) // KEPT or 1]
        left = end - trials.share + ROUNDING
        costs = [trials.share_of(AGAIN * trials.experience.tasks.size, one.cost) for one in rest]
        rest = rest[: np.searchsorted(np.cumsum(costs), left, side="right")] or rest[:1]
        again = [] if costs[0] > left else trials.play_within([one.policy for one in rest], 1.0, 1.0, AGAIN)
        if not again:
            break
        rest = rest[: len(again)]
        for one, (returns, lengths) in zip(rest, again):
            one.returns.extend(returns)
            one.lengths.extend(lengths)
    return max(rest, key=lambda one: one.merit)


def _per_episode(tasks: TaskSet, played: Evaluation) -> list[tuple[list[float], list[float]]]:
    """Returns and steps of each policy's episodes, over tasks."""
    returns, lengths = np.einsum("m,pmn->pn", tasks.shares, played.returns), played.lengths.sum(1)
    return [(own.tolist(), steps.tolist()) for own, steps in zip(returns, lengths)]


def _all_alike(candidates: list[Candidate]) -> bool:
    return float(np.ptp([one.merit for one in candidates])) == 0.0


def draw(config: Config, tasks: TaskSet, generator: np.random.Generator) -> ASAPPolicy:
    """A policy that knows what it wants: planes in random directions, each skill with a preference."""
    policy = build_policy(config.policy, tasks.tasks, generator)
    beta, theta = (
        generator.standard_normal(leaf.shape, np.float32) for leaf in (policy.partition.beta, policy.skills.theta)
    )
    slopes = np.linalg.norm(beta[:, int(policy.psi.basis.has_bias) :], axis=-1, keepdims=True)
    beta = beta * np.float32(MARGIN / policy.partition.alpha_beta) / slopes
    if isinstance(policy.skills, GaussianSkills):
        theta = theta * np.float32(MEAN / np.sqrt(theta.shape[-1]))
    else:
        theta = theta * np.float32(LOGIT / policy.skills.alpha_theta)
    return dataclasses.replace(
        policy,
        partition=dataclasses.replace(policy.partition, beta=beta),
        skills=dataclasses.replace(policy.skills, theta=theta),
    )


def search_symmetries(
    config: Config, experience: Experience, seed: int, policy: ASAPPolicy, on_progress: OnProgress = ignore_progress
) -> Found:
    """The policy with its planes turned by the sign pattern that has the best mean return over a few episodes; of as
    many patterns as the budget has room for."""
    trials = Trials(experience, seed, Budget.of(config))
    images = [flip(policy, signs) for signs in np.asarray(sign_patterns(policy.partition.num_planes))]
    played = trials.play_within(images, 1.0, 1.0, config.run.search_episodes, on_progress)
    best = images[int(np.argmax([np.mean(returns) for returns, _ in played]))] if played else policy
    return Found(best, trials.moments, trials.spent)


def start_from_rules(config: Config, experience: Experience, seed: int) -> Found:
    """The rules, made correctable by what is observed first: some episodes of them, and some of random play."""
    tasks, trials = experience.tasks, Trials(experience, seed, Budget.of(config))
    given = given_rules(config.policy, tasks.tasks)
    exact = given.policy()
    longest = trials.share_of(2 * tasks.size, 2 * tasks.size * tasks.spec.horizon)
    count = int(min(FIRST_EPISODES, FIRST_SHARE / longest + ROUNDING)) or int(longest <= 1)
    seen = [trials.play([policy], count).observations for policy in (exact, uniform(exact)) if count]
    states = _first_states(experience, exact, [part for part in seen if part is not None])
    book, notes = given.correctable(given.book.vocabulary.values(states[0].T, states[1].T))
    if trials.moments is None or not float(trials.moments.count):
        policy = book.policy(given.shape)
    elif given.shape.scaling is None:
        policy = rescaled(book.policy(given.shape), trials.moments)
    else:  # Features that are not linear are scaled once, before the weights: later it would change the policy.
        policy = book.policy(given.shape._replace(scaling=shift_and_scale(trials.moments)))
    policy = _with_usual_slopes(policy)
    policy = dataclasses.replace(given.grown(policy, states, seed), kept=drawn_policy(config, tasks, seed).kept)
    return Found(policy, trials.moments, trials.spent, tuple(notes))


def _with_usual_slopes(policy: ASAPPolicy) -> ASAPPolicy:
    """The same planes, with alpha_beta so large that their weights are as small as those of planes that are drawn.

    Step sizes are meant for such weights: a sharp plane with large ones would turn too slowly to be corrected.
    """
    partition = policy.partition
    margins = float(partition.alpha_beta) * partition.beta
    slopes = np.linalg.norm(margins[:, int(policy.psi.basis.has_bias) :], axis=-1)
    alpha_beta = np.float32(max(slopes.max(initial=0.0) / MARGIN, 1.0)) * partition.alpha_beta
    partition = dataclasses.replace(partition, beta=np.float32(margins / alpha_beta), alpha_beta=np.float32(alpha_beta))
    return dataclasses.replace(policy, partition=partition)


def _first_states(experience: Experience, policy: ASAPPolicy, seen: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(O, N) and (Z, N): what was seen, or else what random play of a compiled task sees, or what is usual."""
    random = None if seen else experience.random_states()
    if random is not None:
        return np.asarray(random[0]), np.asarray(random[1])
    task = experience.tasks.tasks[0]
    states = np.concatenate(seen) if seen else sample_states(policy, task)
    return states.T, np.tile(np.asarray(task.descriptor, float)[:, None], (1, len(states)))


def found_start(
    config: Config,
    experience: Experience,
    seed: int,
    given: ASAPPolicy | None,
    on_progress: OnProgress = ignore_progress,
) -> Found:
    """Where a seed begins: from a given policy or its best image, from the best of some, or as it is drawn. `on_progress`
    hears how many policies have been tried."""
    tasks = experience.tasks
    if given is None and config.policy.rules:
        return start_from_rules(config, experience, seed)
    if given is None and config.run.candidates:
        return search(config, experience, seed, on_progress)
    policy = drawn_policy(config, tasks, seed) if given is None else given
    if config.run.search_episodes:
        return search_symmetries(config, experience, seed, policy, on_progress)
    size = len(tasks.spec.observation_names)
    return Found(policy, no_moments(size) if tasks.is_scaled else None, no_totals(tasks))


def num_tried(config: Config, given: bool) -> int:
    """Policies that a search for a start is to try; 0 where there is none."""
    if not given and config.run.candidates:
        return config.run.candidates
    return 2**config.policy.hyperplanes if config.run.search_episodes else 0


def stacked_starts(found: Sequence[Found]) -> tuple[ASAPPolicy, Moments | None, EpisodeTotals]:
    """Of all seeds."""
    policies, moments, totals, _ = zip(*found)
    return stack(list(policies)), None if moments[0] is None else stack(list(moments)), stack(list(totals))
