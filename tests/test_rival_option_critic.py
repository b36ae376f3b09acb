"""Option-Critic makes the updates of its definition, by hand, with the termination's at the next state; and it learns."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.keys import fold, root
from asap.base.spec import TaskSet
from asap.base.types import Transition
from asap.envs import catalog
from asap.envs.four_rooms import AFTER_MOVE, FIRST_GOAL, LOWER_RIGHT
from asap.envs.resolve import resolve
from asap.experience.counted_play import StepCounter
from asap.policy.policy import NO_SKILL
from asap.rivals.features import FourierBasis, Inputs01
from asap.rivals.goal_change import OPTION_CRITIC, SYSTEMS, Recovery, goal_change, second_goals, tabular_learner
from asap.rivals.goal_change_batches import Arm, asap_goal_change, steps_at
from asap.rivals.option_critic import OptionActor, OptionCritic, OptionLearner, OptionModel, Options
from asap.rivals.protocol import System
from asap.rivals.values import Exploration

TABLE = FourierBasis(Inputs01((0, 1), (0.0, 0.0), (1.0, 1.0), 0), ())
STATES, NOTHING = jnp.eye(2), jnp.zeros(0)
MODEL = OptionModel(TABLE, TABLE, 2.0, Exploration(0.0), False)
LEARNER = OptionLearner(MODEL, 2, 2, 0.9, 1.0, (0.5, 0.5), (0.25, 0.25), (0.1, 0.1), 0.01)
FIRST, BEFORE, AFTER, LATE = slice(0, 10), slice(60, 80), slice(80, 100), slice(140, 160)
HALVES = (jnp.float32(0.5),) * 3
# Q(x, o): options are rows, states are columns.
VALUES = jnp.asarray([[1.0, 2.0], [0.0, 4.0]])


def begun(option):
    state = LEARNER.begin_with(Options(VALUES, jnp.zeros((2, 2, 2)), jnp.zeros((2, 2))))
    return state._replace(option=jnp.int32(option))


def step(state, option, action, reward, next_state, terminated=False, truncated=False):
    ends, numbers = (jnp.bool_(terminated), jnp.bool_(truncated)), (jnp.int32(action), jnp.float32(reward))
    option = jnp.int32(option)
    return Transition(STATES[state], NOTHING, option, option, *numbers, *ends, STATES[next_state])


def test_one_step_by_hand():
    after = LEARNER.learn(root(0), begun(0), step(0, 0, 1, 1.0, 1))
    # beta = 1/2 at x' = 1: U = (2 + 4) / 2 = 3, y = 1 + 0.9 * 3 = 3.7.
    assert after.options.values.tolist() == [[pytest.approx(1 + 0.5 * 2.7), 2.0], [0.0, 4.0]]
    change = 0.25 * 2.7 * 0.5  # Both actions had 1/2; no factor 1 / T.
    assert after.options.theta[0, :, 0].tolist() == pytest.approx([-change, change])
    assert jnp.count_nonzero(after.options.theta) == 2
    assert after.option == 0


def test_the_termination_learns_at_the_next_state():
    after = LEARNER.learn(root(0), begun(0), step(0, 0, 1, 1.0, 1))
    # Option 0 is worth 2 less than the best at x' = 1, so it ends there sooner; nothing is known of x = 0.
    assert after.options.vartheta.tolist() == [[0.0, pytest.approx(-0.1 * 0.25 * (2 - 4 + 0.01))], [0.0, 0.0]]
    best = LEARNER.learn(root(0), begun(1), step(0, 1, 1, 1.0, 1))
    assert best.options.vartheta[1].tolist() == [0.0, pytest.approx(-0.1 * 0.25 * 0.01)]  # The margin: stay.


def test_nothing_comes_after_the_end():
    after = LEARNER.learn(root(0), begun(0), step(0, 0, 1, 1.0, 1, terminated=True))
    assert after.options.values[0, 0] == pytest.approx(1 + 0.5 * (1 - 1))
    assert (after.options.vartheta == 0).all() and after.option == NO_SKILL
    cut = LEARNER.learn(root(0), begun(0), step(0, 0, 1, 1.0, 1, truncated=True))
    assert cut.options.values[0, 0] == pytest.approx(1 + 0.5 * 2.7) and cut.option == NO_SKILL
    assert cut.options.vartheta[0, 1] > 0


def test_the_control_terminates_always():
    own = dataclasses.replace(LEARNER, model=dataclasses.replace(MODEL, terminates_always=True))
    after = own.learn(root(0), begun(0), step(0, 0, 1, 1.0, 1))
    assert after.options.values[0, 0] == pytest.approx(1 + 0.5 * (1 + 0.9 * 4 - 1))
    assert (after.options.vartheta == 0).all()
    keys = jax.vmap(lambda i: fold(root(3), i))(jnp.arange(50))
    state = begun(0)
    assert (jax.vmap(lambda key: own.choose(key, state, STATES[1], NOTHING).skill)(keys) == 1).all()


def test_an_option_stays_until_it_terminates():
    stays = Options(VALUES, jnp.zeros((2, 2, 2)), jnp.full((2, 2), -50.0))
    chosen = OptionActor(stays, MODEL).choose(HALVES, STATES[1], NOTHING, jnp.int32(0))
    assert chosen[0] == 0
    assert OptionActor(stays, MODEL).choose(HALVES, STATES[1], NOTHING, jnp.int32(NO_SKILL))[0] == 1
    leaves = stays._replace(vartheta=-stays.vartheta)
    assert OptionActor(leaves, MODEL).choose(HALVES, STATES[1], NOTHING, jnp.int32(0))[0] == 1


def test_policies_of_options_can_stay_as_they_began():
    tasks = TaskSet((catalog.find("two-rooms"),), (1.0,))
    system = OptionCritic(learns_skills=False, representation="equal", num_options=2)
    assert isinstance(system, System)
    agents = system.learn(tasks, (1, 2), StepCounter(2, 600))
    assert agents.actors.options.theta.shape == (2, 2, 4, 1) and agents.num_skills == 2
    assert agents.num_parameters == 2 * (3 + 4 + 3) and agents.steps_used.tolist() == [600, 600]
    assert np.abs(np.asarray(agents.actors.options.theta)).max() < 0.05 * system.temperature
    assert np.ptp(np.asarray(agents.actors.options.vartheta)) > 0
    again = system.learn(tasks, (1, 2), StepCounter(2, 60), start=agents.state)
    assert (np.asarray(again.actors.options.theta) == np.asarray(agents.actors.options.theta)).all()


def test_it_finds_another_goal():
    lengths = goal_change(tabular_learner(SYSTEMS[OPTION_CRITIC], AFTER_MOVE), AFTER_MOVE, range(100, 106), 80)
    assert lengths.shape == (6, 160) and lengths.min() >= 1 and lengths.max() <= 1000
    assert set(second_goals(range(400))) == set(LOWER_RIGHT) and FIRST_GOAL not in LOWER_RIGHT
    early, before, after, late = (np.median(lengths[:, part].mean(1)) for part in (FIRST, BEFORE, AFTER, LATE))
    assert before < early / 3 and after > 1.5 * before and late < after, (early, before, after, late)
    assert Recovery.of(lengths).total.tolist() == lengths.sum(1).tolist()


def test_lengths_of_episodes_in_lanes():
    ended = jnp.asarray([[0, 1], [1, 0], [0, 0], [0, 1]], bool)
    counted = steps_at(jnp.asarray([3, 0]), ended)
    assert counted.tolist() == [[4, 1], [5, 1], [1, 2], [2, 3]]


def test_asap_plays_the_same_experiment():
    small = (("learn.window", 16), ("learn.critic_features", 8))
    lengths = asap_goal_change(Arm(keeps_skills=True, num_goals=2, settings=small), AFTER_MOVE, (100, 101), 4)
    assert lengths.shape == (2, 8) and lengths.min() >= 1 and lengths.max() <= 1000


def test_vectors_of_actions_are_refused():
    assert "Discrete" in OptionCritic().why_not(TaskSet((resolve("Pendulum-v1"),), (1.0,)))
