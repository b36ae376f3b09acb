"""Promise: the map of an environment that nobody has drawn shows which skill rules where it was visited."""

import dataclasses
import functools

import jax.numpy as jnp
import matplotlib.colors
import numpy as np
import pytest

from asap.base.errors import UserError
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.envs.gymnasium.task import describe
from asap.policy.features import Features, Polynomial
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import regions_at
from asap.policy.skills import GaussianSkills, GibbsSkills
from asap.show.figures.observed_map import deciding_inputs, observed_map
from asap.show.figures.palette import blend, skill_colour


@functools.cache
def task(name):
    return describe(EnvSource(name), EnvLimits())


def policy_of(beta, num_actions=2, sharpness=4.0):
    beta = jnp.atleast_2d(jnp.float32(beta))
    preferred = jnp.arange(2 ** len(beta))[:, None] % num_actions == jnp.arange(num_actions)
    skills = GibbsSkills(4.0 * preferred[..., None].astype(jnp.float32), jnp.float32(1))
    constant, linear = Features.of(Polynomial(0), (0,)), Features.of(Polynomial(1), tuple(range(beta.shape[1] - 1)))
    return ASAPPolicy(Partition(beta, jnp.float32(sharpness)), skills, linear, constant)


def visited(count, number=400):
    return np.float32(np.random.default_rng(0).normal(size=(number, count)))


def words_of(figure):
    legend = figure.legends[0]
    return [legend.get_title().get_text().replace("\n", " "), *(text.get_text() for text in legend.get_texts())]


def test_dots_have_the_colour_of_the_skill_that_rules_there():
    policy, states = policy_of([0.1, 0, 0, 1, 0.5]), visited(4)
    figure = observed_map(policy, task("CartPole-v1"), states, [0.4, 0.6], "a title")
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("pole angle", "pole angular velocity")
    dots = axes.collections[0]
    np.testing.assert_array_equal(dots.get_offsets(), states[:, [2, 3]])
    expected = [blend(skill_colour(int(s)), "#1A1A1A", 0.15) for s in states @ [0, 0, 1, 0.5] + 0.1 > 0]
    np.testing.assert_allclose(dots.get_facecolors(), [matplotlib.colors.to_rgba(colour) for colour in expected])
    assert words_of(figure)[1:] == ["skill 0: push left 98 % (used 40 %)", "skill 1: push right 98 % (used 60 %)"]
    assert figure.get_suptitle() == "a title"


def test_the_border_is_drawn_where_the_sides_change():
    figure = observed_map(policy_of([-0.5, 1.0, 0.0]), task("MountainCar-v0"), visited(2))
    assert "border" in [text.get_text() for text in figure.axes[0].texts]
    lines = [path.vertices for path in figure.axes[0].collections[-1].get_paths()]
    np.testing.assert_allclose(np.concatenate(lines)[:, 0], 0.5, atol=0.02)


def test_inputs_that_cancel_each_other_are_not_chosen():
    """The first two have the largest coefficients, and always the same sum."""
    states = visited(4)
    states[:, 1] = -states[:, 0]
    regions = regions_at(policy_of([0, 5, 5, 1, 0.6]), states, np.zeros(0))
    assert deciding_inputs(regions) == (2, 3)


def test_the_inputs_that_decide_are_found_among_many():
    states, beta = np.random.default_rng(0).normal(size=(500, 40)).astype(np.float32), np.zeros(41)
    beta[[4, 34]] = 1.0
    assert deciding_inputs(regions_at(policy_of(beta), states, np.zeros(0))) == (3, 33)


def test_a_grid_has_a_cell_for_each_state_with_its_action():
    beta = np.zeros((1, 17), np.float32)
    beta[0, 0], beta[0, [2, 3, 6]] = -1.0, 2.0
    states = np.eye(16, dtype=np.float32)[:15]
    axes = observed_map(policy_of(beta, num_actions=4, sharpness=20.0), task("FrozenLake-v1"), states).axes[0]
    assert len(axes.patches) == 16 and len(axes.texts) == 15
    rows = {text.get_position(): text.get_text() for text in axes.texts}
    assert rows[(1, 0)] == rows[(2, 0)] == rows[(1, 1)] == "down" and rows[(0, 0)] == "left"
    assert axes.patches[15].get_facecolor() == matplotlib.colors.to_rgba("#EDEDED")
    heights = [axes.transData.transform((0, row))[1] for row in range(4)]
    assert heights == sorted(heights, reverse=True)  # Row 0 is at the top, as the environment draws it.


def test_states_without_a_grid_stand_line_by_line():
    names = tuple(f"state {s}" for s in range(80))
    spec = dataclasses.replace(task("FrozenLake-v1").spec, observation_names=names)
    numbered = dataclasses.replace(task("FrozenLake-v1"), spec=spec)
    beta = np.random.default_rng(0).normal(size=(1, 81))
    axes = observed_map(policy_of(beta, num_actions=4), numbered, np.eye(80, dtype=np.float32)).axes[0]
    assert len(axes.patches) == 80 and not axes.texts
    assert axes.get_yticklabels()[1].get_text() == "state 11 ..."


def test_one_input_is_a_strip():
    spec = dataclasses.replace(task("CartPole-v1").spec, observation_names=("level",))
    one = dataclasses.replace(task("CartPole-v1"), spec=spec)
    figure = observed_map(policy_of([0.0, 1.0]), one, visited(1))
    assert figure.axes[0].get_xlabel() == "level" and len(words_of(figure)) == 3


def test_controls_are_told_by_their_range():
    linear = Features.of(Polynomial(1), (0, 1, 2))
    theta = jnp.zeros((2, 1, 4)).at[0, 0, 1].set(0.1).at[1, 0, 0].set(5.0)
    skills = GaussianSkills(theta, jnp.zeros((2, 1)))
    policy = ASAPPolicy(Partition(jnp.float32([[0, 1, 0, 0]]), jnp.float32(4)), skills, linear, linear)
    words = words_of(observed_map(policy, task("Pendulum-v1"), visited(3)))
    assert words[1].startswith("skill 0: torque -0.") and words[2] == "skill 1: torque 2"


def test_states_of_another_environment_are_refused():
    with pytest.raises(UserError, match=r"observations: must have shape \(n, 4\)"):
        observed_map(policy_of([0.0, 1, 1, 1, 1]), task("CartPole-v1"), visited(3))


def test_every_map_can_be_saved(tmp_path):
    observed_map(policy_of([[0.1, 0, 0, 1, 0.5], [0, 1, 0, 0, 0]]), task("CartPole-v1"), visited(4)).savefig(
        tmp_path / "map.png"
    )
    assert (tmp_path / "map.png").stat().st_size > 10_000
