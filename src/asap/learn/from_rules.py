"""The start of a training from given rules: no random search, no shuffling of skills.

They are made correctable by what is observed first. A rule may also be meant well and be backwards, or too weak: where no episode
ends well, no gradient tells. So a few episodes are played of the rules the other way round, and, where numbers are set, of
stronger ones. Learning starts from such an image only if each of its episodes does better than any of the rules as they are, and
the notes say so.
"""

import dataclasses
import itertools

import numpy as np

from asap.base.numbers import number
from asap.config.schema import Config
from asap.experience.protocol import Experience
from asap.learn.search import MARGIN, ROUNDING, Trials
from asap.learn.state import Start, drawn_policy
from asap.policy.policy import ASAPPolicy
from asap.policy.rules.from_policy import sample_states
from asap.policy.rules.given import Given, given_by
from asap.policy.rules.rulebook import Controls, Rulebook
from asap.policy.scaling import Moments, rescaled, shift_and_scale
from asap.policy.surgery import uniform

FIRST_EPISODES, FIRST_SHARE = 4, 0.05  # Of the rules, and as many of random play, before they are learned from.
IMAGE_EPISODES, IMAGE_SHARE = 4, 0.2  # Of each image, and of the budget for all of them.
MOST_FLIPS = 3  # Planes up to which every combination is turned; of more, each one and all.
GAINS = (-1.0, 4.0, -4.0)  # Of numbers to set.


def start_from_rules(config: Config, experience: Experience, seed: int) -> tuple[Start, list[str]]:
    """Where a seed begins, and what was done to the rules so that they can be learned from."""
    tasks, trials = experience.tasks, Trials(config, experience, seed)
    given = given_by(config, tasks.tasks)
    exact = given.policy()
    plays = config.offline.data is None  # From logged data, nothing is played to learn.
    count = plays and (_affordable(trials, 2, FIRST_EPISODES, FIRST_SHARE) or int(_longest(trials, 2) <= 1))
    seen = [trials.play([policy], count).observations for policy in (exact, uniform(exact)) if count]
    states = _first_states(experience, exact, [part for part in seen if part is not None])
    book, notes = given.correctable(given.book.vocabulary.values(states[0].T, states[1].T))
    kept = drawn_policy(config, tasks, seed).kept

    def policy_of(rules: Rulebook) -> ASAPPolicy:
        policy = given.grown(_with_usual_slopes(_scaled(rules, given, trials.start.moments)), states, seed)
        return dataclasses.replace(policy, kept=kept)

    if plays and config.run.try_images:
        book, found = _best_image(trials, book, policy_of)
        notes += found
    return trials.start._replace(policy=policy_of(book)), notes


def _best_image(trials: Trials, book: Rulebook, policy_of) -> tuple[Rulebook, list[str]]:
    """The rules as they are, unless another way is better beyond doubt."""
    images = _images(book)
    count = _affordable(trials, 1 + len(images), IMAGE_EPISODES, IMAGE_SHARE)
    if not images or not count:
        return book, []
    played = trials.play([policy_of(each) for each in (book, *(image for _, image in images))], count)
    returns = np.einsum("m,pmn->pn", trials.experience.tasks.shares, played.returns)
    best = 1 + int(returns[1:].mean(1).argmax())
    if returns[best].min() <= returns[0].max():
        return book, []
    words, image = images[best - 1]
    means = f"{number(returns[best].mean())} on average, as they are {number(returns[0].mean())}"
    return image, [f"the rules {words} return {means}: learning starts from these"]


def _images(book: Rulebook) -> list[tuple[str, Rulebook]]:
    """The rules with planes turned round, or with numbers to set multiplied; what is kept stays."""
    free = [k for k, test in enumerate(book.tests) if not test.keep]
    if len(free) <= MOST_FLIPS:
        sets = [chosen for size in range(1, len(free) + 1) for chosen in itertools.combinations(free, size)]
    else:
        sets = [*((k,) for k in free), tuple(free)]
    images = [
        ("the other way round" if len(book.tests) == 1 else f"with {_planes(each)} turned round", _turned(book, each))
        for each in sets
    ]
    bounds = book.vocabulary.action_bounds
    if bounds is None or any(skill.keep for skill in book.skills):
        return images
    for gain in GAINS:
        skills = tuple(_multiplied(skill, gain, bounds.shift.tolist()) for skill in book.skills)
        images.append((f"with actions times {gain:g}", book._replace(skills=skills)))
    return images


def _planes(chosen: tuple[int, ...]) -> str:
    return " and ".join(f"plane {k + 1}" for k in chosen)


def _turned(book: Rulebook, chosen: tuple[int, ...]) -> Rulebook:
    tests = [t._replace(value=t.value.scaled(-1.0)) if k in chosen else t for k, t in enumerate(book.tests)]
    return book._replace(tests=tuple(tests))


def _multiplied(skill: Controls, gain: float, middles: list[float]) -> Controls:
    means = [mean._replace(constant=mean.constant - m).scaled(gain) for mean, m in zip(skill.means, middles)]
    return skill._replace(means=tuple(v._replace(constant=v.constant + m) for v, m in zip(means, middles)))


def _longest(trials: Trials, num_policies: int) -> float:
    """The share of the budget that one episode of so many policies may take."""
    tasks = trials.experience.tasks
    episodes = num_policies * tasks.size
    return trials.share_of(episodes, episodes * tasks.spec.horizon)


def _affordable(trials: Trials, num_policies: int, most: int, share: float) -> int:
    return int(min(most, share / _longest(trials, num_policies) + ROUNDING))


def _scaled(book: Rulebook, given: Given, moments: Moments | None) -> ASAPPolicy:
    """On observations that are scaled by what was seen, where that is learned."""
    if moments is None or not float(moments.count):
        return book.policy(given.shape)
    if given.shape.scaling is None:
        return rescaled(book.policy(given.shape), moments)
    # Features that are not linear are scaled once, before the weights: later it would change the policy.
    return book.policy(given.shape._replace(scaling=shift_and_scale(moments)))


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
