"""Augmented random search makes the update of the paper, gets the same luck for both signs, and counts every step."""

import contextlib
import dataclasses

import numpy as np
import pytest
from own_envs import LENGTH, Walk

from asap.base.spec import TaskSet
from asap.envs import catalog
from asap.envs.resolve import hosted_task
from asap.envs.rooms import Rooms
from asap.experience.choose import counted_play
from asap.experience.counted_play import StepCounter, over_candidates
from asap.policy.policy import NO_SKILL
from asap.rivals.ars import ARS, LinearActor, LinearEnds, SeenInputs, blank
from asap.rivals.features import RawInputs

# Wide open, and the goal is most of the right side: "right" everywhere is good.
EASY = catalog.find("two-rooms").task._replace(
    door_low=np.float32([0.0]),
    door_high=np.float32([1.0]),
    goal=np.float32([0.9, 0.5]),
    goal_half_width=np.float32(0.3),
)


class ShortRooms(Rooms):
    spec = dataclasses.replace(Rooms.spec, horizon=100)


def one(task) -> TaskSet:
    return TaskSet((task,), (1.0,))


@pytest.fixture(scope="module")
def easy() -> TaskSet:
    return one(dataclasses.replace(catalog.find("two-rooms"), name="easy", task=EASY, env=ShortRooms()))


@pytest.fixture(scope="module")
def walk() -> tuple[TaskSet, list[int]]:
    """An environment on the host, and how many steps it has made in each call of it."""
    made = []

    class CountedWalk(Walk):
        def step(self, action):
            made.append(1)
            return super().step(action)

    return one(hosted_task(CountedWalk, {})), made


# ---- The update ----


def returns_of(weights: np.ndarray) -> float:
    """A quadratic with its peak at (1, 2)."""
    return -float(((weights - [[1.0, 2.0]]) ** 2).sum())


def update(top: int, step: float) -> np.ndarray:
    """From M = 0 along (1, 0) and (0, 1) with nu = 1: plus -4 and -2, minus -8 and -10."""
    deltas = np.float32([[[1, 0]], [[0, 1]]])
    returns = np.float32([returns_of(sign * delta) for sign in (1, -1) for delta in deltas])
    assert returns.tolist() == [-4, -2, -8, -10]
    return np.asarray(ARS(top=top, step=step).moved(np.zeros((1, 2), np.float32), deltas, returns))


def test_an_update_along_two_directions_by_hand():
    # Mean -6, deviation sqrt((4 + 16 + 4 + 16) / 4) = sqrt(10): step / (2 sqrt(10)) times (4, 8).
    np.testing.assert_allclose(update(top=2, step=np.sqrt(10)), [[2, 4]], rtol=1e-5)


def test_of_the_directions_only_the_best_count():
    # The second, by its -2: deviation 4, one direction, so step / 4 times 8.
    np.testing.assert_allclose(update(top=1, step=0.5), [[0, 1]], rtol=1e-5)


def test_equal_returns_leave_the_weights():
    weights = np.float32([[3.0, -1.0]])
    assert np.array_equal(ARS().moved(weights, np.ones((2, 1, 2), np.float32), np.full(4, -400.0, np.float32)), weights)


def test_moments_are_those_of_all_that_counts():
    data = np.random.default_rng(0).normal([[5], [-2]], [[3], [0.1]], (2, 60)).astype(np.float32)
    counts = np.arange(60) % 3 > 0
    seen = SeenInputs(*(leaf[0] for leaf in blank(1, 1, 2).seen))
    for part in (slice(0, 7), slice(7, 60)):
        seen = seen.joined(data[:, part], counts[part])
    np.testing.assert_allclose(seen.mean, data[:, counts].mean(1), rtol=1e-5)
    np.testing.assert_allclose(seen.deviation, data[:, counts].std(1), rtol=1e-4)


def test_a_constant_input_has_no_part():
    seen = SeenInputs(*(leaf[0] for leaf in blank(1, 1, 1).seen)).joined(
        np.full((1, 9), 0.9, np.float32), np.ones(9, bool)
    )
    assert seen.deviation == 1


# ---- The policy ----


def test_discrete_actions_have_the_largest_score_and_box_actions_are_within_bounds():
    weights, mean, deviation = np.float32([[0, 1], [3, 0]]), np.float32([10]), np.float32([2])
    discrete = LinearActor(weights, mean, deviation, LinearEnds(RawInputs((1,), False), None))
    box = LinearActor(weights, mean, deviation, LinearEnds(RawInputs((1,), False), ((-1.0, -1.0), (1.0, 2.5))))
    for x, score, action in ((15.0, 2.5, 1), (17.0, 3.5, 0)):  # (x - 10) / 2 against 3
        seen = np.float32([-99, x]), np.zeros(0, np.float32), NO_SKILL
        skill, chosen = discrete.choose((), *seen)
        assert (skill, chosen) == (NO_SKILL, action)
        np.testing.assert_allclose(box.choose((), *seen)[1], [min(score, 1), 2.5])


def test_the_equal_track_sees_what_planes_see():
    rooms, pendulum = one(catalog.find("two-rooms")), one(hosted_task("Pendulum-v1", {}))
    assert LinearEnds.of(rooms, "equal") == (RawInputs((0, 1), False), None)
    assert LinearEnds.of(rooms, "native") == (RawInputs((0, 1, 2, 3), False), None)
    assert LinearEnds.of(pendulum, "native") == (RawInputs((0, 1, 2), False), ((-1.0,), (1.0,)))


# ---- Candidates ----


def always(actions: np.ndarray, num_inputs: int, num_actions: int) -> LinearActor:
    """Actors with axes like `actions` that do the same everywhere."""
    weights = np.zeros((*actions.shape, num_actions, num_inputs + 1), np.float32)
    np.put_along_axis(weights[..., 0], actions[..., None], 1.0, -1)
    zeros = np.zeros((*actions.shape, num_inputs), np.float32)
    return LinearActor(weights, zeros, zeros + 1, LinearEnds(RawInputs(tuple(range(num_inputs)), False), None))


@pytest.mark.parametrize("kind", ["compiled", "hosted"])
def test_candidates_of_one_number_have_the_same_luck(kind, easy, walk):
    """Two seeds, three candidates, two episodes: the first candidate and the third have the same number."""
    tasks = easy if kind == "compiled" else walk[0]
    actions, counter = np.array([[0, 1, 0], [1, 1, 0]]), StepCounter(2, 10**6)
    actors = always(actions, len(tasks.spec.observation_names), tasks.spec.num_actions)
    with contextlib.closing(counted_play(tasks, (5, 6), counter)) as play:
        steps, totals = play.play(actors, 2, alike=(0, 1, 0))
        again, _ = play.play(actors, 2, alike=(0, 1, 0))
    x, counts = np.moveaxis(np.asarray(steps.observation), 2, -1), np.asarray(steps.counts)
    assert x.shape[:2] == counts.shape[:2] == (2, 3)
    for s, c in np.ndindex(2, 3):
        assert (np.asarray(steps.action)[s, c][counts[s, c]] == actions[s, c]).all()
    assert np.array_equal(x[0, 0], x[0, 2]) and not np.array_equal(x[0, 0], x[1, 0])
    first = 1 if kind == "hosted" else 0  # A walk begins at 0, and shows its noise after a step.
    luck = x[..., first, :, first] - (actions[..., None] if first else 0)
    np.testing.assert_allclose(luck[1, 0], luck[1, 2], atol=1e-5)
    assert (luck[:, 0] != luck[:, 1]).all() and (luck[0] != luck[1]).all()
    assert not np.array_equal(np.asarray(again.observation), np.asarray(steps.observation))
    per_candidate = counts.sum((-2, -1))
    assert np.array_equal(np.asarray(totals.steps)[..., 0], per_candidate)
    assert np.array_equal(over_candidates(totals).steps[:, 0], per_candidate.sum(1))


def test_every_step_of_an_environment_is_counted(walk):
    tasks, made = walk
    made.clear()
    counter = StepCounter(2, 5 * 2 * 2 * LENGTH + 5)  # Two directions, both signs, five times, and not a sixth.
    ars = dataclasses.replace(ARS(), directions=2)
    tasks = one(dataclasses.replace(tasks.tasks[0], spec=dataclasses.replace(tasks.spec, horizon=LENGTH)))
    agents = ars.learn(tasks, (1, 2), counter)
    assert agents.steps_used.tolist() == [240, 240] and len(made) == 480
    assert agents.num_skills == 0 and agents.num_parameters == 2 * 4
    assert all(curve.episodes.tolist()[-1] == 240 for curve in agents.curves)


def test_it_learns_a_room_and_goes_on_from_there(easy):
    ars = ARS(representation="equal")
    agents = ars.learn(easy, (7, 8, 9), StepCounter(3, 20_000))
    assert (agents.steps_used <= 20_000).all() and (agents.steps_used > 18_000).all()
    first, last = np.array([(curve.returns[0], np.mean(curve.returns[-5:])) for curve in agents.curves]).T
    assert (first < 0).all() and (last > 10).all(), (first, last)
    further = ars.learn(easy, (7, 8, 9), StepCounter(3, 20_000), agents.state)
    assert all(curve.returns[0] > 0 for curve in further.curves), further.curves
