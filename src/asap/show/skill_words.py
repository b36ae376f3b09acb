"""What a skill does where it was visited, in a few words for a legend."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from asap.base.numbers import main_actions
from asap.envs.gymnasium.actions import ControlUnits
from asap.envs.gymnasium.task import ForeignTask
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import Regions, mean_actions
from asap.policy.skills import GaussianSkills

MOST_CONTROLS = 3


def skill_in_words(policy: ASAPPolicy, task: ForeignTask, visited: Regions, skill: int) -> str:
    """`skill 0: push left 97 %`, `skill 0: torque -1.2 to 0.4`."""
    names = task.spec.action_names
    if isinstance(policy.skills, GaussianSkills):
        return f"skill {skill}: {', '.join(_controls(policy, task, visited, skill))}"
    return f"skill {skill}: {main_actions(names, mean_actions(policy, visited, skill, np.zeros(0)), smallest=0.05)}"


def _controls(policy: ASAPPolicy, task: ForeignTask, visited: Regions, skill: int) -> list[str]:
    """Where the means lie, but for a twentieth at each end."""
    ruled = visited.rulers == skill
    states = visited.observations[ruled] if ruled.any() else visited.observations
    units, names = ControlUnits.of(task.action_space), task.spec.action_names
    means = np.asarray(_means(policy, jnp.asarray(states)))[:, skill] * units.scale + units.shift
    means = np.clip(means, units.low, units.high)
    ranges = [f"{name} {_range(*np.quantile(values, [0.05, 0.95]))}" for name, values in zip(names, means.T)]
    more = len(ranges) - MOST_CONTROLS
    return ranges[:MOST_CONTROLS] + ([f"and {more} more"] if more > 0 else [])


def _range(low: float, high: float) -> str:
    low, high = f"{low:.2g}", f"{high:.2g}"
    return low if low == high else f"{low} to {high}"


@jax.jit
def _means(policy: ASAPPolicy, states: Float[Array, "N O"]) -> Float[Array, "N S A"]:
    return jax.vmap(lambda x: policy.skills.means(policy.phi(x, jnp.zeros(0))))(states)
