"""Promise: the map of a striker's policy shows which skill rules for which place of the ball, on the pitch, y down."""

import jax.numpy as jnp
import matplotlib.colors
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from asap.envs.catalog import find
from asap.envs.soccer.half_field import in_metres
from asap.envs.soccer.vectors import Vector
from asap.policy.features import Features, Polynomial
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.skills import GibbsSkills
from asap.show.figures import partition_gallery, policy_map
from asap.show.figures.backgrounds import PITCH
from asap.show.figures.palette import SKILL_COLOURS
from asap.show.figures.policy_map import pixel_regions

R1, R3 = find("striker-r1"), find("striker-r3")
DRIBBLE, SHOOT = (0.02, 0.97, 0.01), (0.01, 0.01, 0.98)


def build(beta, *probabilities, degree=1, inputs=(2, 3)):
    skills = GibbsSkills(jnp.asarray(np.log(probabilities)[..., None], jnp.float32), jnp.float32(1))
    partition = Partition(jnp.asarray([beta], jnp.float32), jnp.float32(100))
    return ASAPPolicy(partition, skills, Features.of(Polynomial(degree), inputs), Features.of(Polynomial(0), (0,)))


DISC = build(R1.approximate, DRIBBLE, SHOOT, degree=2)
BELOW = build((0, 0, 1), DRIBBLE, SHOOT)  # Skill 1 where y > 0.


@pytest.fixture(scope="module")
def disc():
    return policy_map(DISC, R1, usage=[0.8, 0.2])


def pixels_of(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]


def colour_at(figure, x, y):
    column, row = figure.axes[0].transData.transform((x, y))
    pixels = pixels_of(figure)
    return pixels[pixels.shape[0] - 1 - int(row), int(column)].tolist()


def ruled_by(skill):
    """The colour of a skill that is nearly certain."""
    return pytest.approx([255 * channel for channel in matplotlib.colors.to_rgb(SKILL_COLOURS[skill])], abs=5)


def words_at(figure):
    return {text.get_text(): text.get_position() for text in figure.axes[0].texts}


def test_large_y_is_the_lower_half_of_the_picture():
    figure = policy_map(BELOW, R1)
    pixels = pixels_of(figure)
    height, width, _ = pixels.shape
    assert pixels[height // 5, width // 3].tolist() == ruled_by(0) and pixels[
        height // 2, width // 3
    ].tolist() == ruled_by(1)
    assert colour_at(figure, 25, -25) == ruled_by(0) and colour_at(figure, 25, 25) == ruled_by(1)


@pytest.mark.parametrize(("degrees", "beyond"), [(angle, beyond) for angle in (-60, 10, 60) for beyond in (-2, 2)])
def test_the_disc_is_round_and_has_12_metres(disc, degrees, beyond):
    angle = np.radians(degrees)
    place = 52.5 - (12 + beyond) * np.cos(angle), (12 + beyond) * np.sin(angle)
    assert colour_at(disc, *place) == ruled_by(int(beyond < 0))


def test_the_regions_are_named_by_what_is_done_there(disc):
    words = words_at(disc)
    assert np.hypot(*np.subtract(words["Shoot"], (52.5, 0))) < 12 < np.hypot(*np.subtract(words["Dribble"], (52.5, 0)))
    assert {"plane 1", "goal", "ball starts"} <= set(words)
    legend = disc.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == [
        "skill 0: Dribble 97 % (used 80 %)",
        "skill 1: Shoot 98 % (used 20 %)",
    ]
    assert "place of the ball" in legend.get_title().get_text()


def test_a_mixed_skill_is_named_by_all_it_often_does():
    words = words_at(policy_map(build((0, 0, 1), (0.26, 0.6, 0.14), SHOOT), R1))
    assert "Dribble or\nMove" in words and words["Dribble or\nMove"][1] < 0 < words["Shoot"][1]


def test_the_others_stand_where_their_rules_send_them():
    """Of a ball at (30, 10): the striker behind it, the goalkeeper on the line to behind the goal, the defenders at
    home."""
    regions = pixel_regions(DISC, R3)
    pixel = np.abs(PITCH.frame.y - 10).argmin() * PITCH.frame.columns + np.abs(PITCH.frame.x - 30).argmin()
    places = in_metres(Vector(*regions.observations[pixel].reshape(-1, 2).T))
    striker, ball, goalkeeper, *defenders, goal = np.stack(places, -1)
    np.testing.assert_allclose(ball, [30, 10], atol=0.2)
    np.testing.assert_allclose(striker, ball - (0.5, 0), atol=1e-3)
    slope = ball[1] / (59.5 - ball[0])
    np.testing.assert_allclose(goalkeeper, [49.8, slope * (59.5 - 49.8)], atol=1e-2)
    np.testing.assert_allclose(
        defenders, [[10.4 + 0.8 * ball[0], 0.38 * ball[1] + s * 2.9] for s in (1, -1)], atol=1e-2
    )
    np.testing.assert_allclose(goal, [52.5, 0], atol=1e-3)


def test_a_policy_may_look_at_someone_else_than_the_ball():
    by_goalkeeper = build((0, 0, 1), DRIBBLE, SHOOT, inputs=(4, 5))
    figure = policy_map(by_goalkeeper, R1)
    assert colour_at(figure, 25, -25) == ruled_by(0) and colour_at(figure, 25, 25) == ruled_by(1)


def test_pitches_stand_side_by_side():
    figure = partition_gallery([DISC, BELOW], [R1, R1], ["disc", "wing"])
    box = figure.axes[0].get_window_extent()
    assert box.height / box.width == pytest.approx(68 / 52.5)
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["-30", "0", "30"]
    assert "arrows" not in figure.legends[0].get_title().get_text()
