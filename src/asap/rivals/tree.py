"""A decision tree that acts as a network does: distilled from flat-ppo-64 in the manner of VIPER (Bastani, Pu and Solar-Lezama, 2018).

An implementation of ours and not the authors' code; the trees are those of scikit-learn (CART). The teacher gets most of the
budget, the rounds the rest:

    round 1: the teacher plays; round r: the tree of round r - 1 does
    D <- D + (x, the teacher's likeliest action at x) for every state x that was met
    draw states from D in proportion to l(x) = max_a log pi(a | x) - min_a log pi(a | x); fit a tree to them
    in the end: the tree whose round returned most

l is VIPER's V(x) - min_a Q(x, a) for a teacher that has a policy and no Q, with log pi in the place of Q.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import stack
from asap.base.errors import UserError
from asap.base.keys import host_generator
from asap.base.spec import TaskSet
from asap.base.stats import SeedCurve
from asap.experience.choose import counted_play
from asap.experience.compiled_play import program
from asap.experience.counted_play import CountedPlay, StepCounter
from asap.experience.rollout import Actor
from asap.policy.policy import NO_SKILL
from asap.rivals.features import RawInputs
from asap.rivals.library import Library
from asap.rivals.protocol import Agents, has_discrete_actions

STREAM = 21  # Of a seed: which states a tree is fitted to.
MOST_AT_ONCE = 64  # Episodes.


class TreeTeacher(Protocol):
    """Whose actions a tree learns, stacked over seeds."""

    def action_log_probs(
        self, x: Float[Array, "O *batch"], m: Float[Array, "Z *batch"]
    ) -> Float[Array, "A *batch"]: ...


class TreeActor(eqx.Module):
    """Nodes as arrays; a leaf has itself below it, so that all paths are equally long."""

    feature: Int[Array, "N"]
    threshold: Float[Array, "N"]
    left: Int[Array, "N"]  # Where the feature is at most the threshold.
    right: Int[Array, "N"]
    action: Int[Array, "N"]
    inputs: RawInputs = eqx.field(static=True)
    depth: int = eqx.field(static=True)

    @property
    def num_parameters(self) -> int:
        """Feature and threshold of each test, and the action of each leaf. Of one seed."""
        tests, leaves = self.nodes
        return 2 * tests + leaves

    @property
    def nodes(self) -> tuple[int, int]:
        """How many tests and leaves it has, without what only fills it up."""
        num_tests = int((np.asarray(self.left) != np.arange(len(self.left))).sum())
        return num_tests, num_tests + 1

    def draws(self, key: Any) -> tuple[()]:
        return ()

    def choose(
        self, draws: tuple[()], x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]
    ) -> tuple[Int[Array, ""], Int[Array, ""]]:
        z, nodes = self.inputs(x, m), jax.tree.map(jnp.asarray, self)

        def down(_, node: Int[Array, ""]) -> Int[Array, ""]:
            is_left = z[nodes.feature[node]] <= nodes.threshold[node]
            return jnp.where(is_left, nodes.left[node], nodes.right[node])

        return jnp.int32(NO_SKILL), nodes.action[jax.lax.fori_loop(0, self.depth, down, jnp.int32(0))]


class Told(NamedTuple):
    """States of one seed, what the teacher does there, and what it costs to do something else."""

    z: Float[np.ndarray, "n D"]
    action: Int[np.ndarray, "n"]
    loss: Float[np.ndarray, "n"]


@dataclass(frozen=True)
class Tree:
    """The defaults are those it was tuned to on the rooms."""

    representation: str = "native"  # All observations; "equal": the inputs that ASAP's planes have.
    depth: int = 6
    leaves: int = 16
    rounds: int = 20
    share: float = 0.8  # Of the budget, for the teacher.
    most_states: int = 20_000  # That a tree is fitted to.
    name: str = "tree"
    learns_skills: bool = False  # It has none.

    def why_not(self, tasks: TaskSet) -> str | None:
        return has_discrete_actions(tasks)

    def learn(self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: Any = None) -> Agents:
        _classifier()  # Before the teacher has cost hours.
        part = counter.part(self.share)
        taught = Library("flat-ppo-64", self.representation).learn(tasks, seeds, part, start)
        counter.reach(counter.used + taught.steps_used, slice(None))
        with contextlib.closing(counted_play(tasks, seeds, counter)) as play:
            trees = self.distilled(tasks, play, taught.state, taught.actors)
        each = [jax.tree.map(lambda leaf, s=s: leaf[s], trees) for s in range(len(seeds))]
        curves = [_joined(first, then) for first, then in zip(taught.curves, counter.curves())]
        size = max(tree.num_parameters for tree in each)  # Seeds differ: the largest tree.
        return Agents(trees, 0, size, counter.used.copy(), curves, taught.state)

    def distilled(self, tasks: TaskSet, play: CountedPlay, teacher: TreeTeacher, actors: Actor) -> TreeActor:
        """With all that the budget has left; `actors` are the teacher as it plays."""
        inputs, horizon = RawInputs.of(tasks, self.representation), tasks.spec.horizon
        observed, width = len(tasks.spec.observation_names), tasks.descriptors.shape[1]
        left, used = play.counter.left, play.counter.used.copy()
        at_once = int(np.clip(left.min() // (self.rounds * horizon), 1, MOST_AT_ONCE))
        # The last episodes of a round may pass its share.
        room = int(np.ceil(left.max() / self.rounds)) + at_once * horizon
        data: list[list[Told]] = [[] for _ in play.seeds]
        best, trees, highest = None, None, np.full(len(play.seeds), -np.inf)
        for r in range(self.rounds):
            wanted = used + left * (r + 1) / self.rounds
            who = actors if trees is None else trees
            means, met = _round(play, who, wanted, at_once, horizon, observed + width)
            told = _asked(teacher, met, room, inputs, observed)
            for own, more in zip(data, told):
                own.append(more)
            if trees is not None:
                best = trees if best is None else _where(means > highest, trees, best)
                highest = np.maximum(means, highest)
            if r + 1 < self.rounds or best is None:
                trees = stack([self._fitted(data[s], seed, r, inputs) for s, seed in enumerate(play.seeds)])
        return trees if best is None else best

    def _fitted(self, data: list[Told], seed: int, number: int, inputs: RawInputs) -> TreeActor:
        told = Told(*map(np.concatenate, zip(*data)))
        if not len(told.z):  # The budget had no room for an episode.
            return self.array_form(None, inputs)
        weights = np.cumsum(told.loss.astype(np.float64) + 1e-9)
        uniform = host_generator(seed, STREAM, number).random()
        places = (np.arange(self.most_states) + uniform) / self.most_states * weights[-1]
        drawn = np.minimum(np.searchsorted(weights, places), len(weights) - 1)
        return self.fit(told.z[drawn], told.action[drawn], inputs)

    def fit(self, z: Float[np.ndarray, "n D"], action: Int[np.ndarray, "n"], inputs: RawInputs) -> TreeActor:
        classifier = _classifier()(max_depth=self.depth, max_leaf_nodes=self.leaves, random_state=0)
        return self.array_form(classifier.fit(z, action), inputs)

    def array_form(self, classifier: Any, inputs: RawInputs) -> TreeActor:
        """Of a fitted tree of scikit-learn, with room for all the leaves there may be; without one, action 0."""
        room = 2 * self.leaves - 1
        feature, action, threshold = np.zeros(room, np.int32), np.zeros(room, np.int32), np.zeros(room, np.float32)
        left = right = np.arange(room, dtype=np.int32)
        if classifier is not None:
            found, n = classifier.tree_, classifier.tree_.node_count
            is_test, left, right = found.children_left >= 0, left.copy(), right.copy()
            feature[:n] = np.where(is_test, found.feature, 0)
            threshold[:n] = _not_above(np.where(is_test, found.threshold, 0.0))
            left[:n] = np.where(is_test, found.children_left, left[:n])
            right[:n] = np.where(is_test, found.children_right, right[:n])
            action[:n] = classifier.classes_[found.value[:, 0].argmax(-1)]
        return TreeActor(feature, threshold, left, right, action, inputs, self.depth)


def _classifier() -> type:
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise UserError("--rivals", "tree needs scikit-learn", cure="pip install 'asap-rl[tree]'") from None
    return DecisionTreeClassifier


def _not_above(values: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """As float32, rounded down: x <= value stays what it is for every float32 x."""
    rounded = values.astype(np.float32)
    return np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def _round(
    play: CountedPlay, actors: Actor, wanted: Float[np.ndarray, "seeds"], at_once: int, horizon: int, width: int
) -> tuple[Float[np.ndarray, "seeds"], list[Float[np.ndarray, "OZ n"]]]:
    """Episodes until each seed has used as many steps as are wanted: their mean returns, and every x and m that was met."""
    returns, episodes = np.zeros((2, len(play.seeds)))
    met: list[list[np.ndarray]] = [[] for _ in play.seeds]
    nothing = np.zeros((width, 0), np.float32)
    while (active := (play.counter.used < wanted) & play.counter.affords(at_once, horizon)).any():
        steps, totals = play.play(actors, at_once, active)
        seen = np.concatenate([steps.observation, steps.descriptor], 1)
        for s in np.flatnonzero(active):
            met[s].append(seen[s][:, np.asarray(steps.counts)[s]])
        returns += np.where(active, np.asarray(totals.returns).sum(-1), 0)
        episodes += np.where(active, at_once, 0)
    means = np.where(episodes > 0, returns / np.maximum(episodes, 1), -np.inf)
    return means, [np.concatenate([nothing, *each], 1) for each in met]


def _asked(
    teacher: TreeTeacher, met: list[Float[np.ndarray, "OZ n"]], room: int, inputs: RawInputs, observed: int
) -> list[Told]:
    """What the teacher does in these states. With room for as many as there may be: one program serves all rounds."""
    filled = np.zeros((len(met), len(met[0]), room), np.float32)
    for row, each in zip(filled, met):
        row[:, : each.shape[1]] = each
    told = program(_told, "inputs")(teacher, filled[:, :observed], filled[:, observed:], inputs=inputs)
    return [Told(*(np.asarray(leaf)[s][: each.shape[1]] for leaf in told)) for s, each in enumerate(met)]


def _told(
    teacher: TreeTeacher, x: Float[Array, "seeds O n"], m: Float[Array, "seeds Z n"], inputs: RawInputs
) -> tuple[Array, Array, Array]:
    def of_seed(teacher: TreeTeacher, x: Array, m: Array) -> tuple[Array, Array, Array]:
        logs = teacher.action_log_probs(x, m)
        return jnp.moveaxis(inputs(x, m), 0, -1), jnp.argmax(logs, 0), logs.max(0) - logs.min(0)

    return jax.vmap(of_seed)(teacher, x, m)


def _where(better: Bool[np.ndarray, "seeds"], new: TreeActor, old: TreeActor) -> TreeActor:
    return jax.tree.map(lambda a, b: np.where(better.reshape(-1, *(1,) * (a.ndim - 1)), a, b), new, old)


def _joined(first: SeedCurve, then: SeedCurve) -> SeedCurve:
    return SeedCurve(*(np.concatenate([a, b]) for a, b in zip(first, then)))
