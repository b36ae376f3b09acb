"""Promise: a figure shows what the policy and the numbers are, in the colours of the skills, with nothing cut off."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.colors
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.quiver import Quiver
from matplotlib.text import Text

from asap.base.errors import UserError
from asap.base.stats import SeedCurve, bootstrap_interval, common_grid, iqm, resample
from asap.envs.catalog import find
from asap.policy.features import Features, Fourier, Polynomial
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.skills import GibbsSkills
from asap.show.figures import learning_curves, policy_map, skill_usage
from asap.show.figures.labels import spread
from asap.show.figures.palette import SKILL_COLOURS, skill_colour, skill_line_style

CONSTANT = Features.of(Polynomial(0), (0,))
LINEAR = Features.of(Polynomial(1), (0, 1))
QUADRATIC = Features.of(Polynomial(2), (0, 1))
WAVE = Features.of(Fourier(jnp.array([[3.0, 0.0]]), False), (0, 1))
TWO_ROOMS, THREE_ROOMS = find("two-rooms"), find("three-rooms")
UP_RIGHT, DOWN_RIGHT = (0.45, 0.0001, 0.5498, 0.0001), (0.0001, 0.7399, 0.2599, 0.0001)


def build(beta, probabilities=None, psi=LINEAR, phi=CONSTANT, theta=None, alpha_beta=20.0):
    beta = jnp.asarray(beta, jnp.float32)
    if probabilities is None:
        probabilities = np.random.default_rng(0).dirichlet(np.ones(4), size=2 ** len(beta))
    theta = np.log(probabilities)[..., None] if theta is None else theta
    skills = GibbsSkills(jnp.asarray(theta, jnp.float32), jnp.float32(1))
    return ASAPPolicy(Partition(beta, jnp.float32(alpha_beta)), skills, psi, phi)


LEARNED = build([[-1.38, 1.63, 0.63]], [UP_RIGHT, DOWN_RIGHT])
EIGHT = build([[-0.5, 1, 0.02], [-0.5, 0.03, 1], [-0.02, 1, -1]])


def texts(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def legend_of(figure):
    legend = figure.legends[0]
    colours = [matplotlib.colors.to_hex(patch.get_facecolor()).upper() for patch in legend.get_patches()]
    return [text.get_text() for text in legend.get_texts()], colours


def colour_at(figure, x, y):
    """The colour that is really on the paper at a place of the map."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    column, row = figure.axes[0].transData.transform((x, y))
    pixels = np.asarray(canvas.buffer_rgba())
    return tuple(pixels[pixels.shape[0] - 1 - int(row), int(column), :3].tolist())


def rgb(colour):
    return tuple(round(255 * channel) for channel in matplotlib.colors.to_rgb(colour))


@pytest.mark.parametrize(
    ("beta", "skill_0_at", "skill_1_at"),
    [
        ([-0.5, 1, 0], (0.25, 0.2), (0.75, 0.8)),  # Skill 1 on the right.
        ([0.5, -1, 0], (0.75, 0.8), (0.25, 0.2)),
        ([-0.5, 0, 1], (0.75, 0.25), (0.25, 0.8)),  # Skill 1 above.
    ],
)
def test_a_half_plane_has_the_colour_of_its_skill(beta, skill_0_at, skill_1_at):
    figure = policy_map(build([beta], alpha_beta=100.0), TWO_ROOMS)
    assert colour_at(figure, *skill_0_at) == pytest.approx(rgb(SKILL_COLOURS[0]), abs=1)
    assert colour_at(figure, *skill_1_at) == pytest.approx(rgb(SKILL_COLOURS[1]), abs=1)


def test_a_soft_boundary_is_pale():
    saturation = [
        matplotlib.colors.rgb_to_hsv(np.array(colour_at(policy_map(LEARNED, TWO_ROOMS), x, 0.8)) / 255)[1]
        for x in (0.3, 0.47, 0.51)  # Plane 1 crosses y = 0.8 at x = 0.54.
    ]
    assert saturation[0] > 0.95 > saturation[1] > saturation[2]


def test_the_wave_gives_both_outer_rooms_to_one_skill():
    figure = policy_map(build([[1.0]], [DOWN_RIGHT, UP_RIGHT], psi=WAVE), THREE_ROOMS)
    outer = colour_at(figure, 0.17, 0.6)
    assert outer == colour_at(figure, 0.835, 0.6) == pytest.approx(rgb(SKILL_COLOURS[1]), abs=1)
    assert colour_at(figure, 0.5, 0.6) == pytest.approx(rgb(SKILL_COLOURS[0]), abs=1)
    assert texts(figure).count("plane 1") == 2


def test_the_legend_says_what_each_skill_does():
    words, colours = legend_of(policy_map(LEARNED, TWO_ROOMS, usage=[0.617, 0.383]))
    assert words == ["skill 0: right 55 %, up 45 % (used 62 %)", "skill 1: down 74 %, right 26 % (used 38 %)"]
    assert colours == [skill_colour(0), skill_colour(1)]


def test_only_skills_with_area_or_usage_are_in_the_legend():
    words, colours = legend_of(policy_map(EIGHT, TWO_ROOMS))
    assert [entry.split(":")[0] for entry in words] == [f"skill {s}" for s in (0, 2, 3, 4, 5, 7)]
    assert colours == [skill_colour(s) for s in (0, 2, 3, 4, 5, 7)]
    words, _ = legend_of(policy_map(EIGHT, TWO_ROOMS, usage=[0.9, 0.1, 0, 0, 0, 0, 0, 0]))
    assert "skill 1" in [entry.split(":")[0] for entry in words] and len(words) == 7


def test_walls_leave_the_door_open_and_the_goal_and_start_are_shown():
    figure = policy_map(LEARNED, TWO_ROOMS, title="a title")
    np.testing.assert_allclose(figure.axes[0].lines[0].get_xydata(), [[0.5, 0.0], [0.5, 0.7]], atol=1e-6)
    assert {"goal", "start area", "plane 1", "x (m)", "y (m)", "a title"} <= set(texts(figure))
    wall = colour_at(figure, 0.5, 0.4)
    assert max(wall) < 60 < max(colour_at(figure, 0.5, 0.85))
    assert texts(policy_map(LEARNED, TWO_ROOMS)).count("two-rooms") == 1


def test_arrows_are_the_actions_of_the_skill_that_rules_there():
    (arrows,) = policy_map(LEARNED, TWO_ROOMS).axes[0].findobj(Quiver)
    moves = {}
    for x, y, u, v in zip(arrows.X, arrows.Y, arrows.U, arrows.V):
        moves.setdefault((round(x, 3), round(y, 3)), []).append((u, v))
    assert len(moves) == 19  # Five rows of four, without the goal.
    for (x, y), drawn in moves.items():
        up_right = 1.63 * x + 0.63 * y < 1.38
        expected = [(0, 0.45), (0.55, 0)] if up_right else [(0, -0.74), (0.26, 0)]
        np.testing.assert_allclose(np.array(drawn) / 0.11, expected, atol=2e-3)


def test_arrows_of_linear_skills_differ_from_place_to_place():
    theta = np.zeros((2, 4, 3))
    theta[:, 2, :] = [-10.0, 20.0, 0.0]  # Right, in the right half.
    theta[:, 0, :] = [10.0, -20.0, 0.0]  # Up, in the left half.
    (arrows,) = policy_map(build([[0.5, 0, 0]], theta=theta, phi=LINEAR), TWO_ROOMS).axes[0].findobj(Quiver)
    for x, u, v in zip(arrows.X, arrows.U, arrows.V):
        assert (u > v) == (x > 0.5)


def random_policy(num_planes, psi=LINEAR):
    generator = np.random.default_rng(num_planes)
    beta = generator.normal(size=(num_planes, psi.size(2)))
    beta[:, 0] = -beta[:, 1:].sum(-1) / 2
    return build(beta, psi=psi)


def soccer(num_planes):
    """Skills that mix the three actions, by the place of the ball."""
    policy = random_policy(num_planes, Features.of(Polynomial(1), (2, 3)))
    return eqx.tree_at(lambda p: p.skills.theta, policy, policy.skills.theta[:, :3])


def synthetic_curve(seed):
    episodes = np.arange(5, 400, 7 + seed)
    return SeedCurve(episodes, 60 - 450 * np.exp(-episodes / (30 + 3 * seed)))


SYNTHETIC = [synthetic_curve(seed) for seed in range(8)]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: policy_map(LEARNED, TWO_ROOMS, usage=[0.6, 0.4]),
        lambda: policy_map(random_policy(2), TWO_ROOMS),
        lambda: policy_map(random_policy(3), find("flipped-two-rooms")),
        lambda: policy_map(EIGHT, TWO_ROOMS, usage=np.full(8, 1 / 8)),
        lambda: policy_map(random_policy(2, QUADRATIC), TWO_ROOMS),
        lambda: policy_map(build([[1.0]], psi=WAVE), THREE_ROOMS),
        lambda: policy_map(build([[5.0, 0, 0]]), TWO_ROOMS),
        lambda: policy_map(soccer(1), find("striker-r1"), usage=[0.6, 0.4]),
        lambda: policy_map(soccer(3), find("striker-r3"), usage=np.full(8, 1 / 8)),
        lambda: learning_curves(SYNTHETIC, TWO_ROOMS.reference, "a title"),
        lambda: learning_curves([SeedCurve([0, 9], [-391.0, -380.0])], TWO_ROOMS.reference, "a title"),
        lambda: learning_curves(SYNTHETIC),
        lambda: skill_usage(np.arange(9), np.full((3, 9, 8), 1 / 8), "a title"),
    ],
    ids=[
        "K=1",
        "K=2",
        "K=3",
        "eight skills",
        "quadratic",
        "wave",
        "no cut",
        "R1",
        "R3",
        "curves",
        "stuck",
        "bare",
        "usage",
    ],
)
def test_no_text_is_cut_off_and_no_labels_overlap(draw):
    figure = draw()
    FigureCanvasAgg(figure).draw()
    labels, others = [], [text for text in figure.texts if text.get_text()]
    for legend in figure.legends:
        others += [*legend.get_texts(), legend.get_title()]
    for axes in figure.axes:
        title = [t for t in axes.get_children() if isinstance(t, Text) and t.get_text() == axes.get_title("left")]
        labels += [*axes.texts, *title, axes.xaxis.label, axes.yaxis.label]
    # The box of the words alone: that of an annotation has its line in it, too.
    boxes = {text: Text.get_window_extent(text) for text in labels + others if text.get_text()}
    for text, box in boxes.items():
        assert 0 <= box.x0 and box.x1 <= figure.bbox.x1 and 0 <= box.y0 and box.y1 <= figure.bbox.y1, text
    crossing = [(a, b) for a, b in itertools.combinations(boxes, 2) if boxes[a].overlaps(boxes[b])]
    assert not crossing


def test_learning_curves_show_every_seed_and_the_mean():
    figure = learning_curves(SYNTHETIC, TWO_ROOMS.reference, "2R")
    near, whole = figure.axes
    grid = common_grid(SYNTHETIC)
    values = resample(SYNTHETIC, grid)
    for axes in (near, whole):
        thick = [line for line in axes.lines if line.get_linewidth() > 2]
        thin = [line for line in axes.lines if line.get_linewidth() < 1]
        assert len(thick) == 1 and len(thin) == 8
        np.testing.assert_allclose(thick[0].get_xydata(), np.stack([grid, iqm(values)], -1))
        np.testing.assert_array_equal(thin[3].get_ydata(), SYNTHETIC[3].returns)
        band = axes.collections[0].get_paths()[0].vertices
        low, high = bootstrap_interval(values)
        assert band[:, 1].min() == pytest.approx(low.min()) and band[:, 1].max() == pytest.approx(high.max())
    assert "8 seeds" in near.get_title("left")


def test_references_are_labelled_at_their_lines():
    reference = TWO_ROOMS.reference
    near, whole = learning_curves(SYNTHETIC, reference, "2R").axes
    labels = {text.get_text().replace("\n", " "): text for text in near.texts + whole.texts}
    expected = {
        "misspecified start: -384": (whole, reference.misspecified),
        "near-optimal (95 % of the way): 31.3": (near, reference.near_optimal),
        "approximately optimal: 53.1": (near, reference.approx_optimal),
        "dynamic-programming optimum: 71.3": (near, reference.dp_optimal),
    }
    for words, (axes, value) in expected.items():
        low, high = axes.get_ylim()
        assert labels[words].xy[1] == pytest.approx((value - low) / (high - low))
        assert any(np.allclose(line.get_ydata(), value) for line in axes.lines)
    assert near.get_ylim()[0] < reference.near_optimal and near.get_ylim()[1] > reference.dp_optimal


def test_without_a_seed_near_the_top_nothing_is_enlarged():
    reference = TWO_ROOMS.reference
    (axes,) = learning_curves([SeedCurve([0, 50], [-391.0, -300.0])], reference).axes
    low, high = axes.get_ylim()
    values = [reference.misspecified, reference.near_optimal, reference.approx_optimal, reference.dp_optimal]
    # The words had to move apart; the ends of their lines stay at the references.
    np.testing.assert_allclose([low + text.xy[1] * (high - low) for text in axes.texts], values)
    assert np.diff([text.xyann[1] for text in axes.texts]).min() > 0.13


def test_the_axis_of_learning_begins_at_0_and_shades_the_search_for_a_start():
    """The seeds searched for 30 and for 40 episodes."""
    curves = [SeedCurve([30, 90], [1.0, 2.0]), SeedCurve([40, 90], [1.0, 2.0])]
    (axes,) = learning_curves(curves).axes
    (band,) = [patch for patch in axes.patches if patch.get_x() == 0]
    assert axes.get_xlim()[0] == 0 and band.get_width() == 30
    assert axes.get_title("left").endswith("\ngrey: search for a start (30 episodes)")
    (axes,) = learning_curves([SeedCurve([0, 90], [1.0, 2.0])]).axes
    assert not axes.patches and axes.get_title("left") == "one seed"


def test_usage_lines_have_the_colours_of_the_skills():
    usage = np.zeros((5, 4, 4))
    usage[..., 1], usage[..., 3] = 0.7, 0.3
    usage[0, :, 1], usage[0, :, 3] = 0.1, 0.9  # One seed apart: the interquartile mean does not move.
    figure = skill_usage([0, 10, 20, 30], usage, "usage")
    thick = [line for line in figure.axes[0].lines if line.get_linewidth() > 2]
    assert [line.get_color() for line in thick] == [skill_colour(1), skill_colour(3)]
    np.testing.assert_allclose([line.get_ydata()[-1] for line in thick], [0.7, 0.3])
    assert [text.get_text() for text in figure.axes[0].texts] == ["skill 1", "skill 3"]
    assert "never used: skills 0 and 2" in figure.axes[0].get_title("left")


def test_usage_of_one_seed_and_of_seeds_with_their_own_counts():
    one = skill_usage([0, 10], [[0.5, 0.5], [0.8, 0.2]])
    assert len(one.axes[0].lines) == 2
    own = skill_usage([[0, 10], [0, 30]], np.full((2, 2, 2), 0.5))
    assert own.axes[0].lines[2].get_xdata().tolist() == [0, 10, 30]


def test_wrong_inputs_are_refused_with_a_cure():
    with pytest.raises(UserError, match="usage"):
        policy_map(LEARNED, TWO_ROOMS, usage=[1.0])
    with pytest.raises(UserError, match="several seeds"):
        policy_map(jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), LEARNED), TWO_ROOMS)
    with pytest.raises(UserError, match="no curve"):
        learning_curves([], TWO_ROOMS.reference)
    with pytest.raises(UserError, match="usage"):
        skill_usage([0, 10, 20], np.full((2, 2), 0.5))


def test_labels_move_apart_and_keep_their_order():
    np.testing.assert_allclose(spread([0.5, 0.1, 0.52], 0.1), [0.5, 0.1, 0.6])
    np.testing.assert_allclose(spread([0.99, 1.0, 0.2], 0.1), [0.9, 1.0, 0.2])
    crowded = spread(np.linspace(0.5, 0.51, 8), 0.3)
    assert (np.diff(crowded) > 0.14).all() and crowded.min() >= -1e-9 and crowded.max() <= 1


def lab(colour, vision):
    """CIE Lab of a colour as seen with a colour vision deficiency (Machado et al., 2009: matrices on linear RGB)."""
    channel = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(channel <= 0.04045, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
    x, y, z = np.cbrt(to_xyz @ np.clip(vision @ linear, 0, 1) / [0.9505, 1.0, 1.0888])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


VISIONS = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("vision", VISIONS)
def test_the_first_eight_skills_can_be_told_apart(vision):
    """A difference of 2.3 is just noticeable; side by side in a picture 15 is comfortable."""
    seen = [lab(skill_colour(s), np.array(VISIONS[vision])) for s in range(8)]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 15


def test_colours_go_on_after_the_eighth_skill():
    assert tuple(skill_colour(s) for s in range(8)) == SKILL_COLOURS
    assert len({skill_colour(s) for s in range(24)}) == 24
    assert len({(skill_colour(s), skill_line_style(s)) for s in range(32)}) == 32
