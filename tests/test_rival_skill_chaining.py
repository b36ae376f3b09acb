"""Skill chaining finds known initiation sets, labels its data by the steps that lead to a target, and ends options where it should."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.keys import fold, root
from asap.paper.check_skill_chaining import IN_CORRIDOR, of_corridor
from asap.policy.policy import NO_SKILL
from asap.rivals import initiation
from asap.rivals.chain_learner import RewardsSeen
from asap.rivals.features import Inputs01, fourier
from asap.rivals.option_chain import ChainBases, OptionChain

YES, NO = True, False


def test_the_corridors_initiation_sets_are_the_known_intervals():
    claims = of_corridor([100, 101], steps=6000)
    assert [claim.passed for claim in claims] == [True] * 3, [claim.ours for claim in claims]


def test_without_the_labels_of_the_last_steps_no_option_is_learned(monkeypatch):
    labelled = initiation.labelled

    def all_negative(hit, ended, tmax):
        positive, known = labelled(hit, ended, tmax)
        return jnp.zeros_like(positive), known

    monkeypatch.setattr(initiation, "labelled", all_negative)
    changed = dataclasses.replace(IN_CORRIDOR, refit_every=201)  # Compiled anew, with the break.
    claims = of_corridor([100, 101], changed, steps=6000)
    assert not any(claim.passed for claim in claims)


def test_steps_are_labelled_by_what_they_lead_to():
    hit = np.array([NO, NO, NO, YES, NO, NO, NO, NO, NO])
    ended = np.array([NO, NO, NO, YES, NO, YES, NO, NO, NO])
    positive, known = initiation.labelled(hit[:, None], ended, tmax=2)
    # The hit ends an episode: only it and the step before reach the target in two steps. The next episode ends without.
    assert np.asarray(positive)[:, 0].tolist() == [NO, NO, YES, YES, NO, NO, NO, NO, NO]
    # Of the last step it is not known yet where two steps lead.
    assert np.asarray(known)[:, 0].tolist() == [YES, YES, YES, YES, YES, YES, YES, YES, NO]


def test_the_log_forgets_its_oldest_steps_and_a_target_not_reached_leaves_a_set_as_it_is():
    log = initiation.empty_log(4, 1)
    for k in range(6):
        x = jnp.float32([0.1 * k])
        log = initiation.write(log, x, x + 0.1, jnp.array(k == 5), jnp.array(False), jnp.array(k == 5))
    assert np.asarray(log.before)[:, 0] == pytest.approx([0.4, 0.5, 0.2, 0.3])
    weights = jnp.float32(
        [[0.5, -1.0], [0.0, 0.0]]
    )  # The first set, x < 0.75, is the second's target: nothing enters it.
    refit = jax.jit(initiation.refitted, static_argnums=(2, 3, 4))
    first, second = refit(weights, log, 1, 2, 8)
    # Steps from 0.2 to 0.5, of which the last two are in time: the set begins half way between 0.3 and 0.4.
    assert -first[0] / first[1] == pytest.approx(2 * 0.35 - 1, abs=0.02) and first[1] > 0
    assert second.tolist() == [0.0, 0.0]


def test_few_failures_do_not_count_as_much_as_many_successes():
    p = jnp.ones((10, 1))
    positive = np.arange(10)[:, None] < np.array([9, 1])  # Nine successes of ten, and one.
    weights = jax.jit(initiation.fit, static_argnums=3)(p, positive, np.ones((10, 2), bool), 20)
    # log(9) for the first, and 0 for the second, whose one success counts half of the total; the ridge pulls to 0.
    assert weights[:, 0].tolist() == pytest.approx([math.log(9), 0.0], abs=0.05)


@pytest.fixture
def chain() -> OptionChain:
    """On [0, 1]: option 0 begins right of 0.5 and option 1 right of 0.25; options push with action 1, choices prefer options."""
    inputs = Inputs01((0,), (0.0,), (1.0,), 0)
    bases = ChainBases(fourier(inputs, 1), fourier(inputs, 1), 1, epsilon=0.0, tmax=10**6)
    sets = jnp.float32([[0.0, 1.0], [0.5, 1.0]])
    policies = jnp.float32([[[0.0, 0.0], [1.0, 0.0]]] * 2)
    values = jnp.float32([[0.2, 0.0], [0.1, 0.0], [1.0, 0.0], [1.0, 0.0]])
    return OptionChain(values, policies, sets, jnp.ones(2, bool), bases)


def choose(chain: OptionChain, x: float, previous: int) -> tuple[int, int]:
    skill, action = chain.choose(chain.draws(fold(root(0), 1)), jnp.float32([x]), jnp.zeros(0), jnp.int32(previous))
    return int(skill), int(action)


def test_an_option_ends_outside_of_its_set_and_at_its_target(chain):
    assert choose(chain, 0.1, NO_SKILL) == (NO_SKILL, 0)  # No set contains this: the best action.
    assert choose(chain, 0.3, NO_SKILL) == (1, 1)
    assert choose(chain, 0.3, 1) == (1, 1)
    assert choose(chain, 0.2, 1) == (NO_SKILL, 0)  # It has left its set.
    assert choose(chain, 0.6, 1) == (0, 1)  # It is in its parent's set.
    assert choose(chain, 0.3, 0) == (1, 1)


def test_an_option_goes_on_though_another_choice_has_become_better(chain):
    better = dataclasses.replace(chain, values=chain.values.at[0].set(5.0))
    assert choose(better, 0.3, NO_SKILL) == (NO_SKILL, 0) and choose(better, 0.3, 1) == (1, 1)


def test_an_option_in_gestation_is_not_chosen(chain):
    young = dataclasses.replace(chain, usable=jnp.array([True, False]))
    assert choose(young, 0.3, NO_SKILL) == (NO_SKILL, 0) and choose(young, 0.6, NO_SKILL) == (0, 1)


@pytest.mark.parametrize(
    ("best_on_the_way", "last", "is_goal"),
    [(-1.0, 99.0, YES), (-1.0, -1.0, YES), (-1.0, -100.0, NO), (1.0, 1.0, NO), (0.0, 0.0, NO), (0.0, 1.0, YES)],
    ids=["rooms", "mountain car", "crash", "cart pole", "hole", "frozen lake"],
)
def test_a_good_end_is_told_from_a_bad_one_by_its_reward(best_on_the_way, last, is_goal):
    rewards = RewardsSeen(jnp.float32(1.0), jnp.float32(best_on_the_way))
    assert bool(rewards.is_goal(jnp.float32(last), jnp.array(True))) == is_goal
    assert not rewards.is_goal(jnp.float32(last), jnp.array(False))
