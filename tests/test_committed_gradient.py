"""Promise: for a policy that commits to its skill, both gradients have the mean that they should.

A task so small that all its episodes can be counted out: three states, two actions, two or three steps, and an action
that ends the episode early. The mean of the estimate is a sum over all episodes, with their probabilities; it is held
against the derivative of the exact mean return, which is stated once more below, in float64.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.arrays import compiled
from asap.base.episodes import TRAINING, EpisodeId, Played
from asap.base.spec import Spec
from asap.base.types import EpisodeTotals, Timestep, Transition
from asap.config.schema import Config, LearnConfig
from asap.envs.core import CompiledTasks, Env, Outcome
from asap.envs.core import Episode as Running
from asap.experience import hosted
from asap.experience.critic import Critic
from asap.experience.protocol import Batch
from asap.experience.rollout import Draws, Lane, Moment
from asap.experience.summed_scores import EpisodeScores, collect_finished, subtract_means
from asap.learn.judge import Terms, advantages_of
from asap.learn.updates import UPDATES, Inputs, fisher_of_samples, optimizer_of
from asap.policy.features import Features, Polynomial
from asap.policy.partition import Partition
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.policy.score import (
    MARGINAL,
    SAMPLED,
    Parameters,
    filtered,
    parameters_of,
    score,
    weighted_filtered_score,
)
from asap.policy.skills import GibbsSkills

PLACES = np.array([-0.8, 0.3, 1.1])  # What is observed in each state.
STARTS = {0: 0.6, 1: 0.4}
NEXT = np.array([[1, 2], [0, 2], [1, 0]])
REWARD = np.array([[0.3, -0.6], [0.9, 0.2], [-0.4, 1.2]])
ENDS = np.array([[False, False], [False, True], [False, False]])
DISCOUNT = 0.9
ALPHA_BETA, ALPHA_THETA = 1.5, 1.2


class Shape(NamedTuple):
    planes: int
    skills: str
    steps: int
    termination: float


CASES = [
    Shape(1, "constant", 2, 0.0),
    Shape(1, "linear", 3, 0.0),
    Shape(2, "constant", 3, 0.25),
]
EACH = pytest.mark.parametrize("case", CASES, ids=str)
BOTH = pytest.mark.parametrize("gradient", [SAMPLED, MARGINAL])
FEW = [(CASES[1], SAMPLED), (CASES[1], MARGINAL), (CASES[2], MARGINAL)]  # Each is compiled.
SOME = pytest.mark.parametrize("case, gradient", FEW, ids=str)


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


# ---- All episodes, and the exact return ---------------------------------------------------------------------------


class Episodes(NamedTuple):
    """All that can happen: one column each, one row per step; after the end `counts` is False."""

    state: np.ndarray
    skill: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    counts: np.ndarray
    ends: np.ndarray
    start: np.ndarray  # The probability of the first state.

    @property
    def returns(self) -> np.ndarray:
        return DISCOUNT ** np.arange(len(self.reward)) @ self.reward

    @property
    def previous(self) -> np.ndarray:
        first = np.full_like(self.skill[:1], NO_SKILL)
        return np.concatenate([first, self.skill[:-1]])


@functools.cache
def all_episodes(case: Shape) -> Episodes:
    found = []

    def go_on(start: float, state: int, before: tuple) -> None:
        for skill in range(2**case.planes):
            for action in range(2):
                ends = bool(ENDS[state, action]) or len(before) + 1 == case.steps
                steps = (*before, (state, skill, action, REWARD[state, action], True, ends))
                if ends:
                    found.append((start, steps + ((0, 0, 0, 0.0, False, False),) * (case.steps - len(steps))))
                else:
                    go_on(start, NEXT[state, action], steps)

    for state, chance in STARTS.items():
        go_on(chance, state, ())
    rows = [np.array([[step[part] for step in steps] for _, steps in found]).T for part in range(6)]
    return Episodes(*rows, np.array([start for start, _ in found]))


@functools.cache
def policy_of(case: Shape) -> ASAPPolicy:
    rng = np.random.default_rng(7)
    phi = Features.of(Polynomial(0 if case.skills == "constant" else 1), (0,))
    size = 1 if case.skills == "constant" else 2
    return ASAPPolicy(
        Partition(rng.normal(size=(case.planes, 2)), np.float64(ALPHA_BETA)),
        GibbsSkills(rng.normal(size=(2**case.planes, 2, size)), np.float64(ALPHA_THETA)),
        Features.of(Polynomial(1), (0,)),
        phi,
        case.termination,
    )


def probabilities(case: Shape, theta: jax.Array, beta: jax.Array) -> jax.Array:
    """Of every episode."""
    episodes, columns = all_episodes(case), np.arange(len(all_episodes(case).start))
    chance = jnp.asarray(episodes.start)
    for t in range(case.steps):
        x, before = PLACES[episodes.state[t]], episodes.previous[t]
        psi = np.stack([np.ones_like(x), x])
        side = jax.nn.sigmoid(ALPHA_BETA * beta @ psi)
        skills = jnp.stack(
            [jnp.prod(jnp.stack([side[k] if i >> k & 1 else 1 - side[k] for k in range(case.planes)]), 0)
             for i in range(2**case.planes)]
        )  # fmt: skip
        own = skills[episodes.skill[t], columns]
        stay = jnp.where(before == NO_SKILL, 0.0, (1 - max(case.termination, 1e-6)) * skills[before, columns])
        drawn = (1 - stay) * own + stay * (before == episodes.skill[t])
        sigma = jax.nn.softmax(ALPHA_THETA * jnp.einsum("sad,dn->san", theta, psi[: theta.shape[-1]]), axis=1)
        acted = sigma[episodes.skill[t], episodes.action[t], columns]
        chance = chance * jnp.where(episodes.counts[t], drawn * acted, 1.0)
    return chance


@functools.cache
def exact(case: Shape) -> tuple[np.ndarray, np.ndarray, Parameters]:
    """The probability of every episode, its return, and the gradient of the mean return."""
    policy, returns = policy_of(case), all_episodes(case).returns
    parameters = parameters_of(policy)
    chances = np.asarray(compiled(lambda p: probabilities(case, p.theta, p.beta))(parameters))
    gradient = compiled(jax.grad(lambda p: probabilities(case, p.theta, p.beta) @ returns))(parameters)
    np.testing.assert_allclose(chances.sum(), 1.0)
    return chances, returns, jax.tree.map(np.asarray, gradient)


def assert_same(found: Parameters, expected: Parameters, tolerance: float = 1e-9) -> None:
    for name, one, other in zip(Parameters._fields, found[:2], expected[:2]):
        assert np.abs(other).max() > 0.01, "a gradient that can be seen"
        np.testing.assert_allclose(one, other, atol=tolerance, rtol=0, err_msg=name)


# ---- The estimate -------------------------------------------------------------------------------------------------


def stored(episodes: Episodes, part: slice = slice(None)) -> Transition:
    """One episode per lane; `part` of their steps."""
    state, action = episodes.state[part], episodes.action[part]
    after = PLACES[NEXT[state, action]]
    return Transition(
        observation=PLACES[state][None],
        descriptor=np.zeros((0, *state.shape)),
        previous_skill=episodes.previous[part].astype(np.int32),
        skill=episodes.skill[part].astype(np.int32),
        action=action.astype(np.int32),
        reward=episodes.reward[part],
        terminated=episodes.ends[part].astype(bool),
        truncated=np.zeros(state.shape, bool),
        next_observation=after[None],
        counts=episodes.counts[part].astype(bool),
    )


def learn_of(gradient: str, **more) -> LearnConfig:
    plain = {"learner": "actor-critic", "optimizer": "sgd", "schedule": "constant", "step_size_theta": 1.0}
    plain |= {"step_size_beta": 1.0, "entropy": 0.0, "softening": 0.0, "softening_floor": 0.1}
    return LearnConfig(gradient=gradient, **{**plain, **more})


def updated(case: Shape, learn: LearnConfig, steps: Transition, weights: np.ndarray):
    policy, none = policy_of(case), EpisodeTotals(*np.zeros((4, 1)))
    optimizer = optimizer_of(learn).init(parameters_of(policy))

    def step(steps: Transition, weights: jax.Array):
        return UPDATES[learn.learner](Inputs(learn, policy, Batch(none, 0, steps), weights, optimizer, jnp.int32(0)))

    return jax.tree.map(np.asarray, compiled(step)(steps, jnp.asarray(weights).ravel()))


def estimate(case: Shape, gradient: str, steps: Transition, weights: np.ndarray) -> Parameters:
    """sum of weight times score, as the update of `actor-critic` finds it."""
    mean = updated(case, learn_of(gradient), steps, weights).diagnostics.gradient
    return jax.tree.map(lambda leaf: leaf * steps.counts.sum(), mean)


@EACH
@BOTH
def test_the_mean_over_all_episodes_is_the_gradient_of_the_mean_return(case, gradient):
    episodes, (chances, returns, expected) = all_episodes(case), exact(case)
    weights = chances * returns * episodes.counts
    assert_same(estimate(case, gradient, stored(episodes), weights), expected)


@pytest.mark.parametrize("cut", [1, 2])
@SOME
def test_a_window_may_end_within_an_episode(case, gradient, cut):
    """The next window knows the skill that the last one ended with, so the last step answers for it."""
    episodes, (chances, returns, expected) = all_episodes(case), exact(case)
    weights = chances * returns * episodes.counts
    parts = slice(0, cut), slice(cut, None)
    found = [estimate(case, gradient, stored(episodes, part), weights[part]) for part in parts]
    assert_same(jax.tree.map(np.add, *found), expected)


@SOME
def test_packed_episodes_are_told_apart_and_their_filling_does_not_count(case, gradient):
    """All episodes in one lane, one after the other, filled up with steps that nobody made."""
    episodes, (chances, returns, expected) = all_episodes(case), exact(case)
    lengths = episodes.counts.sum(0).astype(int)

    def played(n: int) -> Played:
        steps = slice(lengths[n])
        state, action = episodes.state[steps, n], episodes.action[steps, n].astype(np.int32)
        seen = np.append(PLACES[state], 0.0)[:, None]
        numbers = episodes.skill[steps, n].astype(np.int32), action, episodes.reward[steps, n]
        return Played(EpisodeId(0, TRAINING, n, 0), seen, *numbers, True, None)

    tasks = mock.Mock(size=1, descriptors=np.zeros((1, 0)), has_ranges=False)
    packed = hosted.packed([played(n) for n in range(len(lengths))], tasks).steps
    assert not packed.counts.all()
    weights = np.zeros(packed.counts.shape)
    weights[packed.counts] = np.repeat(chances * returns, lengths)
    assert_same(estimate(case, gradient, packed, weights), expected)


class Places(Env):
    """A family without dynamics: lanes are led through the episodes by hand."""

    spec: Spec = None

    def reset(self, key, task): ...

    def noise(self, key): ...

    def transition(self, noise, state, action, task) -> Timestep: ...

    def observe(self, state, task) -> jax.Array:
        return jnp.asarray(PLACES)[state][None]

    def descriptor(self, task) -> jax.Array:
        return jnp.zeros(0)


@SOME
def test_scores_that_are_summed_while_playing_have_the_same_mean(case, gradient):
    """Lane n plays episode n; its rewards are multiplied by its probability."""
    episodes, (chances, _, expected) = all_episodes(case), exact(case)
    tasks, policy, lanes = CompiledTasks.of(Places(), {"places": np.zeros(())}), policy_of(case), len(chances)
    scores = EpisodeScores(policy, tasks, lanes, gradient, DISCOUNT)
    zeros, draws = jnp.zeros(lanes), Draws(None, None, None, ())
    gathered, playing, add = None, np.ones(lanes, bool), compiled(scores.add)
    for t in range(case.steps):
        state, skill, action = (jnp.asarray(part[t], jnp.int32) for part in episodes[:3])
        # What lanes do after their episode must not count: they begin another one.
        previous = jnp.asarray(np.where(playing, episodes.previous[t], NO_SKILL), jnp.int32)
        moment = Moment(Lane(Running(state, jnp.int32(0) * state, state, zeros), previous), skill, action, draws)
        if gathered is None:
            gathered = scores.start(moment)
        ends = jnp.asarray(episodes.ends[t].astype(bool))
        reward, seen = jnp.asarray(episodes.reward[t] * chances), tasks.env.observe(state, None)
        outcome = Outcome(reward, ends, ~ends & ends, ends, state, seen, zeros, state, 0 * state)
        gathered, _ = add(gathered, moment, outcome, jnp.int32(t))
        playing &= ~episodes.ends[t].astype(bool)
    assert not playing.any()
    sums = subtract_means(policy, collect_finished(gathered.sums, gathered.running)[0])
    assert_same(sums.weighted, expected)


# ---- What the estimate is used for --------------------------------------------------------------------------------


@SOME
def test_a_critic_that_sees_the_skill_in_force_leaves_the_mean_as_it_is(case, gradient):
    """Whatever it says. With trace 1, the advantage is the rewards to come minus a baseline."""
    policy, episodes, steps = policy_of(case), all_episodes(case), stored(all_episodes(case))
    parameters, chances = parameters_of(policy), exact(case)[0]
    undiscounted = episodes.reward.sum(0)
    expected = compiled(jax.grad(lambda p: probabilities(case, p.theta, p.beta) @ undiscounted))(parameters)
    rng = np.random.default_rng(3)
    hidden, weights = rng.normal(size=(3, 1 + policy.num_skills)), 5 * rng.normal(size=4)
    critic = Critic(hidden, np.zeros(3), weights, np.eye(4), weights)
    config = Config(learn=learn_of(gradient, trace=1.0, critic_memory=0.5))
    found = compiled(lambda steps: advantages_of(config.learn, Terms(1.0, 3), policy, critic, None, steps))(steps)
    worth = np.cumsum(episodes.reward[::-1], axis=0)[::-1]
    assert np.abs(worth - np.asarray(found.advantages))[episodes.counts.astype(bool)].max() > 0.1, "a baseline"
    assert_same(estimate(case, gradient, steps, chances * found.advantages * episodes.counts), expected)


@SOME
def test_the_first_pass_of_ppo_has_the_gradient_of_actor_critic(case, gradient):
    """All ratios are 1 there."""
    episodes, (chances, returns, _) = all_episodes(case), exact(case)
    weights = chances * returns * episodes.counts
    steps, ppo = stored(episodes), learn_of(gradient, learner="ppo", epochs=1, clip=0.2)
    found, expected = (updated(case, learn, steps, weights).diagnostics for learn in (ppo, learn_of(gradient)))
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, atol=1e-12), found.gradient, expected.gradient
    )
    np.testing.assert_allclose(found.kl, expected.kl, rtol=1e-9)
    assert found.clipped == 0 and found.kl > 0


def log_probs_by_hand(case: Shape, parameters: Parameters) -> jax.Array:
    """log p(action | the episode so far) of all steps: how likely an episode is to begin so, over before that action."""
    episodes, chances = all_episodes(case), probabilities(case, parameters.theta, parameters.beta)
    so_far, found = jnp.asarray(episodes.start), []
    seen = np.stack([episodes.state, np.where(episodes.counts, episodes.action, -1)], 1)
    for t in range(case.steps):
        begins_so = (seen[: t + 1, ..., None] == seen[: t + 1, :, None]).all((0, 1))
        likely = begins_so @ chances
        found.append(jnp.log(likely) - jnp.log(so_far))
        so_far = likely
    return jnp.stack(found)


@pytest.mark.parametrize("case", CASES[:2], ids=str)
def test_the_fisher_matrix_is_the_mean_square_of_the_scores(case):
    """Of the steps that count, with the skill summed out; found by enumeration."""
    policy, episodes, steps = policy_of(case), all_episodes(case), stored(all_episodes(case))
    jacobian = compiled(jax.jacrev(lambda p: log_probs_by_hand(case, p)))(parameters_of(policy))
    counts = episodes.counts.astype(bool)
    scores = np.concatenate([np.asarray(leaf)[counts].reshape(counts.sum(), -1) for leaf in jacobian[:2]], axis=1)
    found = compiled(lambda steps: fisher_of_samples(learn_of(MARGINAL), policy, steps))(steps)
    np.testing.assert_allclose(found, scores.T @ scores / counts.sum(), atol=1e-9)
    learn = learn_of(MARGINAL, learner="natural", damping=0.1)
    weights = exact(case)[0] * exact(case)[1] * counts
    step = updated(case, learn, steps, weights)
    slope = np.concatenate([np.ravel(part) for part in step.diagnostics.gradient[:2]])
    moved = [new - old for new, old in zip(parameters_of(step.policy)[:2], parameters_of(policy)[:2])]
    direction = np.concatenate([np.ravel(part) for part in moved])
    np.testing.assert_allclose((found + 0.1 * np.eye(len(slope))) @ direction, slope, atol=1e-9)


@pytest.mark.parametrize("alpha", [1e-6, 1e6])
@pytest.mark.parametrize("termination", [0.0, 1.0])
def test_no_temperature_gives_scores_that_are_not_finite(alpha, termination):
    """In single precision. A skill that is never kept is one that is drawn anew at every step."""
    case = CASES[2]
    sharp = ASAPPolicy(
        Partition(np.float32(policy_of(case).partition.beta), np.float32(alpha)),
        GibbsSkills(np.float32(policy_of(case).skills.theta), np.float32(alpha)),
        policy_of(case).psi,
        policy_of(case).phi,
        termination,
    )
    single = jax.tree.map(lambda leaf: np.float32(leaf) if leaf.dtype == float else leaf, stored(all_episodes(case)))

    def both(policy: ASAPPolicy, steps: Transition):
        slope = weighted_filtered_score(policy, steps, jnp.ones(steps.reward.size, jnp.float32))
        return filtered(policy, steps), slope, score(policy, steps.flat(), MARGINAL).log_prob

    with jax.enable_x64(False):
        found, slope, anew = jax.tree.map(np.asarray, compiled(both)(sharp, single))
    assert found.log_prob.dtype == np.float32
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((found, slope)))
    np.testing.assert_allclose(found.after.sum(0), 1.0, rtol=1e-5)
    if termination == 1.0:
        counts = single.counts.ravel()
        np.testing.assert_allclose(found.log_prob.ravel()[counts], anew[counts], rtol=1e-5, atol=1e-5)
