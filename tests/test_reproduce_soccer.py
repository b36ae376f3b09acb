"""The soccer experiments: what they measure on the pitch, by cases worked out by hand, and one of them from end to
end."""

import dataclasses
import importlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from test_show_game import POLICY

from asap.base.keys import fold, root
from asap.compose import compose
from asap.config.defaults import complete
from asap.config.schema import Config
from asap.config.settings import NO_VALUES, override
from asap.config.toml import read_toml
from asap.envs.catalog import find
from asap.envs.soccer.half_field import GOAL
from asap.paper import striker_r1, striker_r2, strikers
from asap.paper.claims import interval
from asap.paper.laboratory import Laboratory
from asap.paper.striker_r1 import kind_of
from asap.paper.striker_r2 import clearance, detour
from asap.policy.partition import Partition
from asap.policy.skills import GibbsSkills
from asap.show.figures.backgrounds import PITCH
from asap.show.figures.film import draw_paths
from asap.show.figures.game import Game

R1 = find("striker-r1")


def test_the_places_from_which_a_disc_shoots():
    places = strikers.shooting_places(POLICY, R1)
    inside = strikers.distances_to_goal() < 12
    assert (places == inside).mean() > 0.995
    assert strikers.area(places) == pytest.approx(np.pi * 12**2 / 2, rel=0.05)
    assert striker_r2.depth(places) == pytest.approx(12, abs=0.5) and abs(striker_r2.middle(places)) < 0.2
    near, far = striker_r1.zones()
    assert places[near].all() and not places[far].any() and near.any() and far.any()


def test_places_are_those_of_deterministic_play():
    """By the likelier skill (0.55) most probably Shoot, where the policy as a whole most probably moves."""
    move, dribble, shoot = (R1.spec.action_names.index(name) for name in ("Move", "Dribble", "Shoot"))
    chances = np.zeros((2, 3, 1), np.float32)
    chances[0, [move, dribble, shoot], 0] = 0.35, 0.25, 0.4
    chances[1, [move, dribble, shoot], 0] = 0.9, 0.05, 0.05
    beta = np.zeros_like(POLICY.partition.beta)
    beta[0, 0] = np.log(0.45 / 0.55)
    policy = dataclasses.replace(
        POLICY,
        partition=Partition(beta, np.float32(1)),
        skills=GibbsSkills(np.log(chances), np.float32(1)),
    )
    x, m = R1.spec.observation_low, R1.descriptor
    assert np.argmax(policy.action_log_probs(jnp.float32(x), jnp.float32(m))) == move
    assert strikers.shooting_places(policy, R1).all()


def test_what_is_moved_moves_the_region():
    """A plane on the ball's x alone: 6.3 m less of x is as much further from the goal."""
    places, moved = (strikers.shooting_places(POLICY, R1, {"ball x": by}) for by in (0.0, -0.2))
    rows = np.abs(PITCH.frame.y).argmin()
    assert places[rows].sum() - moved[rows].sum() == pytest.approx(0.2 * 31.5 * 4, abs=2)


def test_a_difference_counts_where_its_interval_excludes_0():
    many = {"nothing": np.linspace(5.0, 6.0, 10), "x": np.linspace(1.0, 2.0, 10)}
    claim = striker_r2._against_nothing("smaller", "flatter", "depth", many, "m", "x", -1, "it is")
    assert claim.passed and claim.ours == "depth nothing: 5.5 m, x: 1.5 m" and claim.seeds == 10
    assert not striker_r2._against_nothing("larger", "offset", "depth", many, "m", "x", 1, "it is").passed
    assert not striker_r2._against_nothing(
        "smaller", "flatter", "depth", many | {"x": many["nothing"]}, "m", "x", -1, "it is"
    ).passed
    near = many | {"x": many["nothing"] - 0.4}  # The two intervals overlap, and that of the difference excludes 0.
    assert interval(near["x"])[1] > interval(near["nothing"])[0]
    assert striker_r2._against_nothing("smaller", "flatter", "depth", near, "m", "x", -1, "it is").passed


def test_the_hyperplane_sees_what_the_experiment_says():
    class Asked:
        def train(self, label, tasks, settings=NO_VALUES):
            return compose(tasks, {}, overrides=settings)[0]

    assert striker_r2.variant(Asked(), "nothing").policy.inputs == compose(["striker-r2"], {})[0].policy.inputs
    both = striker_r2.variant(Asked(), "x and y")
    assert both.policy.inputs == ("ball x", "ball y", "defender x", "defender y") and both.run.episodes == 20_000


def test_conics_by_their_name():
    assert kind_of(R1.approximate) == "ellipse"
    assert kind_of([0.1, 0, 0, 1.0, 0.0, -1.0]) == "hyperbola"


def passing_game(num_players=3):
    """Ten metres ahead and three aside, while a defender comes the other way four metres beside."""
    ball = np.stack([np.linspace(30, 40, 21), np.abs(np.linspace(-3, 3, 21))], -1)
    players = np.stack(
        [ball - (0.5, 0), np.full_like(ball, 50.0), np.stack([np.linspace(40, 30, 21), np.full(21, -4.0)], -1)]
    )
    return Game(ball, players[:num_players], np.zeros(20, int), GOAL)


def test_the_way_around_a_defender():
    game = passing_game()
    assert detour(game) == pytest.approx(2 * np.hypot(5, 3) / 10)
    assert game.passes_defender == 11 and clearance(game) == pytest.approx(4.3, abs=0.1)
    assert passing_game(num_players=2).passes_defender is None


def test_ways_are_drawn_one_panel_each():
    figure = draw_paths([passing_game()] * 4, POLICY, R1, "four games")
    assert isinstance(figure, Figure)
    assert [axes.get_visible() for axes in figure.axes] == [True] * 4 + [False] * 2
    figure.draw_without_rendering()


@pytest.fixture
def small(monkeypatch):
    """Games and runs of seconds."""
    monkeypatch.setattr(striker_r1, "GAMES", 64)
    monkeypatch.setattr(striker_r1, "DATA_SETS", 2)
    learn = Laboratory._trained

    def briefly(self, label, config, tasks, command):
        short = override(config, {"run.final_episodes": 8, "run.eval_episodes": 4, "run.episodes": 64})
        return learn(self, label, short, tasks, command)

    monkeypatch.setattr(Laboratory, "_trained", briefly)


def test_logged_games_are_collected_once_and_learned_from(small, tmp_path):
    outcome = striker_r1.offline(Laboratory(tmp_path, seeds=2))
    (claim,) = outcome.claims
    assert claim.seeds == 4 and claim.ours.endswith("(median)")
    assert set(outcome.pictures) == {"offline", "offline-partitions"}
    files = sorted((tmp_path / "data").glob("*.npz"))
    assert [path.name for path in files] == ["striker-r1-1.npz", "striker-r1-2.npz"]
    before = [path.stat().st_mtime_ns for path in files]
    again = striker_r1.offline(Laboratory(tmp_path, seeds=2))
    assert [path.stat().st_mtime_ns for path in files] == before and again.claims == [claim]


def test_data_of_a_task_are_learned_from_with_its_own_settings(small, tmp_path):
    """Also where the file alone tells the task; but not with those that are for playing."""
    striker_r1.offline(Laboratory(tmp_path, seeds=2))
    own, general = (read_toml(Config, tmp_path / "runs" / "striker-r1-offline-1" / "config.toml"), complete(Config()))
    assert own.policy.alpha_beta == 100 and own.learn.softening_floor == 0.02
    assert own.learn.lanes == complete(override(Config(), {"learn.learner": "likelihood"})).learn.lanes
    assert own.learn.trace == general.learn.trace
    played, _ = compose(["striker-r1"], {})
    assert played.learn.lanes == 256 and played.policy.alpha_beta == 100


# ---- The bench ------------------------------------------------------------------------------------------------------


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "bench")
    return importlib.import_module("soccer")


def test_our_games_start_as_the_recorded_ones(bench):
    named = find("striker-r2")
    env = bench.Restarted(named.env, "striker-r2")
    recorded = {tuple(np.round(rows[0], 3)) for rows in (game.ball for game in bench.recorded_games("striker-r2"))}
    starts = jax.jit(jax.vmap(lambda i: env.reset(fold(root(0), i), named.task)))(jnp.arange(200))
    ball = np.round(np.stack(starts.world.ball.position, -1), 3)
    assert {tuple(map(float, place)) for place in ball} <= {tuple(map(float, np.float32(place))) for place in recorded}
    assert len(np.unique(ball, axis=0)) > 30


def test_what_is_measured_in_a_game(bench):
    """Three cycles to the ball, a dribble of 6 m in 8 cycles, then a shot that makes 2.5 m in its first cycle."""
    ball_x = np.concatenate([np.full(4, 35.0), np.linspace(35.75, 41, 8), [43.5, 46.0]])
    ball = np.stack([ball_x, np.zeros(14)], -1)
    striker = ball - [(3.0 if i < 3 else 0.5, 0) for i in range(14)]
    striker[12:] = (41, 0)
    game = bench.Game(striker, ball, np.tile([49.8, 0.4], (14, 1)))
    found = bench.statistics([game])
    assert found["cycles_to_first_touch"] == 3 and found["goalkeeper_off_its_line"] == pytest.approx(0.4)
    assert found["metres_per_dribble_cycle"] == pytest.approx(0.75) and found[
        "first_shot_displacement"
    ] == pytest.approx(2.5)
