"""Promise: passes in minibatches take every step that counts once, in an order that ids decide; they stop at the KL that
was asked for; step sizes, this KL and the sharpness of the skills follow the budget."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_same_update import (
    ADVANTAGES,
    EPISODES,
    LEARN,
    START,
    Steps,
    derivative,
    flat,
    log_probs,
    standardized,
    stepped,
)
from update_paths import config_of, packed_update, policy_of, state_of, window_update

from asap.base.arrays import compiled
from asap.base.keys import fold, root
from asap.base.types import EpisodeTotals
from asap.compose import compose
from asap.config.schema import Config, LearnConfig
from asap.config.toml import parse_settings, to_toml
from asap.learn.passes import deal
from asap.learn.state import Budget, is_sharpened
from asap.learn.update import ORDER, sharpened
from asap.learn.updates import ascend, optimizer_of
from asap.model.files import are_equal
from asap.model.model import ASAP
from asap.model.training import train_run
from asap.policy.policy import ASAPPolicy, Kept
from asap.policy.score import Parameters, parameters_of
from asap.policy.skills import GaussianSkills
from asap.runs.directory import Run
from asap.runs.signals import StopRequest

PPO = {**LEARN, "learner": "ppo", "clip": 10.0}


def dealt(key, counts, num_steps: int, size: int) -> list[list[int]]:
    """The steps of each minibatch."""
    one = deal(key, None if counts is None else jnp.asarray(counts), num_steps, size)
    found = [jax.tree.map(np.asarray, one.places(np.int32(number))) for number in range(one.most)]
    return [index[filled].tolist() for index, filled in found]


# ---- Minibatches --------------------------------------------------------------------------------------------------


def test_steps_that_count_are_dealt_evenly():
    """Seven of ten in threes: 3, 2 and 2, and an empty one."""
    counts = np.array([1, 1, 0, 1, 0, 1, 1, 1, 0, 1], bool)
    parts = dealt(root(0), counts, 10, 3)
    assert [len(part) for part in parts] == [3, 2, 2, 0]
    assert sorted(sum(parts, [])) == np.flatnonzero(counts).tolist()


def test_all_steps_are_dealt_where_nothing_is_filled_up():
    parts = dealt(root(0), None, 10, 4)
    assert [len(part) for part in parts] == [4, 3, 3] and sorted(sum(parts, [])) == list(range(10))


def test_a_minibatch_may_be_larger_than_the_batch():
    assert [len(part) for part in dealt(root(0), np.ones(5, bool), 5, 8)] == [5]


def test_the_order_is_a_function_of_the_key():
    first, again, other = (dealt(root(seed), None, 50, 50) for seed in (1, 1, 2))
    assert first == again != other and first != [list(range(50))]


@pytest.mark.parametrize("path", [packed_update, window_update])
def test_a_minibatch_of_all_steps_is_the_whole_batch(path):
    whole, one = (path(START, EPISODES, **PPO, epochs=3, minibatch=size) for size in (None, 64))
    np.testing.assert_allclose(one.theta, whole.theta, atol=1e-6)
    np.testing.assert_allclose(one.beta, whole.beta, atol=1e-6)
    assert np.abs(whole.theta - np.asarray(START.theta)).max() > 0.02


def test_what_is_beyond_a_minibatch_weighs_nothing():
    """Eight steps in fives: 4 and 4, as in fours; the fifth place is that of a step of the other."""
    four, five = (packed_update(START, EPISODES, **PPO, epochs=2, minibatch=size) for size in (4, 5))
    np.testing.assert_allclose(five.theta, four.theta, atol=1e-6)


def test_two_minibatches_are_two_steps_by_hand():
    """Each up the mean of ratio times advantage over its own four of the eight steps; filling to 16 has no part in it."""
    key = fold(fold(root(0), ORDER, jnp.int32(0)), jnp.int32(0))
    halves = dealt(key, np.arange(16) < 8, 16, 4)
    assert [len(half) for half in halves] == [4, 4, 0, 0]
    steps, start, weights = Steps(EPISODES), START, standardized(ADVANTAGES)
    before = log_probs(START, flat(START), steps)
    for half in halves[:2]:

        def objective(parameters: np.ndarray, half: list[int] = half) -> float:
            ratio = np.exp(log_probs(START, parameters, steps) - before)
            return (ratio * weights)[half].mean()

        parameters = stepped(start, derivative(objective, flat(start)))
        size = np.size(START.theta)
        start = start._replace(theta=parameters[:size].reshape(2, 2), beta=parameters[size:].reshape(1, 2))
    found = packed_update(START, EPISODES, **PPO, epochs=1, minibatch=4)
    np.testing.assert_allclose(found.theta, start.theta, atol=3e-6)
    np.testing.assert_allclose(found.beta, start.beta, atol=3e-6)


# ---- Stop ---------------------------------------------------------------------------------------------------------


def kl_of(found) -> float:
    """mean(r - 1 - log r) over the eight steps, r the ratio to the start's probability."""
    steps = Steps(EPISODES)
    parameters = np.concatenate([found.theta.ravel(), found.beta.ravel()]).astype(float)
    change = log_probs(START, parameters, steps) - log_probs(START, flat(START), steps)
    return float((np.expm1(change) - change).mean())


@pytest.mark.parametrize("minibatch", [None, 64])
def test_passes_end_at_the_kl(minibatch):
    """The limit lies between the KL after two steps and that after three: the third step is the last."""
    one, two, three = (packed_update(START, EPISODES, **PPO, epochs=count) for count in (1, 2, 3))
    assert 0 < kl_of(one) < kl_of(two) < kl_of(three)
    limit = (kl_of(two) + kl_of(three)) / 2
    found = packed_update(START, EPISODES, **PPO, epochs=8, minibatch=minibatch, kl_stop=limit)
    np.testing.assert_allclose(found.theta, three.theta, atol=1e-6)


def test_the_kl_falls_with_a_linear_schedule():
    """At the end of the budget to a tenth: a limit of five times the KL of the first step stops after it. The same steps
    with a constant schedule go on."""
    start = START._replace(env_steps=999)
    small = {"step_size_theta": 0.05, "step_size_beta": 0.025}  # A tenth of the others.
    for learn, stops in (({"schedule": "linear", "steps": 1000}, True), (small, False)):
        one = packed_update(start, EPISODES, **{**PPO, **learn}, epochs=1)
        found = packed_update(start, EPISODES, **{**PPO, **learn}, epochs=3, kl_stop=5 * kl_of(one))
        assert np.allclose(one.theta, found.theta, atol=1e-5) == stops


# ---- What follows the budget --------------------------------------------------------------------------------------


def totals(episodes: int) -> EpisodeTotals:
    return EpisodeTotals(*(np.array([number]) for number in (episodes, 0.0, 0, 0)))


@pytest.mark.parametrize(
    "budget, before, since, share",
    [
        ((None, 1000), (9, 300), (1, 100), 0.4),
        ((50, None), (10, 300), (5, 100), 0.3),
        ((50, 1000), (10, 300), (5, 100), 0.4),
        ((50, 10_000), (10, 300), (5, 100), 0.3),
        ((None, 10**12), (0, 25 * 10**10), (0, 10**9), 0.251),
        ((None, 1000), (0, 990), (0, 100), 1.0),
    ],
)
def test_the_share_of_the_budget_is_that_by_hand(budget, before, since, share):
    """Of episodes or of steps, whichever is further; before the program began and since."""
    most = [np.int64(np.iinfo(np.int64).max if one is None else one) for one in budget]
    left = Budget(*most).left(totals(before[0]), np.int64(before[1]))
    found = compiled(Budget.done)(left, totals(since[0]), jnp.int32(since[1]))
    assert found == pytest.approx(share, abs=1e-6)


def test_linear_steps_fall_to_a_tenth():
    """With 400 of 1,000 steps spent: 1 - 0.9 * 0.4."""
    learn = {**LEARN, "schedule": "linear", "steps": 1000}
    first, later = (window_update(START._replace(env_steps=n), EPISODES, **learn) for n in (0, 400))
    for part in ("beta", "theta"):
        before = np.float32(getattr(START, part))
        np.testing.assert_allclose(getattr(later, part) - before, 0.64 * (getattr(first, part) - before), atol=1e-6)


@pytest.mark.parametrize("done, factor", [(0.0, 1.0), (0.5, 1.0), (0.75, 2.5), (1.0, 4.0)])
def test_logits_are_sharpened_over_the_second_half(done, factor):
    config = config_of(sharpening=4.0)
    state = state_of(config, START, 1, None)
    assert is_sharpened(config, state.policy) and not is_sharpened(config_of(), state.policy)
    state = dataclasses.replace(state, alpha_theta=jnp.float32(START.alpha_theta))
    found = sharpened(config, state, jnp.float32(done))
    assert found.policy.skills.alpha_theta == pytest.approx(factor * START.alpha_theta)
    assert found.alpha_theta == pytest.approx(START.alpha_theta)


def test_skills_that_are_kept_are_not_sharpened():
    policy = policy_of(START)
    kept = ASAPPolicy(policy.partition, policy.skills, policy.psi, policy.phi, None, Kept(skills=(1,)))
    assert not is_sharpened(config_of(sharpening=4.0), kept)


@pytest.mark.parametrize("deviations, moves", [("learned", True), ("fixed", False)])
def test_fixed_deviations_stay(deviations, moves):
    policy = policy_of(START)
    skills = GaussianSkills(policy.skills.theta, np.float32([[-0.5, -0.4], [-0.3, -0.2]]))
    policy = ASAPPolicy(policy.partition, skills, policy.psi, policy.phi)
    sizes = {"step_size_theta": 0.1, "step_size_beta": 0.1}
    learn = LearnConfig(optimizer="adam", schedule="constant", deviations=deviations, **sizes)
    slopes = jax.tree.map(jnp.ones_like, parameters_of(policy))
    after = ascend(learn, policy, slopes, optimizer_of(learn).init(parameters_of(policy)), jnp.int32(0))[0]
    found: Parameters = parameters_of(after)
    assert (np.asarray(found.log_std) != skills.log_std).all() == moves
    assert (np.asarray(found.theta) != skills.theta).all()


# ---- A whole run --------------------------------------------------------------------------------------------------

SMALL = "learn.batch_steps=256 learn.minibatch=64 run.eval_episodes=2 run.final_episodes=2".split()


def test_a_run_that_was_stopped_and_resumed_has_the_same_bits(tmp_path):
    """Shares of the budget, orders and sharpness are functions of what was counted."""
    overrides = parse_settings(Config, SMALL)
    config, tasks = compose(["CartPole-v1"], {"run.steps": 3000}, "steady", overrides=overrides)
    whole, stopped = (Run.create(tmp_path / name, to_toml(config)) for name in ("whole", "stopped"))
    states = train_run(whole, config, tasks, StopRequest(), evaluates=False)[0]
    train_run(stopped, config, tasks, StopRequest(), [lambda report: report.update < 4], evaluates=False)
    assert 3 < int(stopped.latest().arrays["iteration"].max()) < int(states.iteration.max())
    train_run(stopped, config, tasks, StopRequest(), evaluates=False)
    assert are_equal(whole.latest().arrays, stopped.latest().arrays)
    assert states.policy.skills.alpha_theta == 4 * config.policy.alpha_theta


def test_two_seeds_of_a_compiled_task_learn_side_by_side():
    """Each in an order of its own, and neither is spoiled."""
    settings = ["run.seeds=2", "learn.lanes=4", "learn.window=16", "learn.minibatch=16", "run.eval_episodes=4"]
    model = ASAP("two-rooms", preset="steady", settings=[*settings, "run.final_episodes=4"]).learn(episodes=8)
    first, second = (np.asarray(one) for one in model.policies.skills.theta)
    assert np.isfinite(first).all() and (first != second).all()
