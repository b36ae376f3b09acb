"""Promise: a film shows one game as it was played, in the colours of the skills, chosen by the seed, in a small
file."""

import json

import jax.numpy as jnp
import matplotlib.colors
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image, ImageSequence

from asap.base.arrays import stack
from asap.base.keys import root
from asap.cli.reading import plot
from asap.compose import compose
from asap.envs.catalog import find
from asap.envs.soccer.half_field import CAPTURED, GOAL, IN_GAME
from asap.experience.rollout import Controlled
from asap.model.model import ASAP
from asap.policy.features import Features, Polynomial
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.skills import GibbsSkills
from asap.show.figures import film
from asap.show.figures.film import save_film
from asap.show.figures.game import Game, game_to_show, play_game
from asap.show.figures.palette import skill_colour

R1 = find("striker-r1")
DRIBBLE, SHOOT = (0.02, 0.97, 0.01), (0.01, 0.01, 0.98)
WORDS = ["skill 0: Dribble 97 %", "skill 1: Shoot 98 %"]


def disc_policy():
    """Dribbles up to 12 m from the goal, then shoots."""
    skills = GibbsSkills(jnp.asarray(np.log([DRIBBLE, SHOOT])[..., None], jnp.float32), jnp.float32(1))
    partition = Partition(jnp.asarray([R1.approximate], jnp.float32), jnp.float32(100))
    return ASAPPolicy(partition, skills, Features.of(Polynomial(2), (2, 3)), Features.of(Polynomial(0), (2, 3)))


POLICY = disc_policy()


@pytest.fixture(scope="module")
def played():
    return play_game(POLICY, R1, 0)


def drawn_game(cycles=20, status=GOAL, num_players=4):
    """The ball rolls along y = 20 from x = 10 to x = 50; the skill changes half-way."""
    ball = np.stack([np.linspace(10, 50, cycles + 1), np.full(cycles + 1, 20.0)], -1)
    players = np.stack([ball * 0 + (30, -10 - 5 * player) for player in range(num_players)])
    return Game(ball, players, np.arange(cycles) * 2 // cycles, status)


# --- The game


def test_a_game_goes_from_the_start_area_into_the_goal(played):
    assert played.status == GOAL and played.status_name == "goal"
    assert played.ball.shape == (played.cycles + 1, 2) and played.players.shape == (2, played.cycles + 1, 2)
    assert (R1.task.ball_low <= played.ball[0]).all() and (played.ball[0] <= R1.task.ball_high).all()
    assert (played.ball[:-1, 0] <= 52.6).all() and played.ball[-1, 0] > 52.5 and abs(played.ball[-1, 1]) < 7.1
    np.testing.assert_allclose(played.players[1, 0], [52.5, 0])
    assert np.linalg.norm(np.diff(played.ball, axis=0), axis=-1).max() < 3.1  # No jump: the ball's largest speed is 3.


def test_the_skill_of_a_cycle_is_that_of_the_place_it_begins_at(played):
    distance = np.linalg.norm(played.ball[:-1] - (52.5, 0), axis=-1)
    clear = np.abs(distance - 12) > 2
    assert clear.sum() > 20
    np.testing.assert_array_equal(played.skills[clear], distance[clear] < 12)


def test_the_seed_chooses_the_game(played):
    again, other = play_game(POLICY, R1, 0), play_game(POLICY, R1, 1)
    np.testing.assert_array_equal(played.ball, again.ball)
    assert not np.array_equal(played.ball[0], other.ball[0])


@pytest.mark.parametrize(
    ("status", "shown"),
    [([IN_GAME, CAPTURED, GOAL, GOAL], 2), ([IN_GAME, CAPTURED, CAPTURED], 1), ([IN_GAME, IN_GAME], 0)],
)
def test_the_first_goal_is_shown_or_else_the_first_end(status, shown):
    assert game_to_show(np.array(status)) == shown


def test_the_skill_of_a_controller_is_its_action():
    actor = Controlled(lambda x: jnp.stack([x[0] < 0, x[0] >= 0]).astype(float))
    for x, action in ((-0.5, 0), (0.5, 1)):
        skill, chosen = actor.choose(actor.draws(root(0)), jnp.array([x]), jnp.zeros(1), jnp.int32(-1))
        assert (int(skill), int(chosen)) == (action, action)


# --- The film


def frames_of(path):
    with Image.open(path) as film:
        assert film.info["loop"] == 0  # Again and again.
        return [(frame.info["duration"], np.asarray(frame.convert("RGB"))) for frame in ImageSequence.Iterator(film)]


def test_a_real_game_is_a_small_film_that_rests_at_its_end(played, tmp_path):
    path = tmp_path / "game.gif"
    save_film(path, played, WORDS, title="striker-r1")
    durations, pictures = zip(*frames_of(path))
    assert path.stat().st_size < 500_000
    assert len(pictures) == played.cycles + 1
    assert all(1000 / 15 <= milliseconds <= 100 for milliseconds in durations[:-1]) and 1000 <= durations[-1] <= 2000
    assert pictures[0][0, 0].tolist() == [255, 255, 255]


def rgb(colour):
    return np.array([round(255 * channel) for channel in matplotlib.colors.to_rgb(colour)])


def test_the_trail_has_the_colours_of_the_skills(tmp_path):
    save_film(tmp_path / "game.gif", drawn_game(), WORDS)
    pictures = [picture for _, picture in frames_of(tmp_path / "game.gif")]
    ends = {skill: [] for skill in (0, 1)}
    for picture in (pictures[8], pictures[-1]):
        pitch = picture[:-80]  # Without the legend.
        for skill, columns in ends.items():
            columns.append(np.argwhere((np.abs(pitch - rgb(skill_colour(skill))) <= 8).all(-1))[:, 1])
    assert len(ends[1][0]) == 0 and len(ends[0][0]) < len(ends[0][1])  # It grows.
    assert ends[0][1].max() <= ends[1][1].min() + 3


def captions(game):
    moving = film._Moving(Figure().subplots(), game, WORDS)
    for cycle in range(game.cycles + 1):
        *_, caption, end = moving.at(cycle)
        yield caption.get_text(), end.get_text()


def test_the_caption_tells_cycle_skill_and_end():
    first, *_, last_but_one, last = captions(drawn_game())
    assert first == ("cycle 0: skill 0: Dribble 97 %", "")
    assert last_but_one == ("cycle 19: skill 1: Shoot 98 %", "")
    assert last == ("cycle 20: GOAL", "GOAL")
    *_, last = captions(drawn_game(status=CAPTURED))
    assert last == ("cycle 20: captured by the defence", "captured by the defence")


@pytest.mark.parametrize("side", [-1, 1])
def test_the_last_words_stand_in_the_other_half_than_the_trail(side):
    game = drawn_game()
    moving = film._Moving(Figure().subplots(), game._replace(ball=game.ball * (1, side)), WORDS)
    assert (moving.end.get_position()[1] < 0.5) == (side < 0)  # In shares of the height, from below.


def test_a_long_game_leaves_out_cycles_but_not_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(film, "MOST_FRAMES", 5)
    save_film(tmp_path / "game.gif", drawn_game(cycles=23), WORDS)
    pictures = [picture for _, picture in frames_of(tmp_path / "game.gif")]
    assert len(pictures) == 6
    assert (np.abs(pictures[-1][:-80] - rgb(skill_colour(1))) <= 8).all(-1).any()


@pytest.mark.parametrize(
    ("num_players", "names"), [(2, ["striker", "goalkeeper"]), (4, ["striker", "goalkeeper", "defenders"])]
)
def test_the_players_are_in_the_legend(num_players, names):
    figure, axes = film._paper(drawn_game(num_players=num_players), [], "")
    assert isinstance(axes, Axes) and [text.get_text() for text in figure.legends[0].get_texts()] == names


def test_plot_writes_the_film_next_to_the_map(played, tmp_path, monkeypatch, capsys):
    ASAP.of(*compose([R1.name], {}), stack([POLICY])).save(tmp_path / "disc.asap")
    monkeypatch.setattr("asap.model.reading.EPISODES_TO_READ", 4)
    plot(str(tmp_path / "disc.asap"), json_=True)
    pictures = json.loads(capsys.readouterr().out)["pictures"]
    assert pictures == {"partition": str(tmp_path / "partition.png"), "game": str(tmp_path / "game.gif")}
    assert len(frames_of(pictures["game"])) == played.cycles + 1
