"""The policy on the host, in NumPy, one observation at a time.

A Gymnasium environment is played step by step on the host. There a compiled function costs more to call than to compute,
and a worker that need not import JAX starts in a fraction of a second. So the formulas of `asap.policy` and
`asap.policy.features` stand here once more, with what does not change within an episode multiplied out beforehand, the
task's descriptor included; a test holds both to the same probabilities. A choice is one comparison with random numbers
of the right form:

    side of plane k:    margin_k > logistic noise
    action of a Gibbs skill:    argmax_a (logit_a + Gumbel noise)
    action of a Gaussian skill:    mean + deviation * normal noise
    action of a uniform skill:    noise from -1 to 1
"""

import itertools
import threading
from collections.abc import Callable
from operator import add
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from asap.base.episodes import EpisodeId
from asap.base.spec import Drawn, descriptor_in

BLOCK = 128  # Steps of an episode whose random numbers are drawn at once.
FEW = 64  # Products of a linear map up to which numbers of Python are faster than NumPy.
NO_SKILL = -1
_TINY = np.finfo(float).tiny
_NEVER = np.ones(BLOCK)  # Draws with which no skill is kept.
_ONE_TASK = np.zeros((1, 0))
_DRAWING = threading.Lock()  # Of all players: they may share a generator too, and a player can be copied.

# What is added to the scores of a skill, by its kind.
_NOISE: dict[str, Callable[..., Float[np.ndarray, "*n A"]]] = {
    "gibbs": lambda generator, shape: generator.gumbel(size=shape),
    "gaussian": lambda generator, shape: generator.standard_normal(shape),
    "uniform": lambda generator, shape: generator.uniform(-1, 1, shape),
}

Feature = Callable[[Float[np.ndarray, "O"]], Float[np.ndarray, "F"]]
Choice = tuple[int, int | Float[np.ndarray, "A"]]  # Skill and action.
Rows = list[tuple[float, list[float]]]  # Bias and slopes, row by row.


class Plan(NamedTuple):
    """A policy for a player: what is fixed about it, as JSON has it, and its numbers.

    Among these, `descriptors` (M, Z) has m of every task. Without it there is one task, which has none. Where episodes
    draw numbers of m, `drawn` in the fixed part has the fields of `Drawn` for each number of each task.
    """

    static: dict[str, Any]
    arrays: dict[str, np.ndarray]


class Linear(NamedTuple):
    """slopes @ x + bias."""

    slopes: Float[np.ndarray, "R O"]  # No columns where it is constant.
    bias: Float[np.ndarray, "R"]

    def __call__(self, x: Float[np.ndarray, "O"]) -> Float[np.ndarray, "R"]:
        return self.slopes.dot(x) + self.bias if self.slopes.size else self.bias

    @property
    def rows(self) -> Rows:
        return list(zip(self.bias.tolist(), self.slopes.tolist(), strict=True))


class FewNumbers(NamedTuple):
    """A policy that is linear in a few numbers, for plain floats of Python: for so few, a call of NumPy costs more than
    the sum. Products are added in the order of the inputs, as `asap.policy.lanes` adds them: that gives the same bits."""

    planes: Rows
    skills: list[Rows]

    @classmethod
    def of(cls, margins: Feature, scores: list[Feature]) -> "FewNumbers | None":
        maps = (margins, *scores)
        if not all(isinstance(each, Linear) and each.slopes.size <= FEW for each in maps):
            return None
        return cls(margins.rows, [each.rows for each in scores])


class TaskPolicy(NamedTuple):
    """The policy on one task, as functions of the state alone."""

    margins: Feature
    scores: list[Feature]  # Logits or means of every skill.
    few: FewNumbers | None = None  # The same, where it is so simple.


class Player:
    """Chooses skill and action.

    `choose` goes through an episode, from its `begin` on, and belongs to one thread. `act` is one choice by itself: all
    that it depends on is an argument, so any number of threads may share a player.
    """

    def __init__(self, plan: Plan):
        self._static, arrays = plan
        self._arrays = {name: np.asarray(values, float) for name, values in arrays.items()}
        self._descriptors = self._arrays.get("descriptors", _ONE_TASK)
        self._planes = self._arrays["alpha_beta"] * self._arrays["beta"]
        self.num_planes = len(self._planes)
        self.bits = 1 << np.arange(self.num_planes)
        self._no_sides = [0.0] * self.num_planes
        shared = self._static.get("region_skills")
        self.shared = None if shared is None else np.asarray(shared)  # The skill of each region, where some share one.
        kind, theta = self._static["skills"], self._arrays["theta"]
        self._theta = self._arrays["alpha_theta"] * theta if kind == "gibbs" else theta
        self._noise = _NOISE[kind]
        self.num_scores = theta.shape[1]
        self.deviations: Float[np.ndarray, "S A"] | None = None  # Of actions that are vectors.
        if kind != "gibbs":
            self.deviations = np.exp(self._arrays["log_std"]) if kind == "gaussian" else np.ones(theta.shape[:2])
        self.termination: float | None = self._static["termination"]
        self._policies: dict[int, TaskPolicy] = {}
        self._drawn_numbers = [[Drawn(*each) for each in task] for task in self._static.get("drawn", ())]

    def begin(
        self, generator: np.random.Generator, deterministic: bool, task: int = 0, episode: EpisodeId | None = None
    ) -> None:
        """An episode of a task, by its index among the plan's descriptors; its id draws what varies by the episode."""
        self.generator, self.deterministic = generator, deterministic
        self.previous, self.place = NO_SKILL, BLOCK
        drawn = self._drawn_numbers[task] if episode is not None and self._drawn_numbers else ()
        if drawn:
            m = descriptor_in(episode, self._descriptors[task].tolist(), drawn).astype(float)
            self._policy = self._policy_at(m)
        else:
            self._policy = self.policy_of(task)

    def choose(self, x: Float[np.ndarray, "O"]) -> Choice:
        """The next choice of the episode."""
        policy, now = self._policy, self.place
        if self.deterministic:
            skill, action = self._likeliest(policy, x, self.previous)
        else:
            if now == BLOCK:
                self._draw()
                now = 0
            self.place = now + 1
            if policy.few is None:
                skill, action = self._drawn(policy, x, self.previous, self.sides[now], self.noise[now], self.stays[now])
            else:
                skill, action = self._chosen_of_few(policy.few, x, self.sides[now], self.noise[now])
        self.previous = skill
        return skill, action

    def act(
        self,
        x: Float[np.ndarray, "O"],
        previous: int = NO_SKILL,
        deterministic: bool = True,
        generator: np.random.Generator | None = None,
        task: int = 0,
    ) -> Choice:
        """One choice: the likeliest, or one that is drawn with the generator."""
        policy = self._policies.get(task) or self.policy_of(task)
        if deterministic:
            return self._likeliest(policy, x, previous)
        with _DRAWING:
            sides = generator.logistic(size=self.num_planes)
            noise = self._noise(generator, self.num_scores)
            stay = 1.0 if self.termination is None else generator.random()
        if policy.few is not None:
            return self._chosen_of_few(policy.few, x, sides.tolist(), noise.tolist())
        return self._drawn(policy, x, previous, sides, noise, stay)

    def policy_of(self, task: int) -> TaskPolicy:
        """Threads that come here together all find the same, so it does not matter whose is kept."""
        if task not in self._policies:
            self._policies[task] = self._policy_at(self._descriptors[task])
        return self._policies[task]

    def _policy_at(self, m: Float[np.ndarray, "Z"]) -> TaskPolicy:
        static, arrays = self._static, self._arrays
        margins = scores_of(self._planes, m, static["psi"], _part(arrays, "psi"))
        scores = [scores_of(skill, m, static["phi"], _part(arrays, "phi")) for skill in self._theta]
        few = FewNumbers.of(margins, scores) if self.termination is None else None
        return TaskPolicy(margins, scores, few)

    def draws(self, generator: np.random.Generator) -> tuple[Float[np.ndarray, "T K"], Float[np.ndarray, "T A"]]:
        """The next BLOCK steps' random numbers of an episode: sides of the planes, noise of the scores."""
        uniform = generator.random((BLOCK, self.num_planes))
        return np.log(np.maximum(uniform, _TINY)) - np.log1p(-uniform), self._noise(generator, (BLOCK, self.num_scores))

    def _chosen_of_few(
        self, policy: FewNumbers, x: Float[np.ndarray, "O"], sides: list[float], noise: list[float] | None
    ) -> Choice:
        """`_drawn` without NumPy; without noise, `_likeliest`."""
        numbers, region, bit = x.tolist(), 0, 1
        for (margin, slopes), side in zip(policy.planes, sides):
            for slope, number in zip(slopes, numbers):
                margin += slope * number
            if margin > side:
                region += bit
            bit += bit
        skill = region if self.shared is None else int(self.shared[region])
        scores = []
        for score, slopes in policy.skills[skill]:
            for slope, number in zip(slopes, numbers):
                score += slope * number
            scores.append(score)
        if self.deviations is None:
            scores = scores if noise is None else [*map(add, scores, noise)]
            return skill, scores.index(max(scores))
        means = np.array(scores)
        return skill, means if noise is None else means + self.deviations[skill] * noise

    def _drawn(
        self,
        policy: TaskPolicy,
        x: Float[np.ndarray, "O"],
        previous: int,
        sides: Float[np.ndarray, "K"],
        noise: Float[np.ndarray, "A"],
        stay: float,
    ) -> Choice:
        margins = policy.margins(x)
        skill = int((margins > sides).dot(self.bits))
        if self.shared is not None:
            skill = int(self.shared[skill])
        if self.termination is not None and previous != NO_SKILL:
            if stay < (1 - self.termination) * self._probability(margins, previous):
                skill = previous
        scores = policy.scores[skill](x)
        if self.deviations is None:
            return skill, int((scores + noise).argmax())
        return skill, scores + self.deviations[skill] * noise

    def _likeliest(self, policy: TaskPolicy, x: Float[np.ndarray, "O"], previous: int) -> Choice:
        if policy.few is not None:
            return self._chosen_of_few(policy.few, x, self._no_sides, None)
        skill = self._likeliest_skill(policy.margins(x), previous)
        scores = policy.scores[skill](x)
        return skill, int(scores.argmax()) if self.deviations is None else scores.copy()

    def _draw(self) -> None:
        self.sides, self.noise = self.draws(self.generator)
        self.stays = _NEVER if self.termination is None else self.generator.random(BLOCK)
        if self._policy.few is not None:
            self.sides, self.noise = self.sides.tolist(), self.noise.tolist()

    def _probability(self, margins: Float[np.ndarray, "K"], skill: int) -> float:
        """p(i | x) of one skill."""
        if self.shared is not None:
            return float(self._probabilities(margins)[skill])
        signs = np.where(self.bits & skill, 1.0, -1.0)
        return float(np.exp(-np.logaddexp(0.0, -signs * margins).sum()))

    def _probabilities(self, margins: Float[np.ndarray, "K"]) -> Float[np.ndarray, "S"]:
        """p(i | x) of every skill: the sum over its regions."""
        signs = np.where(self.bits & np.arange(1 << self.num_planes)[:, None], 1.0, -1.0)
        return np.bincount(self.shared, np.exp(-np.logaddexp(0.0, -signs * margins).sum(1)))

    def _likeliest_skill(self, margins: Float[np.ndarray, "K"], previous: int) -> int:
        skill = int((margins > 0).dot(self.bits))
        if self.shared is not None:  # Of the likeliest region.
            skill = int(self.shared[skill])
        if self.termination is None or previous in (NO_SKILL, skill):
            return skill
        # P(j) = (1 - s) p_j, and s more for the skill in force, where s = (1 - termination) p_previous.
        in_force = self._probability(margins, previous)
        stay = (1 - self.termination) * in_force
        anew = (1 - stay) * self._probability(margins, skill)
        return previous if stay + (1 - stay) * in_force >= anew else skill


def _part(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(f"{prefix}."): values for name, values in arrays.items() if name.startswith(f"{prefix}.")}


def scores_of(
    weights: Float[np.ndarray, "R F"], m: Float[np.ndarray, "Z"], static: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Feature:
    """weights @ features(x, m) on the task with the descriptor m."""
    size, task = len(m), static.get("task", "none")
    if static["kind"] == "constant" or not size or task == "none":
        return _scores_of_state(weights, static, arrays)
    if task == "additive":
        offset, of_state = weights[:, -size:] @ m, _scores_of_state(weights[:, :-size], static, arrays)
        if isinstance(of_state, Linear):
            return of_state._replace(bias=of_state.bias + offset)
        return lambda x: of_state(x) + offset
    blocks = weights.reshape(len(weights), 1 + size, weights.shape[1] // (1 + size))
    return _scores_of_state(blocks[:, 0] + np.einsum("z,rzf->rf", m, blocks[:, 1:]), static, arrays)


def _scores_of_state(
    weights: Float[np.ndarray, "R F"], static: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Feature:
    """weights @ features(x); where that is linear in x, scaling and all, it is multiplied out."""
    if static["kind"] == "constant":
        return Linear(np.zeros((len(weights), 0)), weights[:, 0])
    if static["kind"] == "polynomial" and static["degree"] == 1:
        slopes = np.zeros((len(weights), static["observations"]))
        slopes[:, static["inputs"]] = weights[:, 1:] * arrays["scale"]
        bias = weights[:, 0] - weights[:, 1:] @ (arrays["scale"] * arrays["shift"])
        return Linear(slopes, bias)
    expand = features(static, arrays)
    return lambda x: weights @ expand(x)


def features(static: dict[str, Any], arrays: dict[str, np.ndarray]) -> Feature:
    """A feature map: inputs chosen and scaled, then expanded."""
    inputs, shift, scale = np.asarray(static["inputs"]), arrays["shift"], arrays["scale"]
    expand = _EXPANSIONS[static["kind"]](static, arrays)
    whole = len(inputs) == static["observations"] and (inputs == np.arange(len(inputs))).all()
    if whole:
        return lambda x: expand((x - shift) * scale)
    return lambda x: expand((x[inputs] - shift) * scale)


def _polynomial(static: dict[str, Any], arrays: dict[str, np.ndarray]) -> Feature:
    count, degree = len(static["inputs"]), static["degree"]
    products = [np.array(list(itertools.combinations_with_replacement(range(count), d))) for d in range(2, degree + 1)]
    one = np.ones(1)
    return lambda z: np.concatenate([one, z, *(z[terms].prod(1) for terms in products)])


def _fourier(static: dict[str, Any], arrays: dict[str, np.ndarray]) -> Feature:
    frequencies, phases = np.pi * arrays["frequencies"], np.pi * arrays.get("phases", np.zeros(1))
    return _with_bias(static, lambda z: np.sin(frequencies @ z + phases))


def _network(static: dict[str, Any], arrays: dict[str, np.ndarray]) -> Feature:
    layers = [(arrays[f"weights.{i}"], arrays[f"biases.{i}"]) for i in range(static["layers"])]
    one = np.ones(1)

    def expand(z: Float[np.ndarray, "n"]) -> Float[np.ndarray, "F"]:
        for weights, biases in layers:
            z = np.tanh(weights @ z + biases)
        return np.concatenate([one, z])

    return expand


def _with_bias(static: dict[str, Any], expand: Feature) -> Feature:
    one = np.ones(1)
    return (lambda z: np.concatenate([one, expand(z)])) if static["bias"] else expand


_EXPANSIONS = {"polynomial": _polynomial, "fourier": _fourier, "network": _network}
