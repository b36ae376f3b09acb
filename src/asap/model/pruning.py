"""Planes and skills taken out of a policy as long as that costs little: what learning added and did not need.

A step drops a plane, whose two sides then share their skills, or lets two skills become one. The new skill is fitted to what the old
ones did in the states that were played. All steps are tried on the same episodes. The best of many looks better than it is, so it
is judged on fresh episodes; where it fails, the next best are. What is lost is told beside the whole policy in the same episodes. It
may be a share of the way from random play to the return of the whole policy.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from asap.base.arrays import stack
from asap.base.errors import UserError
from asap.base.numbers import counted, number, percent
from asap.base.stats import mean_interval
from asap.config.settings import override
from asap.experience.protocol import OnProgress, ignore_progress
from asap.policy.policy import NOTHING, ASAPPolicy
from asap.policy.rules.from_policy import rules_text, sample_states
from asap.policy.skills import GaussianSkills
from asap.policy.surgery import grow, merged_by_fit, uniform, unshared

if TYPE_CHECKING:
    from asap.model.model import ASAP

MOST_STATES = 4096
MOST_PAIRS = 28  # Of skills that are tried to become one: those that act most alike.
MOST_JUDGED = 3  # Of the steps of a round, on fresh episodes.


class Offer(NamedTuple):
    """A smaller policy, with the numbers that its planes and skills had in the whole one."""

    words: str
    policy: ASAPPolicy
    planes: tuple[int, ...]
    skills: tuple[str, ...]


class PruneStep(NamedTuple):
    """An offer, and the episodes that it was played in."""

    offer: Offer
    returns: Float[np.ndarray, "n"]
    lost: Float[np.ndarray, "n"]  # Of the return of the whole policy, episode by episode.
    states: Float[np.ndarray, "N O"] | None

    def numbers(self) -> dict[str, Any]:
        returns = {"return": float(self.returns.mean()), "ci": mean_interval(self.returns)}
        lost = {"lost": float(self.lost.mean()), "lost_ci": mean_interval(self.lost)}
        return {**returns, **lost}


class Pruned(NamedTuple):
    """The smaller model, and what it cost."""

    model: "ASAP"
    steps: list[dict[str, Any]]  # As they were judged on fresh episodes.
    before: float
    random: float
    allowed: float  # Of the return, to be lost.
    cost: dict[str, Any] | None  # Of all steps together, in episodes by which nothing was decided.
    episodes: int  # Of each look.
    played: int  # Episodes in all.

    def as_dict(self) -> dict[str, Any]:
        partition = self.model.policy.partition
        sizes = {"planes": partition.num_planes, "skills": partition.num_skills}
        returns = {"return": self.before, "random": self.random, "allowed_loss": self.allowed, "cost": self.cost}
        return {**sizes, "steps": self.steps, **returns, "episodes": self.episodes, "episodes_played": self.played}

    def in_words(self) -> str:
        lines = [
            f"return {number(self.before)}, random play {number(self.random)}: a loss of {number(self.allowed)} is allowed"
        ]
        for step in self.steps:
            lines.append(f"{step['step']}: return {_told(step['return'], step['ci'])}, {_lost(step)}")
        if self.cost is None:
            lines.append("nothing can go")
        else:
            of_the_way = (
                "" if self.cost["share"] is None else f", {percent(self.cost['share'])} of the way from random play"
            )
            lines.append(f"in all: {_lost(self.cost)}{of_the_way}, over {counted(self.episodes, 'other episode')}")
        partition = self.model.policy.partition
        left = f"{counted(partition.num_planes, 'plane')}, {counted(partition.num_skills, 'skill')}"
        return "\n".join([*lines, f"left: {left} ({counted(self.played, 'episode')} played)"])


def _told(mean: float, interval: tuple[float, float] | None) -> str:
    return number(mean) if interval is None else f"{number(mean)} ({number(interval[0])} to {number(interval[1])})"


def _lost(entry: dict[str, Any]) -> str:
    return f"loss {_told(entry['lost'], entry['lost_ci'])}"


def prune(model: "ASAP", loss: float, episodes: int, seed: int, on_progress: OnProgress = ignore_progress) -> Pruned:
    """The model with as few planes and skills as the loss allows; of the seed that is looked at."""
    if not 0 <= loss <= 1:
        raise UserError("loss", "must be a share from 0 to 1", loss, "use for example 0.05")
    whole, seeds, played = model.policy, itertools.count(seed), itertools.count(1)

    def play(policies: list[ASAPPolicy], number_: int, at_random: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns (policies, episodes), and what was observed."""
        shaped = [as_large(policy, whole.partition.num_planes) for policy in policies]
        groups = [shaped] if whole.termination is None else [[policy] for policy in shaped]
        groups = [list(map(uniform, group)) for group in groups] if at_random else groups
        sure = model.config.run.deterministic and not at_random
        found = [model.play(stack(group), episodes, [number_] * len(group), sure) for group in groups]
        on_progress([next(played) for _ in policies][-1])
        returns = np.concatenate([each.returns for each in found])
        return np.einsum("m,pmn->pn", model.tasks.shares, returns), found[0].observations

    @functools.cache
    def of_whole(number_: int) -> tuple[np.ndarray, np.ndarray | None]:
        return play([whole], number_)

    def tried(offers: Sequence[Offer], number_: int) -> list[PruneStep]:
        returns, states = play([offer.policy for offer in offers], number_)
        lost = of_whole(number_)[0] - returns
        return [PruneStep(*each, states) for each in zip(offers, returns, lost)]

    first, taken = next(seeds), []
    now = whole_of(model)
    returns, states = of_whole(first)
    before, random = float(returns.mean()), float(play([whole], first, at_random=True)[0].mean())
    allowed = loss * max(before - random, 0.0)
    while offers := list(_smaller(now, model, states)):
        fitting = sorted((step for step in tried(offers, next(seeds)) if step.lost.mean() <= allowed), key=_preference)
        again = (tried([step.offer], next(seeds))[0] for step in fitting[:MOST_JUDGED])
        judged = next((step for step in again if step.lost.mean() <= allowed), None)
        if judged is None:
            break
        taken.append(judged)
        now, states = judged.offer, judged.states
    cost = tried([now], next(seeds))[0].numbers() if taken else None
    if cost is not None:
        cost["share"] = cost["lost"] / (before - random) if before > random else None
    steps = [{"step": step.offer.words, **step.numbers()} for step in taken]
    count = (next(played) - 1) * episodes * model.tasks.size
    return Pruned(model_of(model, now.policy), steps, before, random, allowed, cost, episodes, count)


def _preference(step: PruneStep) -> tuple[int, float]:
    """A plane less is worth more than a skill less."""
    return len(step.offer.planes), float(step.lost.mean())


def as_large(policy: ASAPPolicy, planes: int) -> ASAPPolicy:
    """The same policy in the shape of the whole one: all that is played is compiled once."""
    if policy.termination is not None:  # It would leave a skill where a region ends.
        return policy
    policy = unshared(policy)
    while policy.partition.num_planes < planes:
        policy = grow(policy, np.zeros(policy.partition.beta.shape[-1], np.float32))
    return dataclasses.replace(policy, kept=NOTHING)


def _smaller(whole: Offer, model: "ASAP", seen: np.ndarray | None) -> Iterator[Offer]:
    """One plane or one skill less, in every way."""
    fitting = _Fitting.of(whole, model, seen)
    yield from _without_planes(whole, fitting)
    yield from _merged(whole, fitting, None)


def merging_offers(model: "ASAP", seen: np.ndarray | None, pair: tuple[int, int] | None) -> list[Offer]:
    """One skill less: this pair as one, or any of those that act most alike."""
    whole = whole_of(model)
    return list(_merged(whole, _Fitting.of(whole, model, seen), pair))


def whole_of(model: "ASAP") -> Offer:
    policy = model.policy
    return Offer("all", policy, tuple(range(policy.partition.num_planes)), tuple(map(str, range(policy.num_skills))))


class _Fitting(NamedTuple):
    """The states that new skills are fitted to."""

    whole: Offer
    states: Float[np.ndarray, "N O"]
    m: Float[np.ndarray, "N Z"]
    played: Int[np.ndarray, "N"]  # The region of each.

    @classmethod
    def of(cls, whole: Offer, model: "ASAP", seen: np.ndarray | None) -> "_Fitting":
        policy, tasks = whole.policy, model.tasks.tasks
        few = sample_states(policy, tasks[0], seen)
        few = np.asarray(few, np.float32)[:: max(1, len(few) * len(tasks) // MOST_STATES)]
        states = np.tile(few, (len(tasks), 1))
        m = np.repeat(np.asarray([task.descriptor for task in tasks], np.float32), len(few), axis=0)
        margins = np.asarray(policy.partition.margins(policy.psi(states.T, m.T)))
        return cls(whole, states, m, (1 << np.arange(policy.partition.num_planes)) @ (margins > 0))

    def offer(self, words: str, k: int | None, groups: list[tuple[int, ...]], region_skills: list[int]) -> Offer:
        whole = self.whole
        merged = merged_by_fit(whole.policy, k, groups, region_skills, self.states, self.m, self.played)
        planes = tuple(plane for index, plane in enumerate(whole.planes) if index != k)
        return Offer(words, merged, planes, tuple("+".join(whole.skills[s] for s in group) for group in groups))


def _without_planes(whole: Offer, fitting: _Fitting) -> Iterator[Offer]:
    partition, kept = whole.policy.partition, whole.policy.kept
    of_region, regions = partition.skill_of_region, np.arange(partition.num_regions)
    for k in range(partition.num_planes):
        if k in kept.planes:
            continue
        low, high = (of_region[regions[(regions >> k) & 1 == side]] for side in (0, 1))
        pairs, new = np.unique(np.sort(np.stack([low, high], -1), axis=1), axis=0, return_inverse=True)
        groups = [tuple(sorted(set(pair))) for pair in pairs.tolist()]
        if not any(set(group) & set(kept.skills) for group in groups if len(group) > 1):
            yield fitting.offer(f"without plane {whole.planes[k] + 1}", k, groups, new.ravel().tolist())


def _merged(whole: Offer, fitting: _Fitting, pair: tuple[int, int] | None) -> Iterator[Offer]:
    partition = whole.policy.partition
    for first, second in _alike(whole.policy, fitting.states, fitting.m) if pair is None else [pair]:
        groups = [(first, second) if s == first else (s,) for s in range(partition.num_skills) if s != second]
        place = {s: index for index, group in enumerate(groups) for s in group}
        words = f"skills {whole.skills[first]} and {whole.skills[second]} as one"
        yield fitting.offer(words, None, groups, [place[s] for s in partition.skill_of_region.tolist()])


def _alike(policy: ASAPPolicy, states: np.ndarray, m: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of skills that are not kept, by how much they do the same in these states."""
    phi, skills = policy.phi(states.T, m.T), policy.skills
    acts = skills.means(phi) if isinstance(skills, GaussianSkills) else np.exp(skills.log_probs(phi))
    acts = np.asarray(acts, float).reshape(policy.num_skills, -1)
    squares, products = (acts**2).sum(1), acts @ acts.T
    pairs = [(i, j) for i, j in itertools.combinations(range(len(acts)), 2) if not {i, j} & set(policy.kept.skills)]
    return sorted(pairs, key=lambda pair: squares[list(pair)].sum() - 2 * products[pair])[:MOST_PAIRS]


def model_of(model: "ASAP", policy: ASAPPolicy) -> "ASAP":
    """A model of the smaller policy, whose settings say its size."""
    config, partition = model.config, policy.partition
    run = {"run.seed": model.seed, "run.seeds": 1}
    if config.policy.rules:  # Their shape is that of their text: so the text is the smaller one's.
        text = rules_text(policy, model.tasks.tasks, is_exact=True)
        config = override(config, {**run, "policy.rules": text, "policy.hyperplanes": partition.num_planes})
        policy = type(model).of(config, model.tasks).given.policy()
    shared = partition.region_skills or ()
    config = override(config, {**run, "policy.hyperplanes": partition.num_planes, "policy.region_skills": shared})
    return type(model).of(config, model.tasks, stack([policy]), model.num_episodes, model.num_timesteps)
