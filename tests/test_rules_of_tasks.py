"""What is printed of a policy is read back as that policy, on every task with a name and on the usual ones of Gymnasium.

The policies are as they start: nothing is learned or played.
"""

import dataclasses
import re
import warnings

import gymnasium
import numpy as np
import pytest

from asap import ASAP, UserError
from asap.envs.catalog import NAMES
from asap.policy.build import plan_of
from asap.policy.host import Player
from asap.policy.rules.from_policy import CLOSE, SAME, sample_states
from asap.policy.rules.read import read_rules
from asap.policy.rules.rulebook import Vocabulary
from asap.show.words.explain import explain

NUM_STATES = 2000
FAMILIES = (
    *("CartPole", "Acrobot", "MountainCar", "MountainCarContinuous", "Pendulum"),
    *("FrozenLake", "CliffWalking", "Taxi", "Blackjack", "LunarLander", "BipedalWalker"),
)
OF_BOX2D = ("LunarLander", "BipedalWalker")
OWN = ("own_envs:Tanks", "own_envs:Follows")  # Choices of several parts, observations of several; numbers to set.
NUMBERED = ("FrozenLake", "CliffWalking", "Taxi")
REFUSED = ("Blackjack",)  # A tuple is no observation that a policy reads.


def newest(family: str) -> str:
    """By the version behind the name: which one is installed depends on the release."""
    found = [name for name in gymnasium.registry if re.fullmatch(rf"{family}-v\d+", name)]
    return max(found, key=lambda name: int(name.rpartition("v")[2]))


def untrained(name: str, **settings: object) -> ASAP:
    if name in OF_BOX2D:
        with warnings.catch_warnings():  # Of its own types: as errors they would end the process.
            warnings.simplefilter("ignore")
            pytest.importorskip("Box2D")
    return ASAP(name if name in (*NAMES, *OWN) else newest(name), seed=1, **settings)


def same_actions(model: ASAP) -> float:
    """The share of the sampled states in which the printed rules, read again, do as the policy does by itself."""
    policy, task = model.policy, model.tasks.tasks[0]
    vocabulary = Vocabulary.of(task.spec, len(task.descriptor))
    book = read_rules(explain(policy, model.tasks, shows_all=True).file, vocabulary).book
    states = sample_states(policy, task)
    assert len(states) >= NUM_STATES or vocabulary.numbered  # Of these, all that there are.
    said = book.act(vocabulary.values(states, np.tile(task.descriptor, (len(states), 1))))[1]
    player, bounds = Player(plan_of(policy, states.shape[1], model.tasks.descriptors)), vocabulary.action_bounds
    meant = np.array([player.act(state)[1] for state in states])
    if bounds is None:
        return float((said == meant).mean())
    return float((np.abs(said - bounds.theirs(meant)) <= CLOSE * bounds.scale).all(-1).mean())


def decided(model: ASAP) -> ASAP:
    """With skills that differ by much, as after learning: at the start, all of them do nearly the same."""
    rng, policy = np.random.default_rng(0), model.policy
    shape = np.shape(policy.skills.theta)
    theta = np.float32(rng.normal(size=shape) / np.sqrt(shape[-1]))
    model.policy = dataclasses.replace(policy, skills=dataclasses.replace(policy.skills, theta=theta))
    return model


@pytest.mark.parametrize("name", [*NAMES, *OWN, *(family for family in FAMILIES if family not in REFUSED)])
def test_printed_rules_act_as_the_policy(name):
    assert same_actions(untrained(name)) >= SAME


@pytest.mark.parametrize(
    "name", [*NAMES, *OWN, *(family for family in FAMILIES if family not in (*REFUSED, *NUMBERED))]
)
@pytest.mark.parametrize("settings", [{"hyperplanes": 3}, {"features": "poly2"}], ids=["three planes", "squares"])
def test_printed_rules_act_as_a_policy_whose_skills_differ(name, settings):
    assert same_actions(decided(untrained(name, **settings))) >= SAME


@pytest.mark.parametrize("name", ["CartPole", "Acrobot", "FrozenLake"])
def test_notes_explain_only_words_that_the_rules_use(name):
    """At the start, both skills of CartPole-v1 round to the same, so no test is printed."""
    model = untrained(name)
    explained = explain(model.policy, model.tasks, shows_all=True)
    assert any("within" in line for line in explained.rules) == any("within" in note for note in explained.notes)


@pytest.mark.parametrize("name", REFUSED)
def test_an_environment_without_such_observations_is_refused_in_one_line(name):
    with pytest.raises(UserError, match="observation_space: Tuple is not supported"):
        untrained(name)
