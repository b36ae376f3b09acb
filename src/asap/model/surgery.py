"""Planes turned or added, and skills merged, in the policy of a model: by hand, or the best of all by a few episodes.

What is to be done may be said. Else every choice plays the same few episodes, and the best is taken. The best of many
looks better than it is, so what is told of it comes from fresh episodes, beside the policy as it was.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from asap.base.arrays import stack
from asap.base.episodes import require_episodes, require_seed
from asap.base.errors import UserError
from asap.base.keys import host_generator
from asap.base.numbers import counted, number
from asap.base.stats import mean_interval
from asap.config.settings import override, with_values
from asap.experience.protocol import OnProgress, ignore_progress
from asap.learn.search import LOGIT, MARGIN
from asap.model.pruning import as_large, merging_offers, model_of
from asap.policy.build import build_policy
from asap.policy.features import Polynomial
from asap.policy.policy import ASAPPolicy
from asap.policy.rules.from_policy import sample_states
from asap.policy.rules.read import read_rules
from asap.policy.rules.rulebook import Shape, Vocabulary
from asap.policy.skills import GaussianSkills
from asap.policy.surgery import flip, grow

if TYPE_CHECKING:
    from asap.model.model import ASAP

MOST_OFFERS = 64  # New planes that are tried.
LEAN = 0.5  # Of a mean on the far side of a new plane, in units of the range.
_OFFERS = 10  # Id of the stream that a sample of planes is drawn from.


class Operation(NamedTuple):
    """One thing that can be done."""

    words: str
    policy: ASAPPolicy


class Operated(NamedTuple):
    """The changed model, and what it cost or gained on fresh episodes."""

    model: "ASAP"
    words: str
    tried: int
    before: np.ndarray
    after: np.ndarray
    played: int  # Episodes in all.

    def as_dict(self) -> dict[str, Any]:
        partition, gained = self.model.policy.partition, self.after - self.before
        sizes = {"planes": partition.num_planes, "skills": partition.num_skills, "tried": self.tried}
        returns = {"return_before": float(self.before.mean()), "return": float(self.after.mean())}
        gain = {"gained": float(gained.mean()), "gained_ci": mean_interval(gained)}
        return {"done": self.words, **sizes, **returns, **gain, "episodes_played": self.played}

    def in_words(self) -> str:
        best = "" if self.tried < 2 else f" (the best of {self.tried})"
        returns = f"return {number(float(self.before.mean()))} before, {number(float(self.after.mean()))} after"
        partition = self.model.policy.partition
        size = f"{counted(partition.num_planes, 'plane')}, {counted(partition.num_skills, 'skill')}"
        return f"{self.words}{best}\n{returns}, over {counted(len(self.after), 'fresh episode')}\nnow: {size}"


class _Table:
    """Plays choices on the same episodes, and counts them."""

    def __init__(self, model: "ASAP", episodes: int, seed: int, on_progress: OnProgress):
        self.model, self.on_progress = model, on_progress
        self.episodes, self.seed = require_episodes("episodes", episodes), require_seed("seed", seed)
        self.played = 0

    def returns(self, policies: Sequence[ASAPPolicy], look: int) -> tuple[np.ndarray, np.ndarray | None]:
        """(policies, episodes), and what was observed."""
        size = max(policy.partition.num_planes for policy in policies)
        shaped = [as_large(policy, size) for policy in policies]
        shapes_differ = self.model.policy.termination is not None
        groups = [[policy] for policy in shaped] if shapes_differ else [shaped]
        found = [self.model.play(stack(group), self.episodes, [self.seed + look] * len(group)) for group in groups]
        self.played += len(policies)
        self.on_progress(self.played)
        returns = np.concatenate([each.returns for each in found])
        return np.einsum("m,pmn->pn", self.model.tasks.shares, returns), found[0].observations

    def best(self, choices: Sequence[Operation]) -> Operation:
        if len(choices) == 1:
            return choices[0]
        return choices[int(self.returns([choice.policy for choice in choices], 0)[0].mean(1).argmax())]

    def done(self, choice: Operation, tried: int) -> Operated:
        before, after = self.returns([self.model.policy, choice.policy], 1)[0]
        count = self.played * self.episodes * self.model.tasks.size
        return Operated(_model_of(self.model, choice.policy), choice.words, tried, before, after, count)


def _model_of(model: "ASAP", policy: ASAPPolicy) -> "ASAP":
    """Of rules, by settings that make a policy of this shape: a text would say nothing of a plane with equal sides."""
    if not model.config.policy.rules:
        return model_of(model, policy)
    psi, names = policy.psi, model.tasks.spec.observation_names
    skills = "linear" if not policy.phi.constant else "gaussian" if model.tasks.spec.continuous else "constant"
    shape = {"policy.rules": "", "policy.skills": skills, "policy.task_features": psi.task, "policy.start": "random"}
    shape |= {"policy.basis": "polynomial", "policy.degree": getattr(psi.basis, "degree", 1)}
    shape |= {"policy.inputs": tuple(names[index] for index in psi.inputs), "policy.region_skills": ()}
    plain = with_values(model.config, {**shape, "policy.hyperplanes": policy.partition.num_planes})
    plain = override(plain, {"policy.region_skills": policy.partition.region_skills or ()})
    drawn = build_policy(plain.policy, model.tasks.tasks, np.random.default_rng(0))
    if jax.tree.structure(drawn) == jax.tree.structure(policy):
        return model_of(type(model).of(plain, model.tasks, stack([policy]), model.num_episodes), policy)
    made = model_of(model, policy)
    if made.policy.partition.num_planes != policy.partition.num_planes:
        what = "this policy comes from rules with waves or [keep], whose text cannot say that"
        raise UserError("policy.rules", what, "", "change the rules themselves: asap explain RUN --rules")
    return made


def flip_planes(
    model: "ASAP",
    planes: Sequence[int],
    episodes: int,
    seed: int,
    on_progress: OnProgress = ignore_progress,
) -> Operated:
    """These planes (from 1) change sides together; none named: the one whose turn is best."""
    policy, table = model.policy, _Table(model, episodes, seed, on_progress)
    count, kept = policy.partition.num_planes, policy.kept.planes
    _require_numbers("plane", planes, range(1, count + 1))
    if not count:
        raise UserError("plane", "there is none to turn", "0 planes", "add one by `asap grow`")
    held = [plane for plane in planes if plane - 1 in kept]
    if held or (not planes and len(kept) == count):
        what = f"plane {held[0]} is kept" if held else "all planes are kept"
        raise UserError("plane", what, "[keep]", "take [keep] from the rules")
    sets = [tuple(planes)] if planes else [(k,) for k in range(1, count + 1) if k - 1 not in kept]

    def turned(chosen: tuple[int, ...]) -> Operation:
        signs = np.float32([-1 if k + 1 in chosen else 1 for k in range(count)])
        return Operation(" and ".join(f"plane {k} turned" for k in chosen), flip(policy, signs))

    choices = [turned(chosen) for chosen in sets]
    return table.done(table.best(choices), len(choices))


def merge(
    model: "ASAP",
    skills: Sequence[int],
    episodes: int,
    seed: int,
    on_progress: OnProgress = ignore_progress,
) -> Operated:
    """Two skills (from 0, as `explain` numbers them) become one, fitted to what both did; none named: the best two."""
    policy, table = model.policy, _Table(model, episodes, seed, on_progress)
    _require_numbers("skills", skills, range(policy.num_skills))
    if skills and len(set(skills)) != 2:
        raise UserError("skills", "must be two different ones", list(skills), "give two, say --skill 0 --skill 1")
    if held := [skill for skill in skills if skill in policy.kept.skills]:
        raise UserError("skills", f"skill {held[0]} is kept", "[keep]", "take [keep] from the rules")
    pair = tuple(sorted(skills)) or None
    choices = [Operation(*offer[:2]) for offer in merging_offers(model, table.returns([policy], 0)[1], pair)]
    if not choices:
        raise UserError("skills", "there are no two to merge", f"{policy.num_skills} skills", "use `asap prune`")
    return table.done(table.best(choices), len(choices))


def grow_plane(
    model: "ASAP", where: str | None, episodes: int, seed: int, on_progress: OnProgress = ignore_progress
) -> Operated:
    """One more plane. `where` is a test in the language of rules: both sides have the same skills, until learning parts them.

    Without it, planes through the middle of each observation are tried, with skills that lean to an action on the far side.
    Where none is better than the policy as it is, the best plane has the same skills on both sides.
    """
    policy, table = model.policy, _Table(model, episodes, seed, on_progress)
    if not isinstance(policy.psi.basis, Polynomial) or policy.psi.constant:
        what = "a plane can be added where features are linear or products"
        raise UserError("policy.basis", what, type(policy.psi.basis).__name__, "learn anew with one plane more")
    states = sample_states(policy, model.tasks.tasks[0], table.returns([policy], 0)[1])
    if where is not None:
        return table.done(Operation(f"plane at {where}", grow(policy, _plane_of(model, where, states))), 1)
    planes = _planes(model, states)
    offers = [
        (Operation(f"plane at {words}, {leaning}", leans), Operation(f"plane at {words}, with equal skills", grown))
        for words, beta in planes
        for grown in (grow(policy, beta),)
        for leaning, leans in _leaning(grown, model)
    ]
    if not offers:  # All skills are kept.
        return table.done(Operation(f"plane at {planes[0][0]}, with equal skills", grow(policy, planes[0][1])), 1)
    if len(offers) > MOST_OFFERS:
        chosen = np.sort(host_generator(seed, _OFFERS).permutation(len(offers))[:MOST_OFFERS])
        offers = [offers[i] for i in chosen]
    best = table.best([leans for leans, _ in offers])
    found = table.done(best, len(offers))
    if (found.after - found.before).mean() > 0:
        return found
    equal = next(equal for leans, equal in offers if leans is best)
    return table.done(equal, len(offers))


def _planes(model: "ASAP", states: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Through the middle of each observation that the planes see, both ways round."""
    psi, spec, found = model.policy.psi, model.tasks.spec, []
    for place, index in enumerate(psi.inputs):
        middle = float(np.median(states[:, index]))
        if np.ptp(states[:, index]) <= 1e-9 * abs(middle):
            continue  # It has one value.
        beta = np.zeros(model.policy.partition.beta.shape[-1], np.float32)
        beta[0] = -(middle - psi.shift[place]) * psi.scale[place]
        beta[1 + place] = 1
        read = spec.units[index].read(middle) if spec.units else middle
        name = spec.observation_names[index]
        beta = _usual(model.policy, beta, states)
        found += [(f"{name} > {number(read)}", beta), (f"{name} < {number(read)}", -beta)]
    if not found:
        raise UserError("plane", "no observation varies", spec.observation_names[0], "say where by --where")
    return found


def _usual(policy: ASAPPolicy, beta: np.ndarray, states: np.ndarray) -> np.ndarray:
    """As sharp as planes that are drawn at a start."""
    m = np.zeros((_descriptor_size(policy, len(beta)), len(states)), np.float32)
    margins = float(policy.partition.alpha_beta) * beta @ np.asarray(policy.psi(np.float32(states).T, m))
    spread = float(np.std(margins))
    return np.float32(beta * (MARGIN / spread if spread > 1e-6 else 1.0))


def _descriptor_size(policy: ASAPPolicy, size: int) -> int:
    """The numbers of m, by the size of beta."""
    base = len(policy.psi.basis.names(tuple("x" for _ in policy.psi.inputs)))
    return {"none": 0, "additive": size - base, "interactions": size // base - 1}[policy.psi.task]


def _plane_of(model: "ASAP", where: str, states: np.ndarray) -> np.ndarray:
    """beta of a test, on the policy's own features."""
    policy, task = model.policy, model.tasks.tasks[0]
    spec, psi = task.spec, policy.psi
    names = spec.action_names
    sides = names[:1] + names[-1:]
    if spec.continuous:
        sides = tuple(", ".join(f"{name} = {value}" for name in names) for value in (0, 1))
    if len(where.splitlines()) != 1:
        raise UserError("--where", "must be one test", repr(where), "write for example 'NAME > 0'")
    try:
        rules = read_rules(f"if {where} then {sides[0]}\notherwise {sides[1]}", Vocabulary.of(spec, 0), "--where")
    except UserError as error:  # It shows the place in a text that nobody has written.
        raise UserError("--where", str(error).splitlines()[0].partition(": ")[2], repr(where)) from None
    scaling = np.zeros(len(spec.observation_names)), np.ones(len(spec.observation_names))
    for part, own in zip(scaling, (psi.shift, psi.scale)):
        part[list(psi.inputs)] = own
    read = rules.book.policy(Shape(psi.inputs, psi.basis.degree, scaling=scaling))
    beta = np.zeros(policy.partition.beta.shape[-1], np.float32)
    if len(read.partition.beta) != 1 or read.psi.inputs != psi.inputs or read.psi.basis.degree != psi.basis.degree:
        cure = f"write one test of {', '.join(spec.observation_names[j] for j in psi.inputs)[:200]}"
        raise UserError("--where", "is no plane over the policy's features", repr(where), cure)
    beta[: read.partition.beta.shape[-1]] = read.partition.beta[0]
    return _usual(policy, beta, states)


def _leaning(grown: ASAPPolicy, model: "ASAP") -> list[tuple[str, ASAPPolicy]]:
    """The policy whose skills on the far side of its last plane lean to one action, or set one number higher or lower."""
    skills, spec = grown.skills, model.tasks.spec
    far = np.arange(grown.num_skills // 2, grown.num_skills)
    free = np.setdiff1d(far, grown.kept.skills)
    if not len(free):
        return []
    is_box, found = isinstance(skills, GaussianSkills), []
    amounts = (LEAN, -LEAN) if is_box else (LOGIT / float(skills.alpha_theta),)
    for action, amount in itertools.product(range(spec.num_actions), amounts):
        theta = np.array(skills.theta)
        theta[free, action, 0] += amount
        verb = "leans to" if not is_box else "sets more" if amount > 0 else "sets less"
        words = f"beyond it the policy {verb} {spec.action_names[action]}"
        found.append((words, dataclasses.replace(grown, skills=dataclasses.replace(skills, theta=np.float32(theta)))))
    return found


def _require_numbers(field: str, chosen: Sequence[int], known: range) -> None:
    for one in chosen:
        if one not in known:
            cure = f"choose from {known[0]} to {known[-1]}" if known else "there is none"
            raise UserError(field, "there is no such one", one, cure)
