"""Sarsa(lambda) and Q-learning make the updates of their definition: a chain of two states by hand; and they learn."""

import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.keys import fold, root
from asap.base.spec import TaskSet
from asap.base.types import Transition
from asap.envs import catalog
from asap.envs.resolve import resolve
from asap.experience.counted_play import StepCounter
from asap.rivals.features import FourierBasis, Inputs01, fourier
from asap.rivals.protocol import System
from asap.rivals.values import NOT_CHOSEN, Exploration, QLearning, Sarsa, ValueLearner, unit_steps

TABLE = FourierBasis(Inputs01((0, 1), (0.0, 0.0), (1.0, 1.0), 0), ())
STATES = jnp.eye(2)
LEFT, RIGHT = 0, 1
NOTHING = jnp.zeros(0)


def step(state, action, reward, next_state, terminated=False, truncated=False):
    ends = jnp.bool_(terminated), jnp.bool_(truncated)
    skill, numbers = jnp.int32(-1), (jnp.int32(action), jnp.float32(reward))
    return Transition(STATES[state], NOTHING, skill, skill, *numbers, *ends, STATES[next_state])


def learner(on_policy, trace, temperature=None, epsilon=0.0):
    return ValueLearner(TABLE, (0.5, 0.5), 2, 0.9, Exploration(epsilon, temperature), trace, on_policy)


def with_weights(own, weights):
    return own.begin(root(0))._replace(weights=jnp.asarray(weights, jnp.float32))


def test_q_learning_takes_the_best_next_value():
    own = learner(False, 0.0)
    state = with_weights(own, [[0.0, 2.0], [1.0, 4.0]])  # Rows are actions.
    after = own.learn(root(1), state, step(0, LEFT, 1.0, 1))
    assert after.weights.tolist() == [[pytest.approx(0.5 * (1 + 0.9 * 4)), 2.0], [1.0, 4.0]]
    after = own.learn(root(1), after, step(1, RIGHT, -1.0, 0, terminated=True))
    assert after.weights[RIGHT, 1] == pytest.approx(4 + 0.5 * (-1 - 4))  # Nothing comes after the end.
    after = own.learn(root(1), after, step(1, RIGHT, 0.0, 0, truncated=True))
    assert after.weights[RIGHT, 1] == pytest.approx(1.5 + 0.5 * (0.9 * 2.3 - 1.5))  # The time limit is no end.


def test_sarsa_takes_the_value_of_the_action_that_comes_next():
    own = learner(True, 0.0, epsilon=1.0)  # At random: a' is the best one in about half of the cases.
    state, seen = with_weights(own, [[0.0, 2.0], [1.0, 4.0]]), set()
    for seed in range(8):
        after = own.learn(fold(root(9), seed), state, step(0, LEFT, 1.0, 1))
        chosen = own.choose(root(99), after, STATES[1], NOTHING).action
        assert after.weights[LEFT, 0] == pytest.approx(0.5 * (1 + 0.9 * [2.0, 4.0][int(chosen)]))
        seen.add(int(chosen))
    assert seen == {LEFT, RIGHT}
    ended = own.learn(root(0), state, step(0, LEFT, 1.0, 1, truncated=True))
    assert ended.next_action == NOT_CHOSEN


def test_traces_hand_an_error_back_to_earlier_steps_of_the_episode():
    own = learner(True, 0.5)
    state = own.learn(root(0), own.begin(root(0)), step(0, RIGHT, 0.0, 1))
    assert (state.weights == 0).all() and state.trace.tolist() == [[0, 0], [1, 0]]
    state = own.learn(root(0), state, step(1, RIGHT, 2.0, 1, terminated=True))
    assert state.weights.tolist() == [[0, 0], [pytest.approx(0.5 * 2 * 0.9 * 0.5), 1.0]]
    assert (state.trace == 0).all()


def test_choices():
    assert Exploration(0.2).chances(jnp.asarray([1.0, 3.0, 3.0, 0.0])).tolist() == pytest.approx(
        [0.05, 0.45, 0.45, 0.05]
    )
    odds = Exploration(0.0, 0.5).chances(jnp.asarray([0.0, 1.0]))
    assert float(odds[1] / odds[0]) == pytest.approx(np.exp(2), rel=1e-5)


def test_step_sizes_follow_the_features():
    basis = fourier(Inputs01((0,), (0.0,), (1.0,), 0), 2)
    assert unit_steps(basis, False).tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 6])
    assert unit_steps(TABLE, True).tolist() == [1, 1]


@pytest.mark.parametrize("system", [Sarsa(), QLearning()])
def test_they_learn_two_rooms_on_their_budget(system):
    assert isinstance(system, System)
    tasks, counter = TaskSet((catalog.find("two-rooms"),), (1.0,)), StepCounter(2, 20_000)
    agents = system.learn(tasks, (1, 2), counter)
    assert agents.steps_used.tolist() == [20_000, 20_000] and agents.num_skills == 0 and agents.num_parameters == 4 * 36
    late = [np.mean(np.asarray(curve.returns)[-10:]) for curve in agents.curves]
    assert np.max(late) > -150, late
    again = system.learn(tasks, (1, 2), StepCounter(2, 2_000), start=agents.state)
    assert np.max(np.asarray(again.curves[int(np.argmax(late))].returns)) > -150


def test_vectors_of_actions_are_refused():
    tasks = TaskSet((resolve("Pendulum-v1"),), (1.0,))
    assert "Discrete" in Sarsa().why_not(tasks) and "Discrete" in QLearning().why_not(tasks)
