"""The contract of an episode: how it ends, what is told about its end, and what begins in its place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.keys import Key, fold, root
from asap.envs.catalog import task_set
from asap.envs.core import CompiledTasks, Episode, advance, begin
from asap.envs.rooms import Position, Rooms, RoomsTask
from asap.experience.rollout import cast, lane_keys, play_window, start_lanes

UP, DOWN, RIGHT, LEFT = range(4)
LANES, STEPS = 5, 40
STILL = Position(jnp.float32(0), jnp.float32(0))


def episode_at(x: float, y: float, elapsed: int = 0, task: int = 0, total: float = 0.0) -> Episode:
    return Episode(Position(jnp.float32(x), jnp.float32(y)), jnp.int32(task), jnp.int32(elapsed), jnp.float32(total))


@pytest.fixture(scope="module")
def step(compiled):
    """`advance` without noise; the keys of what comes next can be chosen."""
    run = compiled(advance)

    def of(tasks: CompiledTasks, episode: Episode, action: int, keys: tuple[Key, Key] = (root(1), root(2))):
        return run(tasks, STILL, *keys, episode, jnp.int32(action))

    return of


# ---- The end ------------------------------------------------------------------------------------------------------


def test_the_time_limit_of_the_rooms_is_400_steps(step):
    tasks = task_set((("two-rooms", 1.0),))
    episode = episode_at(0.01, 0.5)
    for count in range(1, 401):
        episode, outcome = step(tasks, episode, LEFT)
        assert not outcome.terminated
        assert bool(outcome.truncated) == (count == 400)
        assert int(outcome.elapsed) == count
    assert float(outcome.total) == -400.0
    assert int(episode.elapsed) == 0


@pytest.mark.parametrize("elapsed", [0, 7, 8])
@pytest.mark.parametrize("at_goal", [False, True])
def test_an_episode_ends_in_one_way_only(short_rooms, step, elapsed, at_goal):
    """The limit is 9 steps; to reach the goal in the ninth is to terminate, not to be cut off."""
    place = (0.79, 0.1) if at_goal else (0.5, 0.5)
    _, outcome = step(short_rooms, episode_at(*place, elapsed, task=1), RIGHT)
    assert bool(outcome.terminated) == at_goal
    assert bool(outcome.truncated) == (elapsed == 8 and not at_goal)


@pytest.mark.parametrize("elapsed, place, final", [(3, (0.79, 0.1), (0.84, 0.1)), (8, (0.2, 0.5), (0.25, 0.5))])
def test_the_final_observation_is_the_true_one(short_rooms, step, elapsed, place, final):
    episode, outcome = step(short_rooms, episode_at(*place, elapsed, task=1, total=-2.0), RIGHT)
    np.testing.assert_allclose(outcome.next_observation, [*final, 0.9, 0.1], rtol=1e-5)
    assert not np.allclose(episode.state, final, atol=0.01)
    assert float(outcome.total) == -2.0 + float(outcome.reward)
    assert (int(outcome.elapsed), int(outcome.task)) == (elapsed + 1, 1)


def test_an_episode_that_goes_on_is_left_alone(short_rooms, step):
    episode, outcome = step(short_rooms, episode_at(0.2, 0.5, 4, task=1, total=-4.0), UP)
    assert not (outcome.terminated or outcome.truncated)
    np.testing.assert_allclose(episode.state, (0.2, 0.55), rtol=1e-5)
    assert (int(episode.task), int(episode.elapsed), float(episode.total)) == (1, 5, -5.0)


# ---- The next beginning -------------------------------------------------------------------------------------------


def test_a_new_episode_begins_in_the_same_step_from_the_keys_of_that_step(short_rooms, step):
    at_the_end = episode_at(0.79, 0.1, 3, task=1, total=-2.0)
    starts = []
    for seed in range(5):
        keys = fold(root(seed), 0), fold(root(seed), 1)
        episode, _ = step(short_rooms, at_the_end, RIGHT, keys)
        jax.tree.map(np.testing.assert_allclose, episode, begin(short_rooms, *keys))
        assert (int(episode.elapsed), float(episode.total)) == (0, 0.0)
        starts.append((float(episode.state.x), float(episode.state.y)))
    assert len(set(starts)) == 5


def test_a_new_episode_starts_in_the_box_of_its_own_task(short_rooms, compiled):
    start = compiled(
        jax.vmap(lambda i, tasks: begin(tasks, fold(root(3), i, 0), fold(root(3), i, 1)), in_axes=(0, None))
    )
    episodes = start(jnp.arange(2000), short_rooms)
    x, y, task = map(np.asarray, (episodes.state.x, episodes.state.y, episodes.task))
    near = (0.74 <= x) & (x <= 0.79) & (0.05 <= y) & (y <= 0.18)
    assert (near == (task == 1)).all()
    assert (x[task == 0] <= 0.5).all()


# ---- The distribution over tasks ----------------------------------------------------------------------------------


def line(count: int) -> dict[str, RoomsTask]:
    """Tasks that are told apart by their goal."""
    zero, one = np.zeros(1, np.float32), np.ones(1, np.float32)
    point = np.float32([0.2, 0.5])
    return {
        f"task {i}": RoomsTask(zero + 0.5, zero, one, np.float32([0.9, i / 10]), np.float32(0.1), point, point)
        for i in range(count)
    }


@pytest.mark.parametrize("weights", [None, (1.0, 2.0, 5.0), (0.0, 1.0, 1.0), (3.0, 0.0, 1.0), (1.0, 1.0, 0.0)])
def test_tasks_are_drawn_by_weight(compiled, weights):
    tasks = CompiledTasks.of(Rooms(), line(3), weights)
    grid = (jnp.arange(8000) + 0.5) / 8000
    drawn = np.asarray(compiled(jax.vmap(lambda u: tasks.draw(u)))(grid))
    expected = np.ones(3) / 3 if weights is None else np.asarray(weights) / sum(weights)
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 8000, expected, atol=2e-4)
    assert tasks.draw(jnp.float32(0.0)) == np.flatnonzero(expected)[0]
    assert tasks.draw(jnp.float32(1 - 2**-23)) == np.flatnonzero(expected)[-1]


def test_named_tasks_are_drawn_by_the_weights_they_are_given():
    tasks = task_set((("two-rooms", 9.0), ("flipped-two-rooms", 1.0)))
    np.testing.assert_allclose(tasks.weights, [0.9, 0.1], rtol=1e-6)


def test_one_task_of_a_set_alone():
    tasks = CompiledTasks.of(Rooms(), line(3), (1.0, 2.0, 5.0))
    alone = tasks.only("task 1")
    assert (alone.size, alone.names) == (1, ("task 1",))
    np.testing.assert_allclose(alone[0].goal, tasks[1].goal)
    assert alone.draw(jnp.float32(0.99)) == 0


# ---- Lanes --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def window(short_rooms, new_policy, compiled):
    policy = new_policy(2, "constant", task="interactions", termination=0.1)
    lanes = start_lanes(short_rooms, root(5), jnp.arange(LANES))
    play = compiled(play_window, static_argnames="num_steps")
    return policy, lanes, *play(policy, short_rooms, lanes, root(6), num_steps=STEPS)


def test_the_totals_are_those_of_an_explicit_loop(short_rooms, compiled, window):
    """Every episode once, under its own task: the same actions and random numbers, lane by lane, step by step."""
    policy, lanes, after, transitions, totals = window
    draw = compiled(cast)
    run = compiled(advance)
    keys = lane_keys(root(6), jnp.arange(LANES))
    counted = np.zeros((4, 2))
    for n in range(LANES):
        lane_key, episode = jax.tree.map(lambda leaf: leaf[n], (keys, lanes.episode))
        for t in range(STEPS):
            draws = draw(short_rooms, policy, lane_key, jnp.int32(t))
            np.testing.assert_allclose(transitions.observation[:2, t, n], episode.state, atol=1e-6)
            task = int(episode.task)
            action = transitions.action[t, n]
            episode, outcome = run(short_rooms, draws.noise, draws.reset, draws.task, episode, action)
            assert bool(outcome.terminated) == bool(transitions.terminated[t, n])
            assert bool(outcome.truncated) == bool(transitions.truncated[t, n])
            np.testing.assert_allclose(transitions.next_observation[:, t, n], outcome.next_observation, atol=1e-6)
            if outcome.terminated or outcome.truncated:
                counted[:, task] += (1, float(outcome.total), bool(outcome.terminated), int(outcome.elapsed))
        jax.tree.map(
            lambda leaf, expected: np.testing.assert_allclose(leaf[n], expected, atol=1e-6), after.episode, episode
        )
    np.testing.assert_allclose(np.stack(totals), counted, rtol=1e-6)
    assert (counted[0] > 0).all() and counted[2].sum() > 0 and (counted[0] - counted[2]).sum() > 0


def test_no_lane_idles(window):
    """Steps of the episodes that ended and of those still running are all the steps there were."""
    _, _, after, transitions, totals = window
    assert transitions.reward.shape == (STEPS, LANES)
    assert int(totals.steps.sum() + after.episode.elapsed.sum()) == STEPS * LANES
    moved = np.abs(np.asarray(transitions.next_observation - transitions.observation))[:2].sum(0) > 0
    assert moved.mean() > 0.8  # Only the walls hold an agent back.


def test_the_ends_of_a_window_are_exclusive_and_both_happen(window):
    transitions = window[3]
    assert not (transitions.terminated & transitions.truncated).any()
    assert transitions.terminated.any() and transitions.truncated.any()
    np.testing.assert_array_equal(transitions.ended, transitions.terminated | transitions.truncated)
    rewards = np.asarray(transitions.reward)
    assert ((rewards == 99) == np.asarray(transitions.terminated)).all()


def test_totals_per_task_can_be_read_from_the_transitions(window):
    """An independent count: the goal in the observation tells the task."""
    transitions, totals = window[3], window[4]
    ended = np.asarray(transitions.ended)
    far = np.asarray(transitions.observation)[3] > 0.5
    for task, of_task in enumerate((far, ~far)):
        assert int(totals.episodes[task]) == (ended & of_task).sum()
        assert int(totals.successes[task]) == (np.asarray(transitions.terminated) & of_task).sum()
