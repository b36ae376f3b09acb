"""Promise: the map of any environment shows which skill rules where it was visited, and what it does there."""

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
from asap.show.figures import policy_map
from asap.show.figures.inputs import deciding_inputs
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
    figure = policy_map(policy, task("CartPole-v1"), states, [0.4, 0.6], "a title")
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("pole angle", "pole angular velocity")
    dots = axes.collections[0]
    np.testing.assert_array_equal(dots.get_offsets(), states[:, [2, 3]])
    expected = [blend(skill_colour(int(s)), "#1A1A1A", 0.15) for s in states @ [0, 0, 1, 0.5] + 0.1 > 0]
    np.testing.assert_allclose(dots.get_facecolors(), [matplotlib.colors.to_rgba(colour) for colour in expected])
    assert words_of(figure)[1:] == ["skill 0: push left 98 % (used 40 %)", "skill 1: push right 98 % (used 60 %)"]
    assert figure.get_suptitle() == "a title"


def test_areas_that_share_a_skill_have_its_colour_and_its_words():
    """Four regions, two skills: those across from each other have the same."""
    policy, states = policy_of([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], sharpness=20.0), visited(2)
    partition = Partition(policy.partition.beta, policy.partition.alpha_beta, (0, 1, 1, 0))
    skills = GibbsSkills(policy.skills.theta[:2], jnp.float32(1))
    figure = policy_map(
        dataclasses.replace(policy, partition=partition, skills=skills), two_actions(task("MountainCar-v0")), states
    )
    axes, image = figure.axes[0], np.asarray(figure.axes[0].images[0].get_array())
    np.testing.assert_allclose(image[10, 10], image[-10, -10], atol=1e-3)
    np.testing.assert_allclose(image[10, -10], image[-10, 10], atol=1e-3)
    assert np.abs(image[10, 10] - image[10, -10]).max() > 0.1
    names = [
        (text.get_text(), *np.sign(text.get_position())) for text in axes.texts if text.get_text() in ("on", "off")
    ]
    assert sorted(names) == [("off", -1, -1), ("off", 1, 1), ("on", -1, 1), ("on", 1, -1)]
    assert [entry.split(":")[0] for entry in words_of(figure)[1:]] == ["skill 0", "skill 1"]


def two_actions(other):
    return dataclasses.replace(other, spec=dataclasses.replace(other.spec, action_names=("off", "on")))


def test_a_line_that_leaves_neither_at_the_top_nor_at_the_right_has_its_name_in_the_middle():
    corner = policy_of([[-2.0, -1.0, -1.0], [0.0, 1.0, 0.0]])
    (text,) = [
        text for text in policy_map(corner, task("MountainCar-v0"), visited(2)).axes[0].texts if text.get_text() == "A"
    ]
    assert text.get_position()[0] + text.get_position()[1] == pytest.approx(-2.0, abs=0.05)


def test_long_names_do_not_leave_the_picture():
    names = tuple(f"{way} the water + valve open" for way in ("drain", "hold"))
    spec = dataclasses.replace(task("CartPole-v1").spec, action_names=names * 4)
    many = dataclasses.replace(task("CartPole-v1"), spec=spec)
    skills = GibbsSkills(jnp.zeros((2, 8, 1)), jnp.float32(1))
    figure = policy_map(dataclasses.replace(policy_of([0.1, 0, 0, 1, 0.5]), skills=skills), many, visited(4))
    figure.canvas.draw()
    for text in figure.legends[0].get_texts():
        assert text.get_window_extent().x1 <= figure.bbox.x1 and text.get_text().count(" %") == 8


def test_the_border_is_drawn_where_the_sides_change():
    figure = policy_map(policy_of([-0.5, 1.0, 0.0]), task("MountainCar-v0"), visited(2))
    assert "boundary" in [text.get_text() for text in figure.axes[0].texts]
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
    axes = policy_map(policy_of(beta, num_actions=4, sharpness=20.0), task("FrozenLake-v1"), states).axes[0]
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
    axes = policy_map(policy_of(beta, num_actions=4), numbered, np.eye(80, dtype=np.float32)).axes[0]
    assert len(axes.patches) == 80 and not axes.texts
    assert axes.get_yticklabels()[1].get_text() == "state 11 ..."


def test_one_input_is_a_strip():
    spec = dataclasses.replace(task("CartPole-v1").spec, observation_names=("level",))
    one = dataclasses.replace(task("CartPole-v1"), spec=spec)
    figure = policy_map(policy_of([0.0, 1.0]), one, visited(1))
    assert figure.axes[0].get_xlabel() == "level" and len(words_of(figure)) == 3


def test_controls_are_told_by_their_range():
    linear = Features.of(Polynomial(1), (0, 1, 2))
    theta = jnp.zeros((2, 1, 4)).at[0, 0, 1].set(0.1).at[1, 0, 0].set(5.0)
    skills = GaussianSkills(theta, jnp.zeros((2, 1)))
    policy = ASAPPolicy(Partition(jnp.float32([[0, 1, 0, 0]]), jnp.float32(4)), skills, linear, linear)
    words = words_of(policy_map(policy, task("Pendulum-v1"), visited(3)))
    assert words[1].startswith("skill 0: torque -0.") and words[2] == "skill 1: torque 2"


def sets(means, beta, num_inputs):
    """Skills that set the same numbers everywhere; -1 and 1 are the bounds."""
    linear, constant = Features.of(Polynomial(1), tuple(range(num_inputs))), Features.of(Polynomial(0), (0,))
    skills = GaussianSkills(jnp.float32(means)[..., None], jnp.zeros(np.shape(means)))
    return ASAPPolicy(Partition(jnp.atleast_2d(jnp.float32(beta)), jnp.float32(20)), skills, linear, constant)


def two_controls(**changes):
    """Two inputs; a thrust from 0 to 10 and a rudder from -30 to 30."""
    told = {"action_names": ("thrust", "rudder"), "action_low": (0.0, -30.0), "action_high": (10.0, 30.0)}
    names = {"observation_names": ("x", "y"), "observation_low": (-9.0,) * 2, "observation_high": (9.0,) * 2}
    spec = dataclasses.replace(task("Pendulum-v1").spec, **{**names, **told, **changes})
    return dataclasses.replace(task("Pendulum-v1"), spec=spec)


def viridis(share):
    return matplotlib.colormaps["viridis"](share)[:3]


def bars_of(figure):
    """The label and the limits of each colour bar."""
    bars = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    return [(bar.get_xlabel(), *np.round(bar.get_xlim(), 3)) for bar in bars]


def test_controls_are_coloured_by_the_mean_action():
    """Thrust 2 and 7 on the two sides of x = 0, rudder 15 and beyond its bound of 30: the ends of both scales."""
    policy = sets([[-0.6, 0.5], [0.4, 3.0]], [0.0, 1.0, 0.0], 2)
    states = visited(2)
    figure = policy_map(policy, two_controls(), states, [0.5, 0.5])
    assert bars_of(figure) == [("mean thrust", 2.0, 7.0), ("mean rudder", 15.0, 30.0)]
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == 2
    for axes in panels:
        image = np.asarray(axes.images[0].get_array())
        np.testing.assert_allclose(image[90, 10], viridis(0.0))
        np.testing.assert_allclose(image[90, 230], viridis(1.0))
        dots = axes.collections[0].get_facecolors()[:, :3]
        np.testing.assert_allclose(dots, [viridis(1.0 if x > 0 else 0.0) for x in states[:, 0]])
        tags = {text.get_text(): text.get_position()[0] for text in axes.texts if text.get_text().startswith("skill")}
        assert tags["skill 0"] < 0 < tags["skill 1"]
        border = np.concatenate([path.vertices for path in axes.collections[-1].get_paths()])
        np.testing.assert_allclose(border[:, 0], 0.0, atol=0.02)
    assert words_of(figure)[1:] == [
        "skill 0: thrust 2, rudder 15 (used 50 %)",
        "skill 1: thrust 7, rudder 30 (used 50 %)",
    ]


def test_a_skill_that_follows_the_state_is_not_one_colour():
    """A torque of 2 times the sine: the background and the dots run through the whole scale."""
    linear = Features.of(Polynomial(1), (0, 1, 2))
    skills = GaussianSkills(jnp.zeros((2, 1, 4)).at[:, 0, 2].set(1.0), jnp.zeros((2, 1)))
    policy = ASAPPolicy(Partition(jnp.float32([[0, 0, 0, 1]]), jnp.float32(4)), skills, linear, linear)
    figure = policy_map(policy, task("Pendulum-v1"), np.clip(visited(3), -1, 1))
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("sin angle", "angular velocity")
    row = np.asarray(axes.images[0].get_array())[90]
    np.testing.assert_allclose(row[[0, -1]], [viridis(0.0), viridis(1.0)], atol=0.02)
    assert len(np.unique(row, axis=0)) > 100 and bars_of(figure) == [("mean torque", -2.0, 2.0)]


@pytest.mark.parametrize(("count", "shown"), [(1, 1), (6, 6), (7, 6)])
def test_of_many_controls_the_first_are_shown_and_that_is_said(count, shown, tmp_path):
    names = tuple(f"joint {i}" for i in range(count))
    many = two_controls(action_names=names, action_low=(-1.0,) * count, action_high=(1.0,) * count)
    policy = sets(np.linspace(-1, 1, 2 * count).reshape(2, count), [0.0, 1.0, 0.0], 2)
    figure = policy_map(policy, many, visited(2), None, "title")
    figure.savefig(tmp_path / "map.png")
    assert [bar[0] for bar in bars_of(figure)] == [f"mean joint {i}" for i in range(shown)]
    assert figure.get_suptitle() == ("title" if shown == count else "title (the first 6 of 7 actions)")


def test_skills_that_all_set_the_same_can_be_drawn(tmp_path):
    figure = policy_map(sets([[0.0, 1.0], [0.0, 1.0]], [0.0, 1.0, 0.0], 2), two_controls(), visited(2))
    figure.savefig(tmp_path / "map.png")
    np.testing.assert_allclose(np.asarray(figure.axes[0].images[0].get_array())[0, 0], viridis(0.5), atol=0.01)


def test_controls_along_one_input_are_curves():
    one = two_controls(observation_names=("level",), observation_low=(-9.0,), observation_high=(9.0,))
    figure = policy_map(sets([[-0.6, 0.5], [0.4, 1.0]], [0.0, 1.0], 1), one, visited(1))
    for axes, label, values in zip(figure.axes, ("mean thrust", "mean rudder"), ((2, 7), (15, 30)), strict=True):
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("level", label)
        x, y = np.asarray(axes.collections[0].get_offsets()).T
        np.testing.assert_allclose(y, np.where(x > 0, values[1], values[0]), rtol=1e-6)


def test_cells_of_controls_have_the_colour_of_their_action_and_the_frame_of_their_skill():
    names = tuple(f"row 0 column {c}" for c in range(3))
    set_one = {"action_names": ("thrust",), "action_low": (0.0,), "action_high": (10.0,)}
    cells = two_controls(observation_names=names, numbered=True, **set_one)
    policy = sets([[-0.6], [0.4]], [-1.0, 0.0, 2.0, 2.0], 3)
    figure = policy_map(policy, cells, np.eye(3, dtype=np.float32)[:2])
    axes = figure.axes[0]
    faces = [patch.get_facecolor()[:3] for patch in axes.patches if patch.get_fill()]
    frames = [matplotlib.colors.to_hex(patch.get_edgecolor()).upper() for patch in axes.patches if not patch.get_fill()]
    np.testing.assert_allclose(faces, [viridis(0.0), viridis(1.0), matplotlib.colors.to_rgb("#EDEDED")])
    assert frames == [skill_colour(0), skill_colour(1)]
    assert [text.get_text() for text in axes.texts] == ["2", "7"] and bars_of(figure) == [("mean thrust", 2.0, 7.0)]


def test_a_map_over_drifting_numbers_says_so():
    spec = dataclasses.replace(task("CartPole-v1").spec, normalized=True)
    drifting = dataclasses.replace(task("CartPole-v1"), spec=spec)
    words = words_of(policy_map(policy_of([0.1, 0, 0, 1, 0.5]), drifting, visited(4)))
    assert words[0].endswith("; inputs in the units of NormalizeObservation, which drift")


def test_states_of_another_environment_are_refused():
    with pytest.raises(UserError, match=r"observations: must have shape \(n, 4\)"):
        policy_map(policy_of([0.0, 1, 1, 1, 1]), task("CartPole-v1"), visited(3))


def test_every_map_can_be_saved(tmp_path):
    policy_map(policy_of([[0.1, 0, 0, 1, 0.5], [0, 1, 0, 0, 0]]), task("CartPole-v1"), visited(4)).savefig(
        tmp_path / "map.png"
    )
    assert (tmp_path / "map.png").stat().st_size > 10_000
