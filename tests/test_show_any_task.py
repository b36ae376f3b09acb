"""Promise: words and maps follow from a task's spec and descriptor, never from its class, and hold for one skill
too."""

import ast
import json
import warnings
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import matplotlib.colors
import numpy as np
import pytest
from matplotlib.quiver import Quiver
from plain_task import SPEC, Plain
from printed_rules import Printed

import asap.policy
import asap.show
from asap.base.errors import UserError
from asap.base.spec import Task, TaskSet, Unit
from asap.envs.catalog import find
from asap.policy.build import plan_of
from asap.policy.features import Features, Polynomial
from asap.policy.host import Player
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.skills import GaussianSkills, GibbsSkills
from asap.show.figures import partition_gallery, policy_map
from asap.show.figures.palette import SKILL_COLOURS, blend
from asap.show.words.explain import explain

CELLS = tuple(f"row {row} column {column}" for row in range(2) for column in range(3))
GRID = replace(SPEC, observation_names=CELLS, observation_low=(0.0,) * 6, observation_high=(1.0,) * 6, numbered=True)
CONTROLS = replace(SPEC, action_names=("torque",), continuous=True, action_low=(0.0,), action_high=(10.0,))
CONSTANT = Features.of(Polynomial(0), (0,))
LINEAR = Features.of(Polynomial(1), (0, 1))


def build(beta, theta, psi=LINEAR, phi=CONSTANT):
    skills = GibbsSkills(jnp.asarray(theta, jnp.float32), jnp.float32(1))
    return ASAPPolicy(Partition(jnp.asarray(beta, jnp.float32), jnp.float32(20)), skills, psi, phi)


def controls(num_planes=1, psi=LINEAR):
    theta = np.random.default_rng(3).normal(size=(2**num_planes, 1, 3))
    skills = GaussianSkills(jnp.float32(theta), jnp.zeros((2**num_planes, 1)))
    beta = np.random.default_rng(4).normal(size=(num_planes, psi.size(1)))
    return ASAPPolicy(Partition(jnp.float32(beta), jnp.float32(20)), skills, psi, LINEAR)


LEFT_RIGHT = np.log([[[0.9], [0.1]], [[0.2], [0.8]]])
CUT = build([[0.1, -1.0, 2.0]], LEFT_RIGHT)


def visited(count=2, number=300):
    return np.float32(np.random.default_rng(0).normal(size=(number, count)))


def legend_of(figure):
    legend = figure.legends[0]
    return [legend.get_title().get_text(), *(text.get_text() for text in legend.get_texts())]


# --- Words


def test_the_plain_task_is_a_task():
    assert isinstance(Plain(), Task)


@pytest.mark.parametrize(
    "tasks",
    [
        [Plain()],
        [Plain(descriptor=(0.5,))],
        [Plain(spec=replace(SPEC, units=(Unit("m"), Unit("m/s"))))],
        [Plain(spec=replace(SPEC, place="street"))],
        [Plain("a"), Plain("b")],
        [Plain("a", descriptor=(0.0,)), Plain("b", descriptor=(1.0,))],
    ],
    ids=["nothing", "descriptor", "units", "place", "several", "several-descriptors"],
)
def test_there_is_one_grammar_for_every_task(tasks):
    explanation = explain(CUT, tasks, [0.5, 0.5])
    assert explanation.rules == explain(CUT, [Plain()], [0.5, 0.5]).rules
    assert explanation.text == explain(CUT, TaskSet(tuple(tasks), (1.0,) * len(tasks)), [0.5, 0.5]).text
    json.dumps(explanation.as_dict(), allow_nan=False)


def test_units_stand_beside_numbers_where_all_terms_have_the_same():
    metres = replace(SPEC, units=(Unit("m"), Unit("m")))
    mixed = replace(SPEC, units=(Unit("m"), Unit("m/s")))
    with_units, without = (" ".join(explain(CUT, [Plain(spec=spec)], digits=2).rules) for spec in (metres, mixed))
    assert "velocity - 0.5*position > -0.05 m within 0.055 m then" in with_units
    assert "velocity - 0.5*position > -0.05 within 0.055 then" in without


def test_numbers_are_read_in_the_units_of_the_spec():
    """Observed from -1 to 1, read in metres from 0 to 10: the scaling is multiplied out, for both sides of the rules."""
    spec = replace(SPEC, observation_low=(-1.0, -1.0), observation_high=(1.0, 1.0), units=(Unit("m", 5.0, 5.0),) * 2)
    psi = replace(LINEAR, shift=np.float32([0.2, -0.1]), scale=np.float32([3.0, 0.5]))
    policy = build([[0.1, -0.4, 2.0]], np.random.default_rng(0).normal(size=(2, 2, 3)), psi, psi)
    explanation = explain(policy, [Plain(spec=spec)])
    x = np.float32(np.random.default_rng(1).uniform(-1, 1, (1000, 2)))
    values = {name: 5.0 + 5.0 * column for name, column in zip(SPEC.observation_names, x.T.astype(float))}
    said = Printed(explanation.rules, values, SPEC.action_names, "m").followed().argmax(0)
    for each, least in ((explanation.book.policy(), 0.999), (policy, 0.997)):
        player = Player(plan_of(each, 2))
        assert np.mean(said == [player.act(state)[1] for state in x.astype(float)]) >= least


def test_tasks_that_the_policy_does_not_tell_apart_share_their_rules():
    one, both = explain(CUT, [Plain("a")]), explain(CUT, [Plain("a"), Plain("b")])
    assert both.text == one.text.replace("a: 1 plane", "a and b: 1 plane")


def test_numbers_to_set_are_told_in_the_units_of_the_spec():
    text = explain(controls(), [Plain(spec=CONTROLS)]).text
    assert "torque = " in text and "(+- 5)" in text and "torque is kept within 0 to 10." in text


def test_numbers_to_set_may_differ_from_task_to_task():
    tasks = [Plain(name, CONTROLS, (m,)) for name, m in (("a", 0.0), ("b", 1.0))]
    policy = controls(psi=Features.of(Polynomial(1), (0, 1), "interactions"))
    both = explain(policy, tasks)
    assert "position*m1" in "\n".join(both.rules) and "In a (m1 0):" in both.notes and "In b (m1 1):" in both.notes
    assert "m1" not in explain(policy, tasks[1:]).text


# --- Maps


def test_a_map_is_drawn_on_the_background_of_the_place():
    beta, theta = [[-1.0, 1.0, 1.0]], np.zeros((2, 4, 1))
    figure = policy_map(build(beta, theta), find("two-rooms"), None, [0.6, 0.4], "a title")
    assert figure.axes[0].findobj(Quiver) and figure.get_suptitle() == "a title"
    pitch = policy_map(build([[0.0, 0.0, 1.0]], np.zeros((2, 3, 1))), find("striker-r1"), None)
    assert "goal" in [text.get_text() for text in pitch.axes[0].texts] and not pitch.axes[0].findobj(Quiver)


@pytest.mark.parametrize("place", ["", "street"])
def test_a_map_without_a_background_shows_what_was_visited(place):
    states, task = visited(), Plain(spec=replace(SPEC, place=place))
    figure = policy_map(CUT, task, states, [0.6, 0.4])
    np.testing.assert_array_equal(figure.axes[0].collections[0].get_offsets(), states)
    assert (figure.axes[0].get_xlabel(), figure.get_suptitle()) == ("position", "plain")
    with pytest.raises(UserError, match="observations: .*give states that were visited"):
        policy_map(CUT, task, states[:0])


def test_a_map_of_what_was_not_played_says_so():
    """States are then drawn by the mean and deviation that the policy has learned to scale by."""
    psi = replace(CUT.psi, shift=np.float32([3.0, -1.0]), scale=np.float32([1 / 0.5, 1 / 0.1]))
    figure = policy_map(replace(CUT, psi=psi), Plain(), None)
    dots = np.asarray(figure.axes[0].collections[0].get_offsets())
    np.testing.assert_allclose(dots[:, 1].mean(), -1.0, atol=0.01)
    np.testing.assert_allclose(dots[:, 1].std(), 0.1, atol=0.01)
    assert abs(np.median(dots[:, 0]) - 3.0) < 0.05 and dots[:, 0].max() <= np.float32(4.8)
    assert legend_of(figure)[0].startswith("nothing was played")


def test_numbered_states_are_cells():
    psi = Features.of(Polynomial(1), tuple(range(6)))
    policy = build([[-1.0, 2.0, 0, 0, 0, 0, 0]], LEFT_RIGHT, psi)
    axes = policy_map(policy, Plain(spec=GRID), np.eye(6, dtype=np.float32)).axes[0]
    assert len(axes.patches) == 6
    assert {text.get_position(): text.get_text() for text in axes.texts}[(0, 0)] == "push\nright"


@pytest.mark.parametrize("m", [-1.0, 1.0])
def test_the_map_is_that_of_the_descriptor(m):
    policy = build([[0.0, 0, 0, 0, 1.0, 0]], LEFT_RIGHT, Features.of(Polynomial(1), (0, 1), "interactions"))
    states = visited()
    dots = policy_map(policy, Plain(descriptor=(m,)), states).axes[0].collections[0]
    expected = [blend(SKILL_COLOURS[int(m * x > 0)], "#1A1A1A", 0.15) for x in states[:, 0]]
    np.testing.assert_allclose(dots.get_facecolors(), [matplotlib.colors.to_rgba(colour) for colour in expected])


# --- One skill everywhere: K = 0


def alone(psi, theta, phi=CONSTANT):
    return build(np.zeros((0, psi.size(0))), theta, psi, phi)


PUSH_RIGHT = alone(LINEAR, np.log([[[0.001], [0.999]]]))
UP_RIGHT = alone(LINEAR, np.log([[[0.45], [0.001], [0.548], [0.001]]]))
DRIBBLE = alone(Features.of(Polynomial(2), (2, 3)), np.log([[[0.02], [0.97], [0.01]]]))
TABLE = Features.of(Polynomial(1), tuple(range(6)))
BY_CELL = alone(TABLE, np.float32([[[0, 1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1]]]), TABLE)


@pytest.mark.parametrize("batch", [(), (7,)])
def test_without_planes_the_one_skill_is_certain(batch):
    x, m = jnp.ones((2, *batch)), jnp.zeros((0, *batch))
    log_probs = PUSH_RIGHT.skill_log_probs(x, m)
    assert log_probs.shape == (1, *batch) and not np.asarray(log_probs).any()
    np.testing.assert_allclose(np.exp(PUSH_RIGHT.action_log_probs(x, m))[1], np.full(batch, 0.999), rtol=1e-5)
    skill = PUSH_RIGHT.partition.choose((), PUSH_RIGHT.psi(x, m))
    assert skill.shape == batch and skill.dtype == jnp.int32 and not np.asarray(skill).any()


def test_without_planes_there_are_words_for_everywhere():
    assert explain(UP_RIGHT, [find("two-rooms"), find("flipped-two-rooms")], [1.0], [50.0]).text == (
        "two-rooms and flipped-two-rooms: no planes, 1 skill.\n"
        "\n"
        "  right (55 %), up (45 %)  # skill 0: used in 100 % of the steps, 50 steps at a time"
    )
    assert explain(PUSH_RIGHT, [Plain()], [1.0], [200.0]).text == (
        "plain: no planes, 1 skill.\n\n  push right (100 %)  # skill 0: used in 100 % of the steps, 200 steps at a time"
    )


@pytest.mark.parametrize(
    ("policy", "spec", "rules"),
    [
        (alone(TABLE, [[[3.0], [0.0]]]), GRID, "  push left (95 %)"),
        (BY_CELL, GRID, "  in row 1 columns 0 to 2 then push right (100 %)\n  otherwise push left (100 %)"),
        (
            alone(LINEAR, [[[0, 1, 0], [0, -1, 0]]], LINEAR),
            SPEC,
            "  push left if position > 0 within 1, else push right",
        ),
        (controls(0), CONTROLS, "  torque = "),
    ],
    ids=["cells", "table", "scores", "controls"],
)
def test_rules_without_planes(policy, spec, rules):
    explanation = explain(policy, [Plain(spec=spec)])
    said = "\n".join(line.split("  # ")[0] for line in explanation.text.splitlines())
    assert said.startswith(f"plain: no planes, 1 skill.\n\n{rules}")
    json.dumps(explanation.as_dict(), allow_nan=False)


@pytest.mark.parametrize("policy", [PUSH_RIGHT, alone(LINEAR, np.ones((1, 2, 3)), LINEAR), controls(0)])
def test_the_printed_policy_without_planes_can_be_played(policy):
    task = Plain(spec=SPEC if isinstance(policy.skills, GibbsSkills) else CONTROLS)
    chosen = []
    for each in (policy, explain(policy, [task]).book.policy()):
        player = Player(plan_of(each, 2))
        player.begin(np.random.default_rng(0), deterministic=True)
        chosen.append(player.choose(np.array([0.3, -0.2])))
    assert chosen[0][0] == chosen[1][0] == 0
    np.testing.assert_allclose(chosen[0][1], chosen[1][1], atol=0.02)


@pytest.mark.parametrize(
    ("policy", "task", "states", "legend"),
    [
        (UP_RIGHT, find("two-rooms"), None, "one skill everywhere; arrows: its actions"),
        (DRIBBLE, find("striker-r1"), None, "one skill everywhere; x, y: place of the ball"),
        (PUSH_RIGHT, Plain(), visited(), "one skill everywhere; dots: visited states"),
        (
            BY_CELL,
            Plain(spec=GRID),
            np.eye(6, dtype=np.float32)[:5],
            "one skill everywhere, with its most probable action; grey where never visited",
        ),
    ],
    ids=["rooms", "pitch", "visited", "cells"],
)
def test_maps_without_planes_have_one_colour_in_full(policy, task, states, legend, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = policy_map(policy, task, states, [1.0])
        figure.savefig(tmp_path / "map.png")
    words = legend_of(figure)
    assert words[0] == legend and len(words) == 2 and words[1].endswith("(used 100 %)")
    axes = figure.axes[0]
    if axes.images:
        assert len(np.unique(np.asarray(axes.images[0].get_array()).reshape(-1, 3), axis=0)) == 1
    else:
        cells = [matplotlib.colors.to_hex(patch.get_facecolor()).upper() for patch in axes.patches]
        assert cells == [SKILL_COLOURS[0]] * 5 + ["#EDEDED"]


def test_one_skill_that_sets_numbers_is_told_by_its_action():
    figure = policy_map(controls(0), Plain(spec=CONTROLS), visited(), [1.0])
    assert legend_of(figure)[0] == "one skill everywhere; dots: visited states; colour: its mean action"
    assert len(np.unique(np.asarray(figure.axes[0].images[0].get_array()).reshape(-1, 3), axis=0)) > 50


def test_one_input_without_planes_is_a_strip():
    one = Plain(spec=replace(SPEC, observation_names=("level",)))
    figure = policy_map(alone(Features.of(Polynomial(1), (0,)), [[[0.0], [2.0]]]), one, visited(1))
    assert figure.axes[0].get_xlabel() == "level" and legend_of(figure)[1] == "skill 0: push right 88 %, push left 12 %"


def test_a_gallery_may_hold_a_policy_without_planes():
    cut = build([[-1.0, 1.0, 1.0]], np.zeros((2, 4, 1)))
    figure = partition_gallery([cut, UP_RIGHT], [find("two-rooms")] * 2, ["one plane", "none"])
    colour = matplotlib.colors.to_rgb(SKILL_COLOURS[0])
    np.testing.assert_allclose(np.asarray(figure.axes[1].images[0].get_array())[100, 100], colour, atol=1e-6)


# --- The room


FORBIDDEN = {
    "show": ("asap.learn", "asap.model", "asap.cli", "asap.paper", "asap.session", "asap.play_", "asap.workers")
    + ("asap.envs.catalog", "asap.envs.resolve", "asap.envs.gymnasium", "gymnasium"),
    "policy": ("asap.envs", "asap.experience", "asap.learn", "asap.show", "gymnasium"),
}
STILL_TO_MOVE = {"examine.py"}  # Plays random episodes of compiled tasks.


@pytest.mark.parametrize("room", FORBIDDEN)
def test_the_room_imports_nothing_that_knows_a_kind_of_task(room):
    folder = Path({"show": asap.show, "policy": asap.policy}[room].__file__).parent
    found = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found += [(path.name, module) for module in modules if module.startswith(FORBIDDEN[room])]
    assert [pair for pair in found if pair[0] not in STILL_TO_MOVE] == []
