"""One task after another: counts are honest, frozen skills stay, and each seed learns its own task."""

import numpy as np
import pytest

from asap.config.defaults import complete
from asap.config.schema import Config
from asap.config.settings import override
from asap.envs import catalog
from asap.paper.lifelong import SETTINGS, per_task, room, until, with_own_planes
from asap.paper.task_sequence import Learner, TaskTrainer, final_returns, learn_sequence
from asap.runs.signals import StopRequest

EVAL_CHUNKS = (1, 3)
LEARNERS = [Learner("from scratch", carries=False), Learner("frozen", plane_length=0.1, freezes_after=1)]


@pytest.fixture(scope="module")
def trainer():
    small = {"run.chunk": 1, "run.eval_episodes": 4, "learn.lanes": 4, "learn.window": 16, "learn.epochs": 2}
    return TaskTrainer(complete(override(Config(), {**SETTINGS, **small})), catalog.find("two-rooms"), StopRequest())


@pytest.fixture(scope="module")
def sequences(trainer):
    tasks = [room(0.7, 0.1), room(0.0, 0.9)]
    return [learn_sequence(trainer, learner, tasks, range(2), EVAL_CHUNKS) for learner in LEARNERS]


def test_shapes_and_orders(sequences):
    for sequence in sequences:
        assert sequence.episodes.shape == sequence.steps.shape == sequence.returns.shape == (2, 2, 1 + len(EVAL_CHUNKS))
        assert sorted(sequence.order[0]) == sorted(sequence.order[1]) == [0, 1]
        doors = [start.tasks.tasks.door_low[:, 0, 0] for start in sequence.starts]
        np.testing.assert_allclose(np.stack(doors, 1), np.float32([0.7, 0.0])[sequence.order])


def test_frozen_skills_stay_bit_for_bit_and_the_planes_do_not(sequences):
    first, second = sequences[1].policies
    np.testing.assert_array_equal(first.skills.theta, second.skills.theta)
    assert (first.partition.beta != second.partition.beta).any((1, 2)).all()


def test_the_search_for_signs_is_counted_and_a_fresh_start_has_none(sequences):
    scratch, frozen = sequences
    assert (scratch.episodes[:, :, 0] == 0).all() and (frozen.episodes[:, 0, 0] == 0).all()
    assert (frozen.episodes[:, 1, 0] == 4 * 2).all()  # Four sign patterns, two episodes each.
    assert (frozen.steps[:, 1, 0] > 0).all()
    np.testing.assert_array_equal(np.diff(frozen.steps, axis=-1)[:, 1], [[64, 128]] * 2)  # 4 lanes, 16 steps, updates.
    assert (np.diff(frozen.episodes, axis=-1) >= 0).all()


def test_what_is_carried_on_is_soft_and_what_is_not_is_fresh(sequences):
    scratch, frozen = sequences
    lengths = np.linalg.norm(frozen.starts[1].policy.partition.beta, axis=-1)
    np.testing.assert_array_less(lengths, 0.1 + 1e-6)
    np.testing.assert_array_equal(frozen.starts[1].policy.skills.theta, frozen.policies[0].skills.theta)
    assert not np.array_equal(scratch.starts[1].policy.skills.theta, scratch.policies[0].skills.theta)


def test_own_planes_of_frozen_skills_give_back_the_policy(trainer, sequences):
    frozen = sequences[1]
    after = final_returns(trainer, frozen, frozen.policies)
    again = final_returns(trainer, frozen, with_own_planes(frozen.policies))
    np.testing.assert_array_equal(after, again)
    assert after.shape == (2, 2)


def test_the_first_evaluation_at_the_threshold_counts_and_none_is_infinite():
    reached = np.array([[[False, True, False, True], [False] * 4]])
    spent = np.array([[[0, 7, 20, 30], [0, 7, 20, 30]]])
    np.testing.assert_array_equal(until(reached, spent), [[7, np.inf]])


def test_a_task_is_summarised_over_the_seeds_that_met_it_at_any_time():
    values, order = np.array([[1.0, 2.0], [4.0, 3.0]]), np.array([[0, 1], [1, 0]])
    np.testing.assert_array_equal(per_task(values, order, np.mean), [[2.0, 3.0], [3.0, 2.0]])


def test_a_request_to_stop_ends_the_sequence(trainer, sequences):
    stopped = TaskTrainer(trainer.config, catalog.find("two-rooms"), StopRequest())
    stopped._begin, stopped._advance = trainer._begin, trainer._advance
    stopped.stop.requested = True
    with pytest.raises(SystemExit):
        stopped.learn(sequences[0].starts[0], EVAL_CHUNKS)
