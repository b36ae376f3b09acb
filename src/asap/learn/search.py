"""The start for an environment nobody has described: the best of some policies drawn at random.

A policy gradient begins from what random play reaches. Where that is always the same (a car in a valley that one random
push after the other never leaves), it has nothing to go by. A policy of a few hyperplanes and decided skills has so few
numbers that drawing all of them at once is a search that gets somewhere: a plane across the velocity is found among some
dozens of planes, a useful sequence of single actions never. It is paid from the budget like everything else.

All that were drawn play once; the better quarter plays on, and so on, until one is left. Where all did equally badly, more
are drawn.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from asap.base.episodes import Played
from asap.base.keys import host_generator
from asap.config.schema import PolicyConfig
from asap.envs.gymnasium.task import HostedTask
from asap.policy.build import build_policy
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import Moments, no_moments, rescaled, scaled_anew, with_observations
from asap.policy.skills import GaussianSkills

KEPT = 4  # One in so many plays on.
AGAIN = 2  # Episodes of each that does.
GROUP = 16  # Drawn at a time: those that come later know better how to scale.
MARGIN, LOGIT, MEAN = (
    3.0,
    1.5,
    1.0,
)  # How decided they are: typical margins, logits, and means in units of the action's range.

Play = Callable[[Sequence[ASAPPolicy]], list[Played]]  # One episode of each policy, in this order.


class Found(NamedTuple):
    policy: ASAPPolicy
    moments: Moments
    episodes: list[Played]  # All that was played.
    own: list[Played]  # Those of the policy that was found.


class Candidate(NamedTuple):
    policy: ASAPPolicy
    episodes: list[Played]

    @property
    def merit(self) -> float:
        return float(np.mean([episode.total for episode in self.episodes]))

    @property
    def cost(self) -> float:
        """Steps that playing it again will take, as far as can be told."""
        return AGAIN * float(np.mean([episode.length for episode in self.episodes]))


def search(
    config: PolicyConfig, task: HostedTask, ids: tuple[int, ...], play: Play, count: int, most_steps: int, budget: int
) -> Found:
    """The best of `count` policies, or of as many more as it takes to see a difference; fewer where `most_steps` are reached.

    `ids` are the root of what is drawn. Playing the better ones again may take as many steps once more, within the budget.
    """
    moments, played, candidates = no_moments(len(task.spec.observation_names)), [], []

    def more(policies: Sequence[ASAPPolicy]) -> list[Played]:
        nonlocal moments
        episodes = play(policies)
        if task.is_scaled:
            moments = with_observations(moments, np.concatenate([episode.observations for episode in episodes]))
        played.extend(episodes)
        return episodes

    def spent() -> int:
        return sum(episode.length for episode in played)

    while not candidates or (spent() < most_steps and (len(candidates) < count or _all_alike(candidates))):
        numbers = range(len(candidates), len(candidates) + GROUP)
        drawn = [scaled_anew(draw(config, task, host_generator(*ids, n)), moments) for n in numbers]
        candidates += [Candidate(policy, [episode]) for policy, episode in zip(drawn, more(drawn))]
    rest = candidates
    while len(rest) > 1:
        rest = sorted(rest, key=lambda one: -one.merit)[: len(rest) // KEPT or 1]
        left = min(2 * most_steps, budget) - spent()
        rest = rest[: np.searchsorted(np.cumsum([one.cost for one in rest]), left, side="right")] or rest[:1]
        if rest[0].cost > left:
            break
        again = more([one.policy for one in rest for _ in range(AGAIN)])
        for i, one in enumerate(rest):
            one.episodes.extend(again[AGAIN * i : AGAIN * (i + 1)])
    best = max(rest, key=lambda one: one.merit)
    return Found(rescaled(best.policy, moments), moments, played, best.episodes)


def _all_alike(candidates: list[Candidate]) -> bool:
    return float(np.ptp([one.merit for one in candidates])) == 0.0


def draw(config: PolicyConfig, task: HostedTask, generator: np.random.Generator) -> ASAPPolicy:
    """A policy that knows what it wants: planes in random directions, each skill with a preference."""
    policy = build_policy(config, (task,), generator)
    beta, theta = (
        generator.standard_normal(leaf.shape, np.float32) for leaf in (policy.partition.beta, policy.skills.theta)
    )
    slopes = np.linalg.norm(beta[:, 1:], axis=-1, keepdims=True)
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
