"""A distilled tree does what its teacher does where that matters, acts as scikit-learn's own, and every step is counted."""

import contextlib
import dataclasses
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from own_envs import LENGTH, Walk

from asap.base.errors import UserError
from asap.base.spec import TaskSet
from asap.envs import catalog
from asap.envs.resolve import hosted_task
from asap.experience.choose import counted_play
from asap.experience.counted_play import StepCounter
from asap.policy.policy import NO_SKILL
from asap.rivals.features import RawInputs
from asap.rivals.library import Library
from asap.rivals.protocol import Agents
from asap.rivals.tree import Told, Tree, TreeActor

tree = pytest.importorskip("sklearn.tree")
BOTH = RawInputs((0, 1), False)


class Rule(eqx.Module):
    """The second action where an input is above a threshold, else the first; a known teacher, stacked over seeds."""

    threshold: Float[Array, ""]
    index: int = eqx.field(static=True)
    actions: tuple[int, int] = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)

    def action_log_probs(self, x, m):
        chosen = jnp.where(x[self.index] > self.threshold, self.actions[1], self.actions[0])
        numbers = jnp.arange(self.num_actions).reshape(-1, *(1,) * (x.ndim - 1))
        return jnp.where(numbers == chosen, -0.1, -3.0)

    def draws(self, key):
        return ()

    def choose(self, draws, x, m, previous):
        return jnp.int32(NO_SKILL), jnp.argmax(self.action_log_probs(x, m)).astype(jnp.int32)


def one(task) -> TaskSet:
    return TaskSet((task,), (1.0,))


def acts(actor: TreeActor, z: Float[np.ndarray, "n D"]) -> np.ndarray:
    choose = jax.jit(jax.vmap(lambda x: actor.choose((), x, jnp.zeros(0), jnp.int32(NO_SKILL))[1]))
    return np.asarray(choose(z))


# ---- The tree as arrays ----


@pytest.mark.parametrize("leaves", [2, 5, 40])
def test_the_arrays_act_as_the_tree_of_scikit_learn(leaves):
    rng = np.random.default_rng(leaves)
    z = rng.normal(size=(600, 2)).astype(np.float32)
    action = np.where(z[:, 0] * z[:, 1] > 0.1, 3, np.where(z[:, 1] > 0.7, 1, 0))  # Action 2 is never told.
    settings = Tree(leaves=leaves, depth=7)
    theirs = tree.DecisionTreeClassifier(max_depth=7, max_leaf_nodes=leaves, random_state=0).fit(z, action)
    ours = settings.array_form(theirs, BOTH)
    cuts = theirs.tree_.threshold[theirs.tree_.children_left >= 0].astype(np.float32)
    near = np.concatenate([cuts, *(np.nextafter(cuts, np.float32(side * np.inf)) for side in (-1, 1))])
    points = rng.normal(size=(2, 40 * len(near), 2)).astype(np.float32)
    for index in range(2):
        points[index, :, index] = np.repeat(near, 40)
    points = points.reshape(-1, 2)
    assert np.array_equal(acts(ours, points), theirs.predict(points))
    assert ours.nodes == (theirs.get_n_leaves() - 1, theirs.get_n_leaves())
    assert len(ours.feature) == 2 * leaves - 1


def test_a_test_counts_twice_and_a_leaf_once():
    z, action = np.float32([[0, 0], [1, 0]]), np.array([1, 2])
    actor = Tree().fit(z, action, BOTH)
    assert (actor.nodes, actor.num_parameters) == ((1, 2), 4)
    assert Tree().fit(z, np.array([2, 2]), BOTH).num_parameters == 1
    assert acts(actor, np.float32([[0.5, 9], [0.51, 9]])).tolist() == [1, 2]


def test_states_count_by_what_another_action_costs_there():
    """Only one test fits. Few states ask for action 1, but there it matters a hundred times more."""
    z = np.random.default_rng(1).random((4000, 2)).astype(np.float32)
    is_rare = z[:, 1] > 0.9
    action = np.where(is_rare, 1, np.where(z[:, 0] > 0.5, 2, 0))
    for loss, feature in ((np.where(is_rare, 10.0, 0.1), 1), (np.ones(4000), 0)):
        actor = Tree(leaves=2)._fitted([Told(z, action, loss)], 0, 0, BOTH)
        assert actor.feature[0] == feature


# ---- Learning ----


def test_it_finds_the_threshold_of_a_known_rule():
    """Of the position, which is the second of three inputs."""
    task = hosted_task(Walk, {})
    walk = one(dataclasses.replace(task, spec=dataclasses.replace(task.spec, horizon=LENGTH)))
    teacher = Rule(np.float32([1.0, -0.5]), 1, (1, 0), 2)
    settings, counter = Tree(leaves=4, rounds=4), StepCounter(2, 2_400)
    with contextlib.closing(counted_play(walk, (3, 4), counter)) as play:
        trees = settings.distilled(walk, play, teacher, teacher)
    assert (counter.used <= 2_400).all() and (counter.used > 1_800).all()
    for s, threshold in enumerate((1.0, -0.5)):
        actor = jax.tree.map(lambda leaf, s=s: leaf[s], trees)
        assert actor.nodes == (1, 2) and actor.feature[0] == 1
        assert abs(actor.threshold[0] - threshold) < 0.05
        assert acts(actor, np.float32([[5, threshold - 0.1, 1], [5, threshold + 0.1, 1]])).tolist() == [1, 0]


def test_without_a_step_left_it_still_acts():
    walk, teacher = one(hosted_task(Walk, {})), Rule(np.zeros(1, np.float32), 1, (1, 0), 2)
    with contextlib.closing(counted_play(walk, (3,), StepCounter(1, 5))) as play:
        actor = jax.tree.map(lambda leaf: leaf[0], Tree(rounds=2).distilled(walk, play, teacher, teacher))
    assert acts(actor, np.zeros((1, 3), np.float32)).tolist() == [0] and play.counter.used == 0


@pytest.fixture
def taught(monkeypatch) -> list[int]:
    """Learning of the teacher takes no time, and uses its budget up, which is noted."""
    budgets = []

    def learn(self, tasks, seeds, counter, start=None):
        budgets.append(counter.budget)
        rule = Rule(np.zeros(len(seeds), np.float32), 1, (0, 1), 2)
        curves = [type(counter)(1, 0).curves()[0]] * len(seeds)
        return Agents(rule, 0, 1, np.full(len(seeds), counter.budget), curves, rule)

    monkeypatch.setattr(Library, "learn", learn)
    return budgets


def test_the_teacher_gets_its_share_and_every_step_is_counted(taught):
    made = []

    class CountedWalk(Walk):
        def step(self, action):
            made.append(1)
            return super().step(action)

    task = hosted_task(CountedWalk, {})
    tasks = one(dataclasses.replace(task, spec=dataclasses.replace(task.spec, horizon=LENGTH)))
    made.clear()
    agents = Tree(rounds=3).learn(tasks, (1, 2), StepCounter(2, 1000))
    assert taught == [800]
    assert agents.steps_used.tolist() == [800 + len(made) // 2] * 2
    assert 1000 - 5 * LENGTH < agents.steps_used[0] <= 1000  # Of the rest, five episodes are played at once.
    assert agents.num_skills == 0 and agents.num_parameters == 4
    assert agents.curves[0].episodes[-1] == agents.steps_used[0]


def test_without_scikit_learn_the_extra_is_named(monkeypatch, taught):
    monkeypatch.setitem(sys.modules, "sklearn.tree", None)
    with pytest.raises(UserError, match=r"asap-rl\[tree\]") as error:
        Tree().learn(one(catalog.find("two-rooms")), (1,), StepCounter(1, 100))
    assert "\n" not in str(error.value) and not taught


def test_box_actions_are_refused():
    assert "Discrete" in Tree().why_not(one(hosted_task("Pendulum-v1", {})))
    assert Tree().why_not(one(catalog.find("two-rooms"))) is None
