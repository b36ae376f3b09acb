"""Promise: Q-PAMDP's policy search follows the natural gradient, and its rooms and strikers are those of the tasks."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.keys import root
from asap.base.spec import TaskSet
from asap.envs import catalog
from asap.envs.rooms import Position
from asap.experience.counted_play import StepCounter
from asap.paper.check_q_pamdp import BANDIT, BEST, WITHIN, bandit
from asap.rivals.enac import Rollouts, improved, natural_gradient
from asap.rivals.parameterized_actions import Act, parameterized
from asap.rivals.q_pamdp import QPAMDP


def tasks_of(*names: str) -> TaskSet:
    return TaskSet(tuple(map(catalog.find, names)), (1.0,) * len(names))


def test_the_natural_gradient_of_three_rollouts_by_hand():
    scores, starts, returns = np.asarray([[1.0], [-1.0], [0.5]]), np.ones((3, 1)), np.asarray([3.0, 0.0, 3.0])
    # Centred: scores less their mean 1/6, returns less 2: w = sum of products / sum of squares.
    products = 5 / 6 * 1 + -7 / 6 * -2 + 1 / 3 * 1
    squares = (25 + 49 + 4) / 36
    assert natural_gradient(scores, starts, returns) == pytest.approx([products / squares])
    rollouts = Rollouts(scores.reshape(1, 3, 1, 1, 1), starts[None], returns[None])
    assert improved(np.zeros((1, 1, 1, 1)), rollouts, 0.1).item() == pytest.approx(0.1)  # The step is normalised.


def test_on_the_quadratic_bandit_the_mean_finds_the_best_number():
    played = bandit((0, 1, 2))
    assert np.abs(played.theta - BEST).max() <= WITHIN
    # What is left to lose is the variance: a hundredth of it, were it taken for the deviation.
    assert 0.8 * BANDIT.variance <= -played.returns.mean() <= 2 * BANDIT.variance


def test_parameterised_moves_walk_as_the_moves_of_the_task():
    tasks = tasks_of("two-rooms")
    rooms, task, own = tasks.tasks[0].env, tasks.tasks[0].task, parameterized(tasks).env
    for seed, (action, number, theirs) in enumerate(((1, 1.0, 0), (1, -1.0, 1), (0, 3.0, 2), (0, -1.0, 3))):
        state, noise = rooms.reset(root(seed), task), rooms.noise(root(seed + 9))
        after = own.transition(noise, state, Act(jnp.int32(action), jnp.float32([number])).vector, task)
        expected = rooms.transition(noise, state, jnp.int32(theirs), task)
        assert [float(x) for x in after.state] == pytest.approx([float(x) for x in expected.state])
    place, still = Position(jnp.float32(0.2), jnp.float32(0.5)), Position(jnp.float32(0), jnp.float32(0))
    half = own.transition(still, place, jnp.float32([0, 0.5]), task)
    assert [float(x) for x in half.state] == pytest.approx([0.225, 0.5])


def test_every_seed_uses_its_budget_up_and_fixed_parameters_stay():
    system = QPAMDP(rollouts=2, first_steps=500, further_steps=200, hand_set=True, evaluation_episodes=4)
    counter = StepCounter(2, 4000)
    agents = system.learn(tasks_of("two-rooms"), (0, 1), counter)
    assert agents.steps_used.tolist() == [4000, 4000]
    assert agents.evaluation.returns.shape == (2, 1, 4)
    assert np.abs(agents.state.theta[:, :, 0, 0] - 1).min() > 0
    fixed = dataclasses.replace(system, learns_skills=False)
    counter = StepCounter(2, 4000)
    assert (
        np.asarray(fixed.learn(tasks_of("two-rooms"), (0, 1), counter).state.theta[:, :, 0, 0]).tolist() == [[1, 1]] * 2
    )


def test_it_says_what_it_can_not_learn():
    assert QPAMDP().why_not(tasks_of("two-rooms", "flipped-two-rooms")) is None
    assert QPAMDP().why_not(tasks_of("striker-r2")) is None
    other = dataclasses.replace(catalog.find("two-rooms"), env=object())
    assert "parameterised actions" in QPAMDP().why_not(TaskSet((other,), (1.0,)))
