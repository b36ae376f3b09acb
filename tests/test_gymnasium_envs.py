"""Our tasks as Gymnasium environments keep Gymnasium's promises, alone and in batches."""

import subprocess
import sys

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from asap.base.keys import Key, fold
from asap.envs import catalog
from asap.envs.gymnasium import exported
from asap.envs.gymnasium.exported import TaskEnv, TaskVectorEnv
from asap.envs.gymnasium.registration import ENVIRONMENTS, register
from asap.envs.render import AGENT, view_of
from asap.envs.rooms import NOISE, STEP, Rooms

register()

# The tasks of soccer take long to compile: R1 stands for all, in a test file of its own.
ROOMS = [gymnasium_id for gymnasium_id, name, _ in ENVIRONMENTS if "rooms" in name]
UP, DOWN, RIGHT, LEFT = range(4)
BESIDE_THE_GOAL = {"start": (0.78, 0.1)}  # Of 2R: one step to the right ends the episode.
MIDDLE = {"start": (0.25, 0.5)}


def play(env, actions, **reset):
    """Observations and rewards of one episode."""
    observations, rewards = [env.reset(**reset)[0]], []
    for action in actions:
        observation, reward, *_ = env.step(action)
        observations.append(observation)
        rewards.append(reward)
    return np.stack(observations), np.array(rewards)


# --- Registration


def test_the_table_says_what_the_catalog_says():
    tasks = [catalog.find(name) for name in catalog.NAMES]
    assert sorted(ENVIRONMENTS) == sorted((t.gymnasium_id, t.name, t.env.spec.horizon) for t in tasks)


def test_registering_twice_is_silent_and_does_not_import_jax():
    program = (
        "import sys, asap.envs.gymnasium.registration as r; r.register(); r.register(); print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


@pytest.mark.parametrize("prefix", ["", "asap:"])
def test_make(prefix):
    env = gymnasium.make(prefix + "asap/TwoRooms-v0")
    assert isinstance(env.unwrapped, TaskEnv)
    assert env.spec.max_episode_steps == 400
    assert env.unwrapped.named.name == "two-rooms"


@pytest.mark.parametrize("gymnasium_id", ROOMS)
def test_gymnasium_checks_the_env(gymnasium_id):
    check_env(gymnasium.make(gymnasium_id, render_mode="rgb_array").unwrapped)


# --- One environment


def test_the_same_seed_is_the_same_episode():
    env, other = TaskEnv("two-rooms"), TaskEnv("two-rooms")
    actions = np.random.default_rng(0).integers(0, 4, 50)
    first = play(env, actions, seed=7)
    np.testing.assert_array_equal(first[0], play(other, actions, seed=7)[0])
    second, other_second = play(env, actions), play(other, actions)
    np.testing.assert_array_equal(second[0], other_second[0])
    assert not np.array_equal(first[0], second[0])
    assert not np.array_equal(first[0], play(env, actions, seed=8)[0])


def test_a_step_is_the_step_of_the_task():
    env = TaskEnv("three-rooms")
    observations, _ = play(env, [UP, RIGHT], seed=3)
    seed = int(np.random.Generator(np.random.PCG64(np.random.SeedSequence(3))).integers(2**63))
    key = Key(np.uint32(seed >> 32), np.uint32(seed & 0xFFFFFFFF))
    rooms, task = env.named.env, env.named.task
    state = rooms.reset(fold(key, 0), task)
    for t, action in enumerate((UP, RIGHT)):
        np.testing.assert_allclose(observations[t], rooms.observe(state, task), atol=1e-6)
        state = rooms.step(fold(key, t + 1), state, jnp.int32(action), task).state
    np.testing.assert_allclose(observations[2], rooms.observe(state, task), atol=1e-6)


def test_the_time_limit_is_the_wrapper_s():
    env = gymnasium.make("asap/TwoRooms-v0")
    env.reset(seed=0)
    ends = [env.step(DOWN)[2:4] for _ in range(400)]
    assert ends[:-1] == [(False, False)] * 399 and ends[-1] == (False, True)
    bare = env.unwrapped
    bare.reset(seed=0)
    assert not any(bare.step(DOWN)[3] for _ in range(410))


def test_the_goal_ends_the_episode_with_99():
    env = gymnasium.make("asap/TwoRooms-v0")
    assert env.reset(seed=0, options=BESIDE_THE_GOAL)[1] == {"success": False}
    observation, reward, terminated, truncated, info = env.step(LEFT)
    assert (reward, terminated, truncated, info) == (-1.0, False, False, {"success": False})
    env.reset(seed=0, options=BESIDE_THE_GOAL)
    observation, reward, terminated, truncated, info = env.step(RIGHT)
    assert (reward, terminated, truncated, info) == (99.0, True, False, {"success": True})
    assert observation[0] > 0.8
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(RIGHT)


def test_no_step_before_reset():
    with pytest.raises(ResetNeeded, match="call reset"):
        TaskEnv("two-rooms").step(UP)


@pytest.mark.parametrize("action", [4, -1, 1.0, "up", None, np.array([0, 1])])
def test_an_action_outside_the_space_is_named(action):
    env = TaskEnv("two-rooms")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action: .*up.*down.*right.*left") as error:
        env.step(action)
    assert repr(action) in str(error.value)


@pytest.mark.parametrize("action", [2, np.int64(2), np.uint8(2), np.array(2)])
def test_numpy_integers_are_actions(action):
    env = TaskEnv("two-rooms")
    np.testing.assert_array_equal(play(env, [action], seed=1)[0], play(env, [2], seed=1)[0])


def test_a_start_can_be_chosen():
    observation, _ = TaskEnv("three-rooms").reset(seed=0, options={"start": (0.5, 0.25)})
    np.testing.assert_allclose(observation, [0.5, 0.25, 0.9, 0.9], atol=1e-6)


@pytest.mark.parametrize("start", [(1.1, 0.5), (0.5,), (0.1, 0.2, 0.3), (np.nan, 0.5), 0.5, "ab", None])
def test_a_bad_start_is_named(start):
    for env in (TaskEnv("two-rooms"), TaskVectorEnv("two-rooms", 2)):
        with pytest.raises(ValueError, match="'start' is not a point of the unit square") as error:
            env.reset(options={"start": start})
        assert repr(start) in str(error.value)


def test_an_unknown_option_or_render_mode_is_named():
    with pytest.raises(ValueError, match="'strat'"):
        TaskEnv("two-rooms").reset(options={"strat": (0.5, 0.5)})
    with pytest.raises(ValueError, match="'ascii'"):
        TaskEnv("two-rooms", render_mode="ascii")


# --- The picture


def agent_pixel(picture: np.ndarray) -> np.ndarray:
    """Row and column of the middle of the agent."""
    return np.argwhere((picture == AGENT).all(-1)).mean(0)


def test_the_picture_shows_the_agent_move():
    env = gymnasium.make("asap/TwoRooms-v0", render_mode="rgb_array")
    env.reset(seed=0, options=MIDDLE)
    before = env.render()
    assert before.shape == (400, 400, 3) and before.dtype == np.uint8
    np.testing.assert_allclose(agent_pixel(before), [200, 100], atol=1)
    (x, y, *_), *_ = env.step(UP)
    row, column = agent_pixel(env.render())
    assert row < 195  # Up is towards the first row.
    np.testing.assert_allclose([row, column], [400 * (1 - y), 400 * x], atol=1)


def test_the_picture_shows_walls_doors_and_goal():
    env = TaskEnv("two-rooms", render_mode="rgb_array")
    env.reset(options=MIDDLE)
    picture = env.render()
    in_the_wall, in_the_door, floor, goal = picture[300, 200], picture[60, 200], picture[200, 300], picture[360, 360]
    assert in_the_wall.sum() < 200 < in_the_door.sum()
    assert not np.array_equal(goal, floor)
    assert not np.array_equal(picture[300, 50], floor)  # The start area.


# --- Many environments


def make_vec(num_envs: int, **kwargs) -> TaskVectorEnv:
    return gymnasium.make_vec("asap/TwoRooms-v0", num_envs, vectorization_mode="vector_entry_point", **kwargs)


def make_sync(num_envs: int) -> gymnasium.vector.SyncVectorEnv:
    same_step = {"autoreset_mode": AutoresetMode.SAME_STEP}
    return gymnasium.make_vec("asap/TwoRooms-v0", num_envs, vectorization_mode="sync", vector_kwargs=same_step)


def test_the_batch_has_gymnasium_s_shapes():
    envs = make_vec(8)
    assert isinstance(envs, TaskVectorEnv) and envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.reset(seed=0)[0] in envs.observation_space
    observation, reward, terminated, truncated, _ = envs.step(envs.action_space.sample())
    assert observation in envs.observation_space
    assert reward.shape == terminated.shape == truncated.shape == (8,)
    assert terminated.dtype == truncated.dtype == bool


def structure(infos):
    """Keys, types and masks: what a reader of infos relies on."""
    if isinstance(infos, dict):
        return {key: structure(value) for key, value in infos.items()}
    return (infos.dtype, infos.tolist()) if infos.dtype == bool else [value is None for value in infos]


def test_infos_are_those_of_gymnasium_s_own_vector_env():
    for actions in ([RIGHT, LEFT], [LEFT, LEFT], [RIGHT, RIGHT]):
        expected, ours = make_sync(2), make_vec(2)
        first, our_first = (envs.reset(seed=0, options=BESIDE_THE_GOAL)[1] for envs in (expected, ours))
        assert structure(our_first) == structure(first)
        last, our_last = (envs.step(np.array(actions))[-1] for envs in (expected, ours))
        assert structure(our_last) == structure(last)


def test_same_step_autoreset_keeps_the_final_observation():
    envs = make_vec(2)
    envs.reset(seed=0, options=BESIDE_THE_GOAL)
    observation, reward, terminated, truncated, infos = envs.step(np.array([RIGHT, LEFT]))
    assert reward.tolist() == [99.0, -1.0]
    assert terminated.tolist() == [True, False] and not truncated.any()
    assert observation[0, 0] < 0.5 < observation[1, 0]  # The first is back in the start area, in the same step.
    assert infos["final_obs"][0][0] > 0.8 and infos["final_obs"][1] is None
    assert infos["final_info"]["success"].tolist() == [True, False]
    after, reward, terminated, *_ = envs.step(np.array([UP, UP]))
    assert reward.tolist() == [-1.0, -1.0] and not terminated.any()
    assert abs(after[0, 0] - observation[0, 0]) < 6 * NOISE  # The next step goes on from there.


def test_the_batch_tells_how_each_episode_stands(monkeypatch):
    """In soccer an end may be good or bad. Here: rooms, where an end is told as a failure and by the place it was
    at."""

    def lost(env, noise, state, action, task, transition=Rooms.transition):
        return transition(env, noise, state, action, task)._replace(success=jnp.bool_(False))

    view = view_of(catalog.find("two-rooms"))._replace(
        status=lambda state: state.x > 0.8, status_names=("going", "there")
    )
    monkeypatch.setattr(Rooms, "transition", lost)
    monkeypatch.setattr(exported, "view_of", lambda _: view)
    envs = make_vec(2, max_episode_steps=399)  # A limit that no other test has: programs are kept by it.
    _, infos = envs.reset(seed=0, options=BESIDE_THE_GOAL)
    assert infos["status"].tolist() == ["going", "going"] and infos["_status"].all()
    _, _, terminated, _, infos = envs.step(np.array([RIGHT, LEFT]))
    assert terminated.tolist() == [True, False] and infos["status"].tolist() == ["going", "going"]
    final = infos["final_info"]
    assert final["status"].tolist() == ["there", None] and final["_status"].tolist() == [True, False]
    assert final["success"].tolist() == [False, False]


@pytest.mark.parametrize("limit", [None, 10])
def test_the_batch_keeps_the_time_limit(limit):
    envs = make_vec(2) if limit is None else make_vec(2, max_episode_steps=limit)
    limit = limit or 400
    envs.reset(seed=0)
    ends = [envs.step(np.array([DOWN, DOWN]))[3] for _ in range(2 * limit)]
    assert [t + 1 for t, truncated in enumerate(ends) if truncated.all()] == [limit, 2 * limit]
    assert np.sum(ends) == 4


def test_a_time_limit_below_one_is_an_error():
    with pytest.raises(ValueError, match="max_episode_steps"):
        make_vec(2, max_episode_steps=-1)


def test_the_batch_moves_as_the_task_does():
    envs = make_vec(8)
    envs.np_random = np.random.default_rng(0)
    actions, moves = np.arange(8) % 4, []
    for _ in range(500):
        envs.reset(options=MIDDLE)
        moves.append(envs.step(actions)[0][:, :2] - MIDDLE["start"])
    for action, (x, y) in enumerate([(0, STEP), (0, -STEP), (STEP, 0), (-STEP, 0)]):
        of_action = np.concatenate(moves)[np.tile(actions, 500) == action]
        np.testing.assert_allclose(of_action.mean(0), [x, y], atol=4 * NOISE / np.sqrt(1000))
        np.testing.assert_allclose(of_action.std(0), NOISE, rtol=0.1)
    assert (moves[0][:4] != moves[0][4:]).all()  # Same actions, noise of their own, ...
    two_moves = envs.step(actions)[0][:, :2] - MIDDLE["start"]
    assert (np.abs(two_moves - 2 * moves[-1]) > 1e-5).all()  # ... and new noise in each step.


def test_a_new_start_does_not_depend_on_the_last_noise():
    envs = make_vec(8)
    envs.np_random = np.random.default_rng(0)
    starts, finals = [], []
    for _ in range(125):
        envs.reset(options=BESIDE_THE_GOAL)
        observation, _, terminated, _, infos = envs.step(np.full(8, RIGHT))
        starts += list(observation[terminated, :2])
        finals += [final[:2] for final in infos["final_obs"][terminated]]
    assert len(starts) > 900
    np.testing.assert_allclose(np.corrcoef(np.transpose(starts), np.transpose(finals))[:2, 2:], 0, atol=0.15)


def test_the_batch_repeats_with_its_seed():
    actions = np.random.default_rng(0).integers(0, 4, (30, 8))
    first, again, other = (play(make_vec(8), actions, seed=seed)[0] for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(np.unique(first[0, :, 0])) == 8  # The environments differ.


def test_the_batch_names_bad_actions():
    envs = make_vec(2)
    with pytest.raises(ResetNeeded):
        envs.step(np.array([0, 0]))
    envs.reset(seed=0)
    for actions in ([0, 4], [-1, 0], [0], [0.0, 1.0]):
        with pytest.raises(ValueError, match="action"):
            envs.step(np.array(actions))


def test_gymnasium_s_statistics_count_our_episodes():
    envs = RecordEpisodeStatistics(make_vec(2, max_episode_steps=10))
    envs.reset(seed=0)
    for _ in range(20):
        *_, infos = envs.step(np.array([DOWN, DOWN]))
    assert infos["episode"]["l"].tolist() == [10, 10] and infos["episode"]["r"].tolist() == [-10, -10]


def test_the_batch_is_drawn_one_picture_each():
    envs = make_vec(2, render_mode="rgb_array")
    observations, _ = envs.reset(seed=0)
    for picture, (x, y, *_) in zip(envs.render(), observations, strict=True):
        np.testing.assert_allclose(agent_pixel(picture), [400 * (1 - y), 400 * x], atol=2)
