"""Where the defaults of environments that are not ours differ from the general ones: by what is observed, by the actions and
by the budget. No environment has settings of its own."""

from collections.abc import Mapping
from typing import Any

from asap.base.spec import Spec
from asap.config.presets import STEADY

PLANES_OF_CONTROLS, MOST_PLANES, FEW_INPUTS = 2, 4, 6  # Where the user says nothing.
SETTINGS = {
    "policy.start": "random",
    "policy.alpha_beta": 4.0,
    "policy.bias": True,
    "run.eval_episodes": 8,
    "run.final_episodes": 100,
    "run.deterministic": True,
}
PLAY_SETTINGS = {
    "learn.critic_features": 128,
    "learn.entropy": 0.01,
    "learn.convergence_tolerance": 0.0,
    "learn.averaging": 3.0,
    "learn.softening_floor": 0.02,
    "run.chunk": 1,
    "run.candidates": 256,
}
# From so many steps on there are enough of the long batches, and a heat of a race is longer than some of them.
LEAST_STEADY, LEAST_RACED = 100_000, 400_000
# Where weights are few, a search finds its way among them; where they are more, its trials would be noise.
MOST_SEARCHED = 150
STEADY_SETTINGS = {**STEADY, "learn.entropy": 0.03, "learn.critic_table": True}
LONG_BATCHES = {"learn.batch_steps": 2048, "learn.minibatch": 512}
PLANES_SETTINGS = {"policy.hyperplanes": PLANES_OF_CONTROLS, "learn.batch_steps": 1024, "learn.minibatch": 256}
LEARNERS = ("single", "single", "learner")
RACE_SETTINGS = {**LONG_BATCHES, "run.race": LEARNERS, "run.heat": 0.04}
SEARCH_SETTINGS = {"run.race": (*LEARNERS, "ars", "ars"), "run.finish": 0.3, "run.pick": 0.02}
# From logged data nothing is played but the learning curve; and what an action is worth needs no more chance in it.
DATA_SETTINGS = {
    "learn.critic_features": 128,
    "learn.entropy": 0.0,
    "learn.softening_floor": 0.02,
    "run.chunk": 50,
    "run.eval_episodes": 2,
}


def settings_of(spec: Spec, is_scaled: bool) -> Mapping[str, Any]:
    """As many skills as actions, if there are not too many.

    Skills of a single action need a plane wherever the action changes: with many observations too few are found.
    """
    if spec.continuous:
        return {**SETTINGS, "policy.hyperplanes": PLANES_OF_CONTROLS, "policy.skills": "linear"}
    if not is_scaled:  # A weight for every place: skills need hardly any planes.
        return {**SETTINGS, "policy.hyperplanes": 1, "policy.skills": "linear"}
    planes = min(max(1, (spec.num_actions - 1).bit_length()), MOST_PLANES)
    skills = "constant" if len(spec.observation_names) <= FEW_INPUTS else "linear"
    return {**SETTINGS, "policy.hyperplanes": planes, "policy.skills": skills}


def by_steps(spec: Spec, is_scaled: bool) -> tuple[tuple[int, Mapping[str, Any]], ...]:
    """From so many steps of budget on; larger ones add to smaller ones.

    Skills of one action each are found by the search for a start, where there are enough of them. Numbered states need no
    planes: each has a weight of its own.
    """
    if not is_scaled:
        return ((LEAST_STEADY, {**STEADY_SETTINGS, **LONG_BATCHES, "policy.hyperplanes": 0}),)
    if settings_of(spec, is_scaled)["policy.skills"] == "constant":
        return ()
    is_small = spec.num_actions * (len(spec.observation_names) + 1) <= MOST_SEARCHED
    race = {**RACE_SETTINGS, **(SEARCH_SETTINGS if is_small else {})}
    return (LEAST_STEADY, {**STEADY_SETTINGS, **PLANES_SETTINGS}), (LEAST_RACED, race)
