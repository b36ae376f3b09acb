"""The marks of Table 1 are given by the numbers, and only where the interval clears the threshold."""

import numpy as np
import pytest

from asap.paper.table1_marks import (
    composed_skills,
    corrected_model,
    learned_skills,
    reused_skills,
    served_tasks,
)


def test_frozen_skills_that_cost_much_are_learned_skills():
    mark = learned_skills([1.0] * 10, [0.2] * 10)
    assert (mark.passed, mark.value, mark.ci) == (True, pytest.approx(0.8), pytest.approx((0.8, 0.8)))
    assert learned_skills([1.0] * 10, [0.71] * 10).passed is False  # A loss of 29 %.
    assert learned_skills([1.0] * 10, [0.69] * 10).passed is True
    # Half of the seeds lose everything, half nothing: on average enough, but not beyond doubt.
    assert learned_skills([1.0] * 10, [0.0] * 5 + [1.0] * 5).passed is False


def test_without_skills_or_without_learning_there_is_no_mark():
    assert learned_skills([1.0] * 10, None).passed is False
    assert learned_skills([0.4] * 10, [0.0] * 10).passed is False


def test_composition_is_asked_only_where_one_skill_is_not_enough():
    assert composed_skills([0.95] * 10, 0.2).passed is True
    assert composed_skills([0.89] * 10, 0.2).passed is False
    assert composed_skills([1.0] * 10, 0.21).passed is None


def test_several_tasks_need_both_and_a_transfer_that_saves_half():
    both = [[0.95, 0.92]] * 10
    assert served_tasks(both, [50.0] * 10, [100.0] * 10).passed is True
    assert served_tasks(both, [51.0] * 10, [100.0] * 10).passed is False
    assert served_tasks([[0.95, 0.89]] * 10, [50.0] * 10, [100.0] * 10).passed is False
    assert served_tasks(both, [None] * 10, [100.0] * 10).passed is False
    assert served_tasks(both, [1.0] * 10, [None] * 10).passed is False
    # One of ten seeds fails after the transfer: its median is known, and the interval, too.
    assert served_tasks(both, [10.0] * 9 + [None], [100.0] * 10).passed is True


def test_reuse_must_be_that_of_more_than_half_beyond_doubt_and_must_cost():
    assert reused_skills([True] * 10, [0.5] * 10).passed is True  # Wilson: 0.72 to 1.
    assert reused_skills([True] * 7 + [False] * 3, [0.5] * 10).passed is False  # 0.40 to 0.89.
    assert reused_skills([True] * 10, [0.09] * 10).passed is False
    assert reused_skills(None, None).passed is False
    assert reused_skills([True] * 10, [0.5] * 10).ci == pytest.approx((0.7225, 1.0), abs=1e-4)


def test_a_model_is_corrected_only_from_a_wrong_start():
    assert corrected_model(np.full(10, 0.2), [0.92] * 10, 1.0).passed is True
    assert corrected_model(np.full(10, 0.3), [0.92] * 10, 1.0).passed is None
    assert corrected_model(np.full(10, 0.1), [0.92] * 10, 1.05).passed is False  # 0.876 of the optimum.
