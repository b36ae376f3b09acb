"""Symmetric images of a policy: what it would be where the world is mirrored or renumbered.

An image turns planes, renumbers skills, turns the signs of observations, and renumbers actions or turns the signs of
numbers to set. It is exact: in a world that is mirrored likewise, the image does what the policy does in its own.
Images are compositions of single changes. Those of few changes come first, because a new world is likely to differ in
few things.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from asap.base.spec import Spec
from asap.policy.features import Features, Fourier, Network, Polynomial
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import Moments

MOST = 512  # Images of a policy that are tried.
MOST_PRODUCTS = 64 * MOST  # Looked at, to find so many.


class Image(NamedTuple):
    """Signs are 1 or -1; of what is renumbered, the i-th new one is the old number that stands at place i."""

    planes: tuple[int, ...]  # Signs: a plane that is turned changes sides.
    skills: tuple[int, ...]  # Numbers.
    observations: tuple[int, ...]  # Signs.
    actions: tuple[int, ...]  # Numbers to choose from: their numbers. Numbers to set: their signs.

    def in_words(self, spec: Spec) -> str:
        parts = [f"plane {k + 1} turned" for k, sign in enumerate(self.planes) if sign < 0]
        parts += _renumbered(self.skills, [f"skill {s}" for s in range(len(self.skills))])
        parts += [
            f"the sign of {name} turned" for name, sign in zip(spec.observation_names, self.observations) if sign < 0
        ]
        if spec.continuous:
            parts += [f"the sign of {name} turned" for name, sign in zip(spec.action_names, self.actions) if sign < 0]
        else:
            parts += _renumbered(self.actions, list(spec.action_names))
        return ", ".join(parts) or "as it is"


def _renumbered(numbers: Sequence[int], names: list[str]) -> list[str]:
    """Swaps, and what is in no swap one by one."""
    moved = [(new, old) for new, old in enumerate(numbers) if new != old]
    swaps = [f"{names[a]} and {names[b]} swapped" for a, b in moved if a < b and numbers[b] == a]
    return swaps + [f"{names[a]} as {names[b]}" for a, b in moved if numbers[b] != a]


def image_of(policy: ASAPPolicy, image: Image) -> ASAPPolicy:
    partition, skills, own = policy.partition, policy.skills, np.float32
    theta, beta = np.asarray(skills.theta), np.asarray(partition.beta) * own(image.planes)[:, None]
    if any(sign < 0 for sign in image.observations):
        theta = theta * _weight_signs(policy.phi, image.observations, theta.shape[-1])
        beta = beta * _weight_signs(policy.psi, image.observations, beta.shape[-1])
    # Logits move with their actions; a mean changes its sign, and what it varies by stays.
    is_box = hasattr(skills, "log_std")
    theta = theta * own(image.actions)[:, None] if is_box else theta[:, np.asarray(image.actions, int)]
    skills = dataclasses.replace(skills, theta=theta).at(np.asarray(image.skills, int))
    return dataclasses.replace(
        policy,
        partition=dataclasses.replace(partition, beta=beta),
        skills=skills,
        psi=_mirrored(policy.psi, image.observations),
        phi=_mirrored(policy.phi, image.observations),
    )


def image_of_moments(moments: Moments, image: Image) -> Moments:
    """Of the observations in the mirrored world."""
    return moments._replace(mean=moments.mean * np.float32(image.observations))


def _mirrored(features: Features, signs: tuple[int, ...]) -> Features:
    """The map for observations of other signs, whose weights change by `_weight_signs`: (x - c) s for -x has -c."""
    own = np.float32(signs)[list(features.inputs)]
    if features.constant or (own > 0).all():
        return features
    shift, basis = np.where(own < 0, 0 - features.shift, features.shift), features.basis
    if isinstance(basis, Network):
        basis = dataclasses.replace(basis, weights=(basis.weights[0] * own, *basis.weights[1:]))
    return dataclasses.replace(features, shift=np.float32(shift), basis=basis)


def _weight_signs(features: Features, signs: tuple[int, ...], size: int) -> Float[np.ndarray, "F"]:
    """Of each weight: the features of -x are those of x, odd ones with the other sign."""
    if features.constant:
        return np.ones(size, np.float32)
    own = np.float32(signs)[list(features.inputs)]
    match features.basis:
        case Polynomial(degree=1):
            base = np.concatenate([[1], own])
        case Polynomial() as basis:
            base = np.asarray([np.prod(own[list(term)]) for term in basis.terms(len(own))])
        case Fourier() as basis:
            odd = np.where(np.asarray(basis.frequencies) != 0, own, 1).prod(-1)
            base = np.concatenate([[1], odd]) if basis.bias else odd
        case _:
            base = np.ones(size if features.task == "none" else 1 + len(features.basis.biases[-1]))
    if features.task == "interactions":  # A block of weights for each number of the descriptor, too.
        base = np.tile(base, size // len(base))
    return np.float32(np.concatenate([base, np.ones(size - len(base))]))


def _can_turn(features: Features, index: int) -> bool:
    """A wave over several observations, or with a phase, is no longer one of its own waves when one sign is turned."""
    if index not in features.inputs or not isinstance(features.basis, Fourier):
        return True
    frequencies = np.asarray(features.basis.frequencies)
    waves = frequencies[frequencies[:, features.inputs.index(index)] != 0]
    return features.basis.phases is None and bool(((waves != 0).sum(-1) <= 1).all())


def as_it_is(policy: ASAPPolicy, spec: Spec) -> Image:
    actions = (1,) * spec.num_actions if spec.continuous else tuple(range(spec.num_actions))
    planes, skills = (1,) * policy.partition.num_planes, tuple(range(policy.num_skills))
    return Image(planes, skills, (1,) * len(spec.observation_names), actions)


def plane_images(policy: ASAPPolicy, spec: Spec) -> list[Image]:
    """All patterns of signs of the planes; the first turns nothing."""
    count, same = policy.partition.num_planes, as_it_is(policy, spec)
    return [
        same._replace(planes=tuple(-1 if number >> k & 1 else 1 for k in range(count))) for number in range(2**count)
    ]


def single_changes(policy: ASAPPolicy, spec: Spec) -> list[Image]:
    """Two actions or one number to set, one observation, one plane, two skills: what is about the world comes first.

    What is kept is not changed. An observation that is never negative, such as a state by its number, has no sign to turn.
    """
    same, kept = as_it_is(policy, spec), policy.kept
    free = [s for s in same.skills if s not in kept.skills]
    changes = [] if kept.skills else _of_actions(same, spec)
    changes += [same._replace(observations=_turned(same.observations, index)) for index in _signed(policy, spec)]
    changes += [same._replace(planes=_turned(same.planes, k)) for k in range(len(same.planes)) if k not in kept.planes]
    return changes + [same._replace(skills=_swapped(same.skills, *pair)) for pair in itertools.combinations(free, 2)]


def _of_actions(same: Image, spec: Spec) -> list[Image]:
    if spec.continuous:
        return [same._replace(actions=_turned(same.actions, d)) for d in range(spec.num_actions)]
    pairs = itertools.combinations(range(spec.num_actions), 2)
    return [same._replace(actions=_swapped(same.actions, *pair)) for pair in pairs]


def _signed(policy: ASAPPolicy, spec: Spec) -> list[int]:
    """Observations that the policy sees and whose signs it can turn."""
    under_planes, under_skills = (
        set() if features.constant else set(features.inputs) for features in (policy.psi, policy.phi)
    )
    if spec.numbered or policy.kept.planes or (policy.kept.skills and under_skills):
        return []
    return [
        index
        for index in sorted(under_planes | under_skills)
        if spec.observation_low[index] < 0 and _can_turn(policy.psi, index) and _can_turn(policy.phi, index)
    ]


def _turned(signs: tuple[int, ...], index: int) -> tuple[int, ...]:
    return (*signs[:index], -signs[index], *signs[index + 1 :])


def _swapped(numbers: tuple[int, ...], i: int, j: int) -> tuple[int, ...]:
    new = list(numbers)
    new[i], new[j] = new[j], new[i]
    return tuple(new)


def composed(first: Image, second: Image) -> Image:
    """The second, of what the first has made. Actions and planes with signs multiply, numbers are looked up."""

    def signs(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(x * y for x, y in zip(a, b))

    is_box = 0 not in first.actions
    actions = signs(first.actions, second.actions) if is_box else tuple(first.actions[a] for a in second.actions)
    skills = tuple(first.skills[s] for s in second.skills)
    observations = signs(first.observations, second.observations)
    return Image(signs(first.planes, second.planes), skills, observations, actions)


def images(policy: ASAPPolicy, spec: Spec, generator: np.random.Generator, most: int = MOST) -> list[Image]:
    """All different images, those of few changes first; where there are more than `most`, the last are a sample."""
    changes = single_changes(policy, spec)
    start, of_region = as_it_is(policy, spec), policy.partition.skill_of_region.tolist()
    found, last = {_acts(of_region, start): start}, [start]
    while last and len(found) < most:
        # Products of so many changes as the last ones and one more, which act like none before.
        new: dict[tuple, Image] = {}
        for image in _products(last, changes, generator):
            key = _acts(of_region, image)
            if key not in found:
                new.setdefault(key, image)
        keys, room = list(new), most - len(found)
        if len(keys) > room:
            keys = [keys[i] for i in np.sort(generator.permutation(len(keys))[:room])]
        found |= {key: new[key] for key in keys}
        last = [new[key] for key in keys]
    return list(found.values())


def _products(last: list[Image], changes: list[Image], generator: np.random.Generator) -> Iterator[Image]:
    """Of each with each; of very many observations some that are drawn."""
    count = len(last) * len(changes)
    numbers = range(count) if count <= MOST_PRODUCTS else np.sort(generator.permutation(count)[:MOST_PRODUCTS])
    for number in numbers:
        yield composed(last[number // len(changes)], changes[number % len(changes)])


def _acts(of_region: list[int], image: Image) -> tuple:
    """What the image does: which old skill is in force in each old region, and what is seen and done."""
    turned = sum(1 << k for k, sign in enumerate(image.planes) if sign < 0)
    in_force = tuple(image.skills[of_region[region ^ turned]] for region in range(len(of_region)))
    return in_force, image.observations, image.actions
