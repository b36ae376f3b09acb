"""Promise: whoever plays, every step of an environment is counted, once; learners see the true transitions, whole and in order;
and the result depends on the seed alone."""

import contextlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.arrays import stack
from asap.base.keys import uniforms
from asap.base.spec import Spec, TaskSet
from asap.base.types import Timestep
from asap.compose import compose
from asap.envs.core import CompiledTasks, Env
from asap.envs.resolve import live_task
from asap.experience import counted_play as counting
from asap.experience.choose import counted_play
from asap.experience.compiled_play import CompiledPlay
from asap.experience.counted_play import StepChoice, StepCounter, chunk_sizes
from asap.experience.hosted_play import HostedPlay
from asap.policy.policy import NO_SKILL

END, LIMIT, SKILL = 3, 5, 7
STAY, FORWARD = 0, 1
SEEDS = (4, 9)


# ---- A line of four places: a step forward pays the place it leads to, the fourth ends the episode, so does time -----


class Line(Env):
    spec = Spec(("place",), (0.0,), (3.0,), ("stay", "forward"), LIMIT, 0.9)

    def reset(self, key, task):
        return jnp.float32(0)

    def noise(self, key):
        return ()

    def transition(self, noise, state, action, task):
        after = state + action
        return Timestep(after, after, after >= END, after >= END)

    def observe(self, state, task):
        return state[None]

    def descriptor(self, task):
        return task[None]


class HostedLine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 3, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0.0
        return np.float32([self.place]), {}

    def step(self, action):
        self.place += float(action)
        over = self.place >= END
        return np.float32([self.place]), self.place, over, False, {"success": over}


LINE = CompiledTasks.of(Line(), {"line": np.float32(0)})
PLAYERS = ["compiled", "hosted"]


@contextlib.contextmanager
def playing(kind: str, seeds=SEEDS, budget: int = 10):
    """A player of the line and its counter."""
    counter = StepCounter(len(seeds), budget)
    if kind == "compiled":
        yield CompiledPlay(LINE, seeds, counter), counter
        return
    task = live_task(HostedLine, {"env.max_steps": LIMIT})
    with contextlib.closing(counted_play(TaskSet((task,), (1.0,)), seeds, counter)) as play:
        assert isinstance(play, HostedPlay)
        yield play, counter


class Diary(NamedTuple):
    """What a learner was shown."""

    steps: Any
    rewards: Any
    places: Any  # Sums.
    led_to: Any
    previous_skills: Any
    terminated: Any
    truncated: Any
    drawn: Any


@dataclass(frozen=True)
class Reader:
    """Goes forward in `forward` steps of every four, and writes all down."""

    forward: int = 4

    def begin(self, key):
        return Diary(*(jnp.int32(0),) * 7, jnp.float32(0))

    def choose(self, key, state, x, m):
        action = jnp.where(state.steps % 4 < self.forward, FORWARD, STAY)
        return StepChoice(state._replace(drawn=state.drawn + uniforms(key)[0]), jnp.int32(SKILL), action)

    def learn(self, key, state, step):
        seen = 1, step.reward, step.observation[0], step.next_observation[0], step.previous_skill
        seen = *seen, step.terminated, step.truncated
        return Diary(*(old + jnp.asarray(new, jnp.int32) for old, new in zip(state, seen)), state.drawn)


class Same(eqx.Module):
    """Always the same action."""

    action: Any

    def draws(self, key):
        return ()

    def choose(self, draws, x, m, previous):
        return jnp.int32(SKILL), self.action


def same(*actions: int):
    return stack([Same(np.int32(action)) for action in actions])


def diary(running) -> list[tuple]:
    """Of each seed, without what was drawn."""
    return [tuple(int(part[s]) for part in running.state[:-1]) for s in range(len(running.state.steps))]


# ---- Learners of one step at a time -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLAYERS)
def test_a_learner_sees_every_step_as_it_was(kind):
    """Ten steps forward: 0-1-2-3, three times, and 0-1. The place 3 is shown, and no step leads to a start."""
    with playing(kind) as (play, counter):
        running = play.learn(Reader())
    previous = 4 * NO_SKILL + 6 * SKILL
    assert diary(running) == [(10, 3 * 6 + 1, 3 * (0 + 1 + 2), 3 * (1 + 2 + 3) + 1, previous, 3, 0)] * 2
    np.testing.assert_array_equal(counter.used, [10, 10])
    for curve in counter.curves():
        np.testing.assert_array_equal(curve, [[3, 6, 9], [6, 6, 6]])


@pytest.mark.parametrize("kind", PLAYERS)
def test_the_time_limit_truncates_and_does_not_terminate(kind):
    """Nobody moves: episodes of five steps."""
    with playing(kind, budget=12) as (play, counter):
        running = play.learn(Reader(forward=0))
    assert diary(running) == [(12, 0, 0, 0, 3 * NO_SKILL + 9 * SKILL, 0, 2)] * 2
    assert [np.asarray(curve.episodes).tolist() for curve in counter.curves()] == [[5, 10]] * 2


def test_compiled_and_hosted_play_are_the_same():
    """Forward three times and stay once, for 37 steps; and what the learner draws is the same, too."""
    found = []
    for kind in PLAYERS:
        with playing(kind, budget=37) as (play, counter):
            running = play.learn(Reader(forward=3))
            found.append((diary(running), np.asarray(running.state.drawn), counter.used.tolist()))
    assert found[0][0] == found[1][0] and found[0][2] == found[1][2]
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)


@pytest.mark.parametrize("kind", PLAYERS)
def test_learning_on_is_like_learning_at_once(kind):
    with playing(kind, budget=23) as (play, _):
        whole = play.learn(Reader(forward=3))
    with playing(kind, budget=23) as (play, counter):
        running = play.learn(Reader(forward=3), 9)
        np.testing.assert_array_equal(counter.used, [9, 9])
        parts = play.learn(Reader(forward=3), running=running)
        np.testing.assert_array_equal(counter.used, [23, 23])
    for one, other in zip(whole.state, parts.state):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", PLAYERS)
def test_what_is_changed_between_two_calls_is_learned_on_with(kind):
    """Set back to the start, a learner goes on in the middle of an episode: 1-2-3 and 0-1-2 after the 0-1 before."""
    with playing(kind, budget=6) as (play, _):
        running = play.learn(Reader(), 1)
        reset = jax.tree.map(np.zeros_like, running.state)
        found = diary(play.learn(Reader(), 5, running._replace(state=reset)))
    assert found == [(5, 2 + 3 + 1 + 2 + 3, 1 + 2 + 0 + 1 + 2, 2 + 3 + 1 + 2 + 3, 4 * SKILL + NO_SKILL, 2, 0)] * 2


@pytest.mark.parametrize("kind", PLAYERS)
def test_chunks_change_nothing(kind, monkeypatch):
    found = []
    for chunks in (60, 7, 1):
        monkeypatch.setattr(counting, "CHUNKS", chunks)
        with playing(kind, budget=31) as (play, _):
            found.append(play.learn(Reader(forward=3)).state)
    for other in found[1:]:
        for one, same_ in zip(found[0], other):
            np.testing.assert_array_equal(one, same_)


@pytest.mark.parametrize("total", [0, 1, 59, 60, 61, 300_000])
def test_chunks_are_the_whole(total):
    sizes = chunk_sizes(total)
    assert sum(sizes) == total and (not sizes or max(sizes) - min(sizes) <= 1) and len(sizes) == min(total, 60)


# ---- Whole episodes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLAYERS)
def test_episodes_are_whole_and_only_those_of_active_seeds_count(kind):
    """The first seed goes forward (3 steps, 6), the second stays (5 steps, 0); four episodes of each."""
    with playing(kind, budget=100) as (play, counter):
        steps, totals = play.play(same(FORWARD, STAY), 4)
        np.testing.assert_array_equal(counter.used, [12, 20])
        np.testing.assert_array_equal(np.asarray(totals.episodes), [[4], [4]])
        np.testing.assert_array_equal(np.asarray(totals.returns), [[24], [0]])
        steps, _ = jax.tree.map(np.asarray, (steps, totals))
        assert steps.reward.shape == steps.counts.shape == (2, LIMIT, 4)
        np.testing.assert_array_equal(steps.counts[:, :, 0], [[1, 1, 1, 0, 0], [1] * 5])
        np.testing.assert_array_equal(steps.observation[0, 0, :3, 0], [0, 1, 2])
        np.testing.assert_array_equal(steps.next_observation[0, 0, :3, 0], [1, 2, 3])
        np.testing.assert_array_equal(steps.previous_skill[0, :3, 0], [NO_SKILL, SKILL, SKILL])
        np.testing.assert_array_equal(steps.terminated[0, :3, 0], [False, False, True])
        np.testing.assert_array_equal((steps.truncated & steps.counts)[1, :, 0], [False] * 4 + [True])
        assert not (steps.truncated & steps.counts)[0].any() and not (steps.terminated & steps.counts)[1].any()
        play.play(same(FORWARD, STAY), 2, np.array([False, True]))
        np.testing.assert_array_equal(counter.used, [12, 30])
        assert counter.affords(10, 5.0).tolist() == [True, True] and counter.left.tolist() == [88, 70]
        assert counter.affords(15, 5.0).tolist() == [True, False]


@pytest.mark.parametrize("kind", PLAYERS)
def test_an_evaluation_counts_nowhere_and_does_not_disturb_a_learner(kind):
    with playing(kind, budget=30) as (play, counter):
        running = play.learn(Reader(forward=3), 8)
        found = play.evaluate(same(FORWARD, STAY), 3, 0)
        np.testing.assert_array_equal(found.returns[:, 0], [[6] * 3, [0] * 3])
        np.testing.assert_array_equal(found.lengths[:, 0], [[3] * 3, [5] * 3])
        np.testing.assert_array_equal(counter.used, [8, 8])
        on = play.learn(Reader(forward=3), running=running)
    with playing(kind, budget=30) as (play, _):
        alone = play.learn(Reader(forward=3))
    assert diary(on) == diary(alone)


# ---- Two rooms: real numbers, and chance ----------------------------------------------------------------------------


class Values(NamedTuple):
    weights: Any
    steps: Any


@dataclass(frozen=True)
class Sarsa:
    """Linear action values over [1, x, y] of what comes next at random: enough arithmetic to see last bits."""

    def begin(self, key):
        return Values(jnp.zeros((4, 3)), jnp.int32(0))

    def choose(self, key, state, x, m):
        return StepChoice(state, jnp.int32(NO_SKILL), (4 * uniforms(key)[0]).astype(jnp.int32))

    def learn(self, key, state, step):
        phi, after = (jnp.concatenate([jnp.ones(1), x[:2]]) for x in (step.observation, step.next_observation))
        values = (state.weights * phi).sum(-1)
        target = step.reward + 0.9 * jnp.where(step.terminated, 0.0, (state.weights * after).sum(-1).max())
        error = target - values[step.action]
        return Values(state.weights.at[step.action].add(0.01 * error * phi), state.steps + 1)


@pytest.fixture(scope="module")
def rooms():
    return compose(["two-rooms"], {})[1]


def values_of(tasks: TaskSet, seeds: tuple[int, ...]) -> Values:
    with contextlib.closing(counted_play(tasks, seeds, StepCounter(len(seeds), 900))) as play:
        return jax.tree.map(np.asarray, play.learn(Sarsa()).state)


@pytest.mark.parametrize("name", ["two-rooms", "asap/TwoRooms-v0"])
def test_a_seed_learns_the_same_whoever_plays_along(name):
    """To the last bits or so: a batch of another size may be added up in another order."""
    tasks = compose([name], {})[1]
    alone, beside, again = (values_of(tasks, seeds) for seeds in ((3,), (1, 3, 8), (1, 3, 8)))
    np.testing.assert_array_equal(beside.weights, again.weights)
    np.testing.assert_allclose(alone.weights[0], beside.weights[1], rtol=1e-4)
    assert np.abs(beside.weights[0] - beside.weights[1]).max() > 0.1, "other seeds see other things"


def test_steps_in_two_rooms_are_counted_by_hand(rooms):
    """Upward leads to the wall: 400 steps of -1, three times."""
    counter = StepCounter(2, 10_000)
    with contextlib.closing(counted_play(rooms, SEEDS, counter)) as play:
        _, totals = play.play(same(0, 0), 3)
    np.testing.assert_array_equal(counter.used, [1200, 1200])
    np.testing.assert_array_equal(np.asarray(totals.returns), [[-1200], [-1200]])


def test_our_rooms_and_their_environment_teach_about_the_same(rooms):
    """Other random numbers, the same task: the values of where a random walk has been for 900 steps."""
    found = [values_of(tasks, (3, 4, 5, 6)).weights.mean(0) for tasks in (rooms, compose(["asap/TwoRooms-v0"], {})[1])]
    np.testing.assert_allclose(found[0], found[1], atol=0.5)
    assert np.abs(found[0]).max() > 1.2
