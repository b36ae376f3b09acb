"""Playing: the stored steps fit together, and what is summed or counted while playing is what the stored steps say.

Complete episodes and evaluations number their lanes and steps as a window does, so the window of the same keys holds
the very episodes they played, step by step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.arrays import stack
from asap.base.episodes import EVALUATION
from asap.base.keys import fold, root
from asap.base.types import Transition
from asap.compose import compose
from asap.config.schema import Config
from asap.config.toml import parse_settings
from asap.experience.compiled import Compiled, Counted, count_episodes
from asap.experience.protocol import EpisodeIds
from asap.experience.rollout import Likeliest, fresh_episodes, play_episodes, play_window, start_lanes
from asap.experience.rollout import play as play_lanes
from asap.experience.summed_scores import EpisodeScores, play_scored
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.policy.score import (
    MARGINAL,
    SAMPLED,
    Parameters,
    is_filtered,
    score,
    weighted_filtered_score,
    weighted_score,
)

LANES, STEPS, EPISODES, DISCOUNT = 5, 40, 12, 0.9
CASES = {
    "constant": dict(planes=2, skills="constant", task="interactions", termination=0.1),
    "linear": dict(planes=1, skills="linear", task="none", termination=None),
}


class Played(NamedTuple):
    policy: ASAPPolicy
    steps: Transition  # Axes (..., time, lane), as NumPy arrays.


@pytest.fixture(scope="module")
def run_window(compiled):
    return compiled(play_window, static_argnames="num_steps")


@pytest.fixture(scope="module")
def play(short_rooms, new_policy, run_window) -> Callable[[str, int], Played]:
    """The window of the key from which the complete episodes, or the evaluation, of this seed are played."""

    def of(case: str, seed: int) -> Played:
        policy = new_policy(**CASES[case])
        lanes = start_lanes(short_rooms, fold(root(seed), 1), jnp.arange(LANES))
        _, steps, _ = run_window(policy, short_rooms, lanes, fold(root(seed), 0), num_steps=STEPS)
        return Played(policy, jax.tree.map(np.asarray, steps))

    return of


@pytest.fixture(scope="module")
def windows(short_rooms, new_policy, run_window) -> tuple[Transition, Transition]:
    """Two windows of the same lanes, one after the other."""
    policy = new_policy(**CASES["constant"])
    lanes = start_lanes(short_rooms, root(5), jnp.arange(LANES))
    lanes, first, _ = run_window(policy, short_rooms, lanes, root(6), num_steps=STEPS)
    lanes, second, _ = run_window(policy, short_rooms, lanes, root(7), num_steps=STEPS)
    return jax.tree.map(np.asarray, (first, second))


# ---- Windows ------------------------------------------------------------------------------------------------------


def join(windows: tuple[Transition, Transition]) -> Transition:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=-2), *windows)


def test_each_step_begins_where_the_last_one_led(windows):
    """Also from one window to the next; after an end, somewhere else."""
    steps = join(windows)
    led_to, begins = steps.next_observation[:, :-1], steps.observation[:, 1:]
    ended = steps.ended[:-1]
    np.testing.assert_array_equal(led_to[:, ~ended], begins[:, ~ended])
    assert (led_to[:2, ended] != begins[:2, ended]).any(0).all()
    assert ended.sum() > 10


def test_the_previous_skill_is_that_of_the_step_before(windows):
    steps = join(windows)
    expected = np.where(steps.ended[:-1], NO_SKILL, steps.skill[:-1])
    np.testing.assert_array_equal(steps.previous_skill[1:], expected)
    np.testing.assert_array_equal(steps.previous_skill[0], NO_SKILL)


def test_the_descriptor_stays_with_the_episode_and_tells_the_task(windows):
    steps = join(windows)
    same = (steps.descriptor[:, 1:] == steps.descriptor[:, :-1]).all(0)
    assert same[~steps.ended[:-1]].all() and not same.all()
    np.testing.assert_allclose(steps.descriptor[0], 2 * steps.observation[3] - 1, atol=1e-6)
    np.testing.assert_array_equal(steps.observation[2:], steps.next_observation[2:])


def test_each_step_belongs_to_the_task_that_its_descriptor_tells(windows):
    steps = join(windows)
    assert (steps.of_task.sum(0) == 1).all() and steps.of_task.any((1, 2)).all()
    for member in steps.of_task:
        assert len(np.unique(steps.descriptor[:, member], axis=1).T) == 1


def test_skills_and_actions_exist(windows):
    steps = join(windows)
    assert set(np.unique(steps.skill)) <= set(range(4)) and len(np.unique(steps.skill)) > 1
    assert set(np.unique(steps.action)) == set(range(4))


def test_lanes_and_windows_have_their_own_randomness(windows):
    first, second = windows
    assert len(np.unique(first.observation[0, 1:])) > 0.9 * first.observation[0, 1:].size
    assert not (first.action == second.action).all()


# ---- Complete episodes --------------------------------------------------------------------------------------------


class Scored(NamedTuple):
    weighted: Parameters
    plain: Parameters
    returns: Any
    totals: Any


class Schedule(NamedTuple):
    """Which stored steps belong to the episodes that count, and what their episode returned."""

    counted: np.ndarray
    discounted: np.ndarray
    episodes: list[tuple[int, int, int]]  # lane, first step, one past the last


def schedule(steps: Transition) -> Schedule:
    """Lanes begin anew while fewer than EPISODES have been started; every episode that was started counts."""
    first, started, playing, episodes = np.zeros(LANES, int), LANES, np.ones(LANES, bool), []
    for t in range(STEPS):
        ends = steps.ended[t] & playing
        may_start = started < EPISODES
        for lane in np.flatnonzero(ends):
            episodes.append((lane, first[lane], t + 1))
            first[lane] = t + 1
        started += ends.sum() if may_start else 0
        playing &= ~ends | may_start
    assert not playing.any(), "the window is too short for this test"
    counted, discounted = np.zeros((STEPS, LANES), bool), np.zeros((STEPS, LANES))
    for lane, begin, end in episodes:
        counted[begin:end, lane] = True
        discounted[begin:end, lane] = DISCOUNT ** np.arange(end - begin) @ steps.reward[begin:end, lane].astype(float)
    return Schedule(counted, discounted, episodes)


@pytest.fixture(scope="module")
def both(short_rooms, play, compiled) -> Callable[[str, str, int], tuple[Any, dict[str, Any], Schedule, Transition]]:
    """The sums made while playing, and the same from the stored steps."""
    static = ("num_lanes", "num_episodes", "gradient", "discount")

    def summed(policy, tasks, key, num_lanes, num_episodes, gradient, discount):
        return play_scored(EpisodeScores(policy, tasks, num_episodes, gradient, discount), key, num_lanes)

    run = compiled(summed, static_argnames=static)

    def from_storage(policy, steps, weights, counted, gradient):
        batch = jax.tree.map(lambda leaf: leaf.reshape(*leaf.shape[:-2], -1), steps)
        if is_filtered(policy, gradient):
            return [weighted_filtered_score(policy, steps, weight.reshape(-1)) for weight in (weights, counted)]
        scores = score(policy, batch, gradient)
        return [weighted_score(policy, batch, scores, weight.reshape(-1)) for weight in (weights, counted)]

    explicit = compiled(from_storage, static_argnames="gradient")

    def of(case: str, gradient: str, seed: int):
        policy, steps = play(case, seed)
        plan = schedule(steps)
        weights = jnp.asarray(np.where(plan.counted, plan.discounted, 0.0), jnp.float32)
        weighted, plain = explicit(policy, steps, weights, jnp.asarray(plan.counted, jnp.float32), gradient=gradient)
        sums, totals = run(
            policy,
            short_rooms,
            root(seed),
            num_lanes=LANES,
            num_episodes=EPISODES,
            gradient=gradient,
            discount=DISCOUNT,
        )
        found = Scored(*sums, totals)
        return jax.tree.map(np.asarray, (found, {"weighted": weighted, "plain": plain})) + (plan, steps)

    return of


def close(found: Parameters, expected: Parameters) -> None:
    for name, leaf, target in zip(Parameters._fields, found[:2], expected[:2]):
        assert leaf.shape == target.shape
        np.testing.assert_allclose(leaf, target, atol=2e-5 * np.abs(target).max(), rtol=0, err_msg=name)


PAIRS = pytest.mark.parametrize("case, gradient", [("constant", SAMPLED), ("constant", MARGINAL), ("linear", MARGINAL)])


@PAIRS
def test_scores_summed_while_playing_are_those_of_the_stored_steps(both, case, gradient):
    for seed in (0, 1):
        found, stored, plan, _ = both(case, gradient, seed)
        close(found.weighted, stored["weighted"])
        close(found.plain, stored["plain"])
        returns = sum(plan.discounted[begin, lane] for lane, begin, _ in plan.episodes)
        np.testing.assert_allclose(found.returns, returns, rtol=1e-5)


@PAIRS
def test_every_episode_that_was_started_is_counted(both, case, gradient):
    """Also those that take long, while other lanes have finished several: short ones are not over-represented."""
    for seed in range(4):
        found, _, plan, steps = both(case, gradient, seed)
        assert found.totals.episodes.sum() == len(plan.episodes) >= EPISODES
        lengths = [end - begin for _, begin, end in plan.episodes]
        assert found.totals.steps.sum() == sum(lengths)
        of_far = [steps.observation[3, begin, lane] > 0.5 for lane, begin, _ in plan.episodes]
        assert found.totals.episodes.tolist() == [sum(of_far), len(of_far) - sum(of_far)]
        assert found.totals.successes.sum() == sum(steps.terminated[end - 1, lane] for lane, _, end in plan.episodes)
        np.testing.assert_allclose(found.totals.returns.sum(), steps.reward[plan.counted].sum(), rtol=1e-6)


def test_the_comparison_would_notice(both):
    """One episode dropped, or the discount forgotten, changes the sums by far more than the tolerance."""
    found, _, plan, steps = both("constant", SAMPLED, 0)
    lane, begin, end = plan.episodes[-1]
    one_less = found.returns - plan.discounted[begin, lane]
    undiscounted = steps.reward[plan.counted].sum()
    for wrong in (one_less, undiscounted):
        assert abs(found.returns - wrong) > 1e-3 * abs(found.returns)
    with pytest.raises(AssertionError):
        close(found.plain, found.weighted)


@pytest.mark.parametrize("case", CASES)
def test_kept_episodes_are_the_first_of_every_lane(short_rooms, play, compiled, case):
    """Also under `vmap`, where a key with short episodes goes on as long as one with long ones."""

    @compiled
    def run(policy, keys):
        return jax.vmap(lambda key: play_episodes(policy, short_rooms, key, LANES))(keys)

    keys = jax.tree.map(lambda *words: jnp.stack(words), *(root(seed) for seed in (0, 1, 2)))
    policy = play(case, 0).policy
    together, totals = jax.tree.map(np.asarray, run(policy, keys))
    for seed in range(3):
        stored, kept = play(case, seed).steps, jax.tree.map(lambda leaf: leaf[seed], together)
        lengths = np.argmax(stored.ended, 0) + 1
        np.testing.assert_array_equal(kept.counts, np.arange(len(kept.counts))[:, None] < lengths)
        counted = kept.counts[: lengths.max()]
        for name in ("observation", "skill", "previous_skill", "action", "reward", "terminated", "truncated"):
            found, expected = (getattr(part, name)[..., : len(counted), :][..., counted] for part in (kept, stored))
            np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=name)
        assert totals.episodes[seed].sum() == LANES and totals.steps[seed].sum() == lengths.sum()
    assert len({int(steps.sum()) for steps in totals.steps}) > 1


# ---- Evaluation ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def assess(short_rooms, compiled) -> Callable[[ASAPPolicy, int], Counted]:
    @compiled
    def run(policy: ASAPPolicy, key) -> Counted:
        policies, keys = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], (policy, key))
        return count_episodes(short_rooms, policies, keys, LANES, policy.num_skills)

    return lambda policy, seed: jax.tree.map(lambda leaf: np.asarray(leaf[0]), run(policy, root(seed)))


@pytest.mark.parametrize("case", CASES)
def test_an_evaluation_is_the_first_episode_of_every_lane(play, assess, case):
    for seed in range(3):
        policy, steps = play(case, seed)
        found = assess(policy, seed)
        used, begun = np.zeros(policy.num_skills, int), np.zeros(policy.num_skills, int)
        for lane in range(LANES):
            length = int(np.argmax(steps.ended[:, lane])) + 1
            skills = steps.skill[:length, lane]
            assert int(found.lengths[lane]) == length
            assert bool(found.success[lane]) == bool(steps.terminated[length - 1, lane])
            np.testing.assert_allclose(found.returns[lane], steps.reward[:length, lane].sum(), rtol=1e-6)
            for t, skill in enumerate(skills):
                used[skill] += 1
                begun[skill] += t == 0 or skills[t - 1] != skill
        np.testing.assert_array_equal(found.skill_steps, used)
        np.testing.assert_array_equal(found.skill_starts, begun)


def test_every_round_of_an_evaluation_has_episodes_of_its_own(short_rooms, new_policy):
    """Ten episodes in rounds of four: the second round is what an evaluation that begins with it plays."""
    config, tasks = compose(["two-rooms"], {}, overrides=parse_settings(Config, ["run.eval_episodes=4"]))
    experience = Compiled(config, tasks, short_rooms.only("near"))
    policies = stack([jax.tree.map(np.asarray, new_policy(**CASES["constant"]))])
    whole = experience.evaluate(policies, EpisodeIds([0], EVALUATION), 10, False).returns[0, 0]
    second = experience.evaluate(policies, EpisodeIds([0], EVALUATION, 1), 4, False).returns[0, 0]
    np.testing.assert_array_equal(whole[4:8], second)
    assert len(whole) == 10 and (whole[:4] != second).any()


def test_discounted_returns_are_those_of_the_stored_steps(play, assess, short_rooms):
    discount = short_rooms.env.spec.discount
    policy, steps = play("constant", 0)
    found = assess(policy, 0)
    for lane in range(LANES):
        rewards = steps.reward[: int(found.lengths[lane]), lane].astype(float)
        np.testing.assert_allclose(found.discounted[lane], rewards @ discount ** np.arange(len(rewards)), rtol=1e-5)


def test_deterministic_play_takes_the_likeliest_skill_and_action(short_rooms, new_policy, compiled):
    """At every step of every lane, by the log-probabilities themselves."""
    policy = new_policy(**CASES["constant"])

    class Choices(NamedTuple):
        def start(self, moment):
            return ()

        def add(self, gathered, before, outcome, step):
            return (), (before.lane, before.skill, before.action)

    @compiled
    def run(key):
        keys, moment = fresh_episodes(short_rooms, Likeliest(policy), key, jnp.arange(LANES))
        return play_lanes(short_rooms, Likeliest(policy), keys, moment, Choices(), STEPS)[2]

    lanes, skills, actions = run(root(3))

    def expected(lane):
        task = short_rooms[lane.episode.task]
        x, m = short_rooms.env.observe(lane.episode.state, task), short_rooms.env.descriptor(task)
        skill = jnp.argmax(policy.skill_log_probs(x, m, lane.previous_skill))
        return skill, jnp.argmax(policy.skills.log_probs(policy.phi(x, m))[skill])

    over_time = jax.vmap(jax.vmap(expected, in_axes=-1, out_axes=-1))
    likeliest = compiled(over_time)(lanes)
    np.testing.assert_array_equal(skills, likeliest[0])
    np.testing.assert_array_equal(actions, likeliest[1])
    assert len(np.unique(np.asarray(skills))) > 1
