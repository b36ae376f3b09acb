"""Soccer as Gymnasium environments: infos tell how a game stands, and the picture shows it."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from asap.envs.gymnasium.registration import register
from asap.envs.render import (
    BALL,
    DEFENDER,
    GOALKEEPER,
    GRASS,
    LINE,
    MARGIN_X,
    MARGIN_Y,
    NET,
    PIXELS_PER_METRE,
    STRIKER,
    draw_pitch,
)
from asap.envs.soccer.half_field import STATUS_NAMES, Match
from asap.envs.soccer.physics import Ball, World, rested
from asap.envs.soccer.vectors import Vector

register()

MOVE, DRIBBLE, SHOOT = range(3)


@pytest.fixture(scope="module")
def env():
    return gymnasium.make("asap/StrikerR1-v0", render_mode="rgb_array")


def play(env, act, seed):
    """The rewards and the last step of an episode."""
    observation, info = env.reset(seed=seed)
    assert info == {"success": False, "status": "in game"}
    rewards, ended = [], False
    while not ended:
        observation, reward, terminated, truncated, info = env.step(act(observation))
        rewards.append(reward)
        ended = terminated or truncated
        assert ended or info == {"success": False, "status": "in game"}
    return rewards, terminated, info


def shoot_within_12_metres(observation):
    x, y = 31.5 * (observation[2] - observation[6]), 37.4 * observation[3]
    return SHOOT if x**2 + y**2 < 144 else DRIBBLE


def test_gymnasium_checks_the_env(env):
    check_env(env.unwrapped)


@pytest.mark.parametrize(("number", "players"), [(1, 2), (2, 3), (3, 4)])
def test_each_task_is_made_with_its_players(number, players):
    made = gymnasium.make(f"asap/StrikerR{number}-v0")
    assert made.spec.max_episode_steps == 1000 and made.action_space.n == 3
    assert made.observation_space.shape == (2 * (players + 2),)  # And the ball and the goal.


def test_a_goal_is_a_success_and_another_end_is_none(env):
    ends = [play(env, shoot_within_12_metres, seed) for seed in range(5)] + [
        play(env, lambda _: SHOOT, seed) for seed in range(3)
    ]
    for rewards, terminated, info in ends:
        assert terminated and info["status"] in STATUS_NAMES[1:]
        assert info["success"] == (info["status"] == "goal") == (rewards[-1] > 0.9)
    assert {info["success"] for *_, info in ends} == {True, False}


def test_a_game_that_the_time_limit_ends_is_still_in_game(env):
    rewards, terminated, info = play(env, lambda _: MOVE, seed=0)  # The striker goes to the ball and stands there.
    assert len(rewards) == 1000 and not terminated and info == {"success": False, "status": "in game"}


def test_soccer_takes_no_start(env):
    with pytest.raises(ValueError, match="'striker-r1' takes none"):
        env.reset(options={"start": (0.2, 0.5)})


# --- The picture


def match(ball, *players):
    world = World(
        Ball(Vector(*ball), Vector(0.0, 0.0)),
        tuple(rested(Vector(*map(np.float32, p)), np.float32(0)) for p in players),
    )
    return Match(world, 0, 0, False, 0)


def pixel(x, y):
    """Row and column of a place of the pitch; y points down."""
    return [PIXELS_PER_METRE * (y + 34 + MARGIN_Y), PIXELS_PER_METRE * (x + MARGIN_X)]


def middle_of(picture, colour):
    return np.argwhere((picture == colour).all(-1)).mean(0)


def test_the_picture_shows_everyone_at_their_place():
    places = {STRIKER: (20.0, 10.0), GOALKEEPER: (50.0, -2.0), DEFENDER: (30.0, 25.0)}
    picture = draw_pitch(match((23.0, 10.0), *places.values()))
    assert picture.dtype == np.uint8 and picture.shape == (504, 410, 3)
    for colour, place in places.items():
        np.testing.assert_allclose(middle_of(picture, colour), pixel(*place), atol=1)
    row, column = map(round, pixel(23.0, 10.0))
    assert picture[row, column].tolist() == list(BALL)


def test_the_picture_shows_the_pitch():
    picture = draw_pitch(match((5.0, 5.0), (4.0, 5.0), (52.0, 0.0)))

    def at(x, y):
        row, column = map(int, pixel(x, y))
        return tuple(picture[row, column].tolist())

    assert at(30.0, 15.0) == at(45.0, 15.0) == GRASS
    assert at(36.15, 15.0) == at(45.0, -20.0) == at(0.15, -15.0) == at(9.15, 0.0) == LINE
    assert at(54.0, 5.0) == NET and at(54.0, 9.0) not in (NET, GRASS)


def test_the_env_draws_its_state(env):
    observation, _ = env.reset(seed=4)
    x, y = 31.5 * (observation[0] + 1) - 5.25, 37.4 * observation[1]
    np.testing.assert_allclose(middle_of(env.render(), STRIKER), pixel(x, y), atol=2)
