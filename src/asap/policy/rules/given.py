"""Rules that a person gives as the start of learning: loaded as they are, and made correctable.

What is certain can't be learned from: an action with 100 % is never tried against another, and a sharp plane has no
gradient. So probabilities are lowered to 95 % and planes softened to a tenth of what their sum varies by, unless they are
marked [keep]; the notes say which.
"""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from asap.base.errors import UserError
from asap.base.files import BadFile, read_regular
from asap.base.numbers import counted
from asap.base.spec import Task
from asap.config.schema import Config, PolicyConfig
from asap.policy.features import Polynomial
from asap.policy.policy import ASAPPolicy
from asap.policy.rules.names import NO_LIMITS, Limits
from asap.policy.rules.read import Rules, read_rules
from asap.policy.rules.rulebook import Choice, Controls, Either, Rulebook, Scores, Shape, Skill, Test, Vocabulary
from asap.policy.rules.source import LONGEST_TEXT
from asap.policy.rules.write import comparison, does
from asap.policy.surgery import grow

SUREST = 0.95
SHARPEST = 0.1  # Of the deviation of a sum from state to state: what is sharper is softened,
SOFTENED = 1.0  # to this. With a tenth a wrong plane turned too slowly (docs/rules.md).
SPREAD = 0.3  # Of an action's range: the deviation of a Gaussian skill that is given none.
TYPICAL_LEAD = 3.0  # Of the largest score over the next, on average.
NO_RULE = "\n"  # An empty text is refused as one without a rule; as a setting it would mean that none are given.
NEW_SLOPES = 0.5  # Typical margin of a plane that is added to the given ones.


class Given(NamedTuple):
    """Rules for tasks of one family, with the shape of the policy that learns from them."""

    rules: Rules
    shape: Shape
    extra: int  # Planes beyond those of the rules.

    @property
    def book(self) -> Rulebook:
        return self.rules.book

    def policy(self) -> ASAPPolicy:
        """As they are given. Planes beyond theirs change nothing."""
        policy = self.book.policy(self.shape)
        for _ in range(self.extra):
            policy = grow(policy, np.zeros(policy.partition.beta.shape[-1], np.float32))
        return policy

    def correctable(self, values: Float[np.ndarray, "V N"]) -> tuple[Rulebook, list[str]]:
        """The same, so that learning can change them, and what was changed for that; `values` are of states seen first."""
        tests, skills, notes = [], [], []
        for test in self.book.tests:
            tests.append(_softened(test, values))
            if tests[-1] != test:
                notes.append(f"softened to learn from: {comparison(tests[-1], self.book.vocabulary)}")
        for skill in self.book.skills:
            skills.append(_undecided(skill, values, self.book))
            if skills[-1] != skill:
                said = does(skills[-1], self.book.vocabulary)
                notes.append(f"made less sure to learn from: {said[0] or said[1]}")
        return self.book._replace(tests=tuple(tests), skills=tuple(skills)), notes

    def grown(
        self, policy: ASAPPolicy, states: tuple[Float[np.ndarray, "O N"], Float[np.ndarray, "Z N"]], seed: int
    ) -> ASAPPolicy:
        """With planes beyond those of the rules: across the states, in random directions, with equal skills on both
        sides."""
        generator = np.random.default_rng(seed)
        for _ in range(self.extra):
            psi = np.asarray(policy.psi(*states), float)
            weights = generator.standard_normal(len(psi)) / np.where(psi.std(1) > 0, psi.std(1), np.inf)
            if policy.psi.basis.has_bias:
                weights[0] = -(weights @ psi).mean()
            size = NEW_SLOPES / max((weights @ psi).std(), 1e-9) / float(policy.partition.alpha_beta)
            policy = grow(policy, np.float32(size * weights))
        return policy


def given_rules(config: PolicyConfig, tasks: tuple[Task, ...], name: str = "rules") -> Given:
    """The rules of a config, for its tasks."""
    first = tasks[0]
    vocabulary = Vocabulary.of(first.spec, len(first.descriptor))
    rules = read_rules(config.rules, vocabulary, name)
    names = first.spec.observation_names
    inputs = tuple(names.index(each) for each in (config.inputs or first.inputs))
    degree = config.degree if config.basis == "polynomial" else 1
    shape = Shape(inputs, degree, config.skills == "linear", config.alpha_beta, config.alpha_theta)
    rules = rules._replace(book=_marked(rules.book, config.keep)._replace(termination=config.termination))
    policy = rules.book.policy(shape)
    is_linear = all(isinstance(f.basis, Polynomial) and f.basis.degree <= 1 for f in (policy.psi, policy.phi))
    if first.is_scaled and not is_linear:
        shape = shape._replace(scaling=(np.zeros(len(names)), np.ones(len(names))), is_fixed=True)
    extra = config.hyperplanes - policy.partition.num_planes
    if extra < 0:
        what = f"the rules have {counted(policy.partition.num_planes, 'test')}"
        raise UserError("policy.hyperplanes", what, config.hyperplanes, "leave it out, or give as many")
    return Given(rules, shape, extra)


def given_by(config: Config, tasks: tuple[Task, ...]) -> Given:
    """The rules that a training keeps to. One that goes on from another run freezes what it finds there, which is no longer
    what the text says."""
    policy = config.policy if config.run.source is None else dataclasses.replace(config.policy, keep=None)
    return given_rules(policy, tasks)


def _marked(book: Rulebook, keep: str | None) -> Rulebook:
    """As if the text had [keep] behind all that is frozen."""
    if keep == "partition":
        return book._replace(tests=tuple(test._replace(keep=True) for test in book.tests))
    if keep == "skills":
        return book._replace(skills=tuple(skill._replace(keep=True) for skill in book.skills))
    return book


class Asked(NamedTuple):
    """What the user has asked for beside the rules; None: nothing."""

    planes: int | None = None
    skills: str | None = None
    basis: str | None = None


def settings_of_rules(
    config: PolicyConfig, tasks: tuple[Task, ...], name: str, asked: Asked = Asked(), is_free: bool = False
) -> dict[str, object]:
    """What the rules of a config say about its policy, as settings: so its size is known before it is made.

    Where features are free, they follow from the text; else the text may use no others than the config has.
    """
    vocabulary = Vocabulary.of(tasks[0].spec, len(tasks[0].descriptor))
    limits = NO_LIMITS if is_free else _limits(config, tasks[0])
    book = read_rules(config.rules, vocabulary, name, limits).book
    policy, count = book.policy(), len(book.tests)
    if asked.planes is not None and asked.planes < count:
        what = f"the rules have {counted(count, 'different test')}"
        raise UserError("policy.hyperplanes", what, asked.planes, "leave it out, or give as many")
    if asked.skills == "network":
        raise UserError("policy.skills", "rules are no network", asked.skills, "leave it out, or use linear")
    for _ in range((asked.planes or count) - count):
        policy = grow(policy, np.zeros(policy.partition.beta.shape[-1], np.float32))
    is_linear = not policy.phi.constant or asked.skills == "linear"
    skills = "linear" if is_linear else "gaussian" if vocabulary.action_bounds is not None else "constant"
    bases = policy.psi.basis, policy.phi.basis
    has_waves = not all(isinstance(basis, Polynomial) for basis in bases)
    if asked.basis == "network" or (asked.basis == "fourier" and not has_waves):
        what = "rules are no network" if asked.basis == "network" else "the rules have no waves"
        raise UserError("policy.basis", what, asked.basis, "leave it out, or use poly2")
    settings: dict[str, object] = {
        "policy.hyperplanes": policy.partition.num_planes,
        "policy.region_skills": policy.partition.region_skills or (),
        "policy.skills": skills,
        "policy.start": "random",
        "run.candidates": 0,
    }
    if has_waves:
        return settings | {"policy.basis": "fourier"}
    degree = max(*(basis.degree for basis in bases), config.degree if config.basis == "polynomial" else 1)
    if degree == 1:
        return settings | {"policy.basis": "linear"}
    return settings | {"policy.basis": "polynomial", "policy.degree": degree}


def _limits(config: PolicyConfig, task: Task) -> Limits:
    """The terms that the features have."""
    basis = config.basis or task.basis
    return Limits(config.degree if basis == "polynomial" else 1, basis == "fourier")


def _softened(test: Test, values: Float[np.ndarray, "V N"]) -> Test:
    spread = float(test.value.at(values).std())
    if test.keep or not spread or (test.within is not None and test.within >= SHARPEST * spread):
        return test
    return test._replace(within=float(f"{SOFTENED * spread:.2g}"))


def _undecided(skill: Skill, values: Float[np.ndarray, "V N"], book: Rulebook) -> Skill:
    if skill.keep:
        return skill
    match skill:
        case Choice():
            chances = skill.probabilities(len(book.vocabulary.actions))
            if chances.max() <= SUREST or len(chances) == 1:
                return skill
            top, rest = int(chances.argmax()), 1 - chances.max()
            others = np.full(len(chances), 1 / (len(chances) - 1)) if rest <= 0 else chances / rest
            lowered = (1 - SUREST) * others
            lowered[top] = SUREST
            order = np.argsort(-lowered, kind="stable")
            return Choice(((top, SUREST),)) if rest <= 0 else Choice(tuple((int(a), float(lowered[a])) for a in order))
        case Either(_, _, test):
            return skill._replace(test=_softened(test, values))
        case Scores(sums):
            scores = np.sort([value.at(values) for value in sums], axis=0)
            lead = float((scores[-1] - scores[-2]).mean())
            return skill if lead <= TYPICAL_LEAD else Scores(tuple(v.scaled(TYPICAL_LEAD / lead) for v in sums))
        case Controls(means, deviations):
            usual = (SPREAD * book.vocabulary.action_bounds.scale).tolist()
            return Controls(means, tuple(own if d is None else d for d, own in zip(deviations, usual)))


def read_text(source: object) -> tuple[str, str]:
    """Rules as they are given, a text or the path of a file, and a name for messages."""
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source and _is_path(source)):
        return read_file(source), str(source)
    if not isinstance(source, str):
        what = "must be a text, or the path of a file"
        raise UserError("rules", what, type(source).__name__, "give text, or pathlib.Path(FILE)")
    return source or NO_RULE, "rules"


def _is_path(text: str) -> bool:
    """One line is a path if there is a file, or if it looks like no rule."""
    try:
        has_words = bool(set(text.split()) & {"if", "then", "otherwise", "in"} or set(text) & set("=%"))
        return Path(text).is_file() or not has_words
    except (OSError, ValueError):
        return False


def read_file(path: str | Path) -> str:
    """The text of a file of rules."""
    try:
        data = read_regular(Path(path).resolve(), 4 * LONGEST_TEXT)
    except (BadFile, OSError, ValueError) as error:
        raise UserError("rules", str(error), path, "give a file of rules") from None
    try:
        return data.decode("utf-8-sig") or NO_RULE
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UserError("rules", f"line {line} is not UTF-8 text", path, "save the file as UTF-8") from None
