"""What a skill does, in a few words for legends of pictures."""

import re

import numpy as np

from asap.base.numbers import main_actions
from asap.base.spec import Task
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import Regions, controls_at, mean_actions
from asap.policy.rules.write import LETTERS
from asap.policy.skills import GaussianSkills

MOST_CONTROLS = 3
CELL = re.compile(r"row (\d+) column (\d+)")


def letter(plane: int) -> str:
    """What a plane is called where there are several; counted from 1."""
    return LETTERS[plane - 1] if plane <= len(LETTERS) else f"P{plane}"


def skill_in_words(policy: ASAPPolicy, task: Task, regions: Regions, skill: int) -> str:
    """`skill 0: push left 97 %`, `skill 0: torque -1.2 to 0.4`: at the states of `regions` that it rules."""
    if isinstance(policy.skills, GaussianSkills):
        return f"skill {skill}: {', '.join(_controls(policy, task, regions, skill))}"
    actions = mean_actions(policy, regions, skill, task.descriptor)
    return f"skill {skill}: {main_actions(task.spec.action_names, actions, smallest=0.05)}"


def _controls(policy: ASAPPolicy, task: Task, regions: Regions, skill: int) -> list[str]:
    """Where the means lie, but for a twentieth at each end."""
    ruled, spec = regions.rulers == skill, task.spec
    states = regions.observations[ruled] if ruled.any() else regions.observations
    means = controls_at(policy, np.full(len(states), skill), states, task.descriptor, spec)
    ranges = [f"{name} {_range(*np.quantile(of, [0.05, 0.95]))}" for name, of in zip(spec.action_names, means.T)]
    more = len(ranges) - MOST_CONTROLS
    return ranges[:MOST_CONTROLS] + ([f"and {more} more"] if more > 0 else [])


def _range(low: float, high: float) -> str:
    low, high = f"{low:.2g}", f"{high:.2g}"
    return low if low == high else f"{low} to {high}"
