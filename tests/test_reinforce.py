"""Promise: `reinforce` weighs a step by its reward to go beyond that of the other episodes that still run at that time,
however the episodes are laid out; and `--preset algorithm-1` is the estimator that the paper prints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_same_update import (
    CUT,
    EPISODES,
    LEARN,
    LONG,
    OVER,
    REGULAR,
    SHORT,
    START,
    assert_step,
    standardized,
    step_by_hand,
)
from update_paths import as_one_lane, packed_update, side_by_side, side_by_side_update

from asap import ASAP
from asap.base.keys import root
from asap.compose import compose
from asap.experience.protocol import Batch
from asap.experience.rollout import play_episodes
from asap.learn.judge import beyond_others
from asap.learn.updates import Inputs, optimizer_of, reinforce
from asap.policy.build import build_policy
from asap.policy.score import parameters_of

# Rewards to go with discount 1/2: 5/2, 1 (CUT); 2, 4 (OVER); 3/4, -1/2, 3 (LONG); 1 (SHORT). At the first step all four
# run: 5/2 - (2 + 3/4 + 1) / 3 and so on. At the second the short one has ended: 1 - (4 - 1/2) / 2 and so on. At the
# third the long one runs alone, and its step counts nothing.
BEYOND = np.array([1.25, -0.75, 7 / 12, 3.75, -13 / 12, -3.0, 0.0, -0.75])
COMPILED = 64  # Episodes, of which some end before the time limit.
LAYOUTS = {"one lane": as_one_lane, "side by side": side_by_side}


@pytest.fixture(params=LAYOUTS)
def beyond(request):
    """Of each step, in the order of the episodes."""

    def of(episodes, discount=0.5):
        steps, places = LAYOUTS[request.param](episodes)
        found = np.asarray(beyond_others(steps, discount))
        assert np.abs(found).sum() == np.abs([found[place] for place in places]).sum(), "padding counts nothing"
        return [found[place] for place in places]

    return of


def test_the_others_are_those_that_still_run_at_that_step(beyond):
    np.testing.assert_allclose(beyond(EPISODES), BEYOND, atol=1e-6)


def test_with_two_episodes_each_is_compared_with_the_other(beyond):
    np.testing.assert_allclose(beyond((SHORT, CUT)), [-1.5, 1.5, 0.0], atol=1e-6)


def test_an_episode_that_has_nobody_to_compare_with_counts_nothing(beyond):
    assert not np.any(beyond((LONG,)))


def test_equal_episodes_differ_by_exactly_nothing(beyond):
    """A rounding error would be all there is, and be divided by its own deviation."""
    long = LONG._replace(
        observations=(0.1,) * 12, skills=(0,) * 11, actions=(0,) * 11, rewards=tuple(-0.1 * n for n in range(11))
    )
    assert not np.any(beyond((long,) * 7, 0.99))


@pytest.mark.parametrize("gradient", ["marginal", "sampled"])
@pytest.mark.parametrize("update", [packed_update, side_by_side_update])
def test_a_step_is_the_mean_of_weight_times_score_with_entropy_and_softening(update, gradient):
    learn = {**LEARN, **REGULAR, "learner": "reinforce", "gradient": gradient}
    found = update(START, EPISODES, **learn)
    assert_step(found, step_by_hand(START, EPISODES, standardized(BEYOND), gradient, REGULAR), START)
    np.testing.assert_array_equal(found.critic, START.critic)


def test_committed_skills_are_scored_alike_in_both_layouts():
    start = START._replace(termination=0.25)
    learn = {**LEARN, **REGULAR, "learner": "reinforce"}
    packed, beside = (update(start, (CUT, OVER, LONG), **learn) for update in (packed_update, side_by_side_update))
    for part in ("theta", "beta"):
        np.testing.assert_allclose(getattr(packed, part), getattr(beside, part), atol=1e-6)


def test_compiled_episodes_teach_the_same_as_the_same_episodes_packed(short_rooms, new_policy, compiled):
    """The gradient of lanes played side by side, and of one lane with their steps one after the other."""
    policy = new_policy(planes=1, skills="constant", task="none", termination=None)
    learn = compose(["two-rooms"], {"learn.learner": "reinforce", "learn.optimizer": "sgd"})[0].learn

    steps, totals = compiled(play_episodes, static_argnames="num_episodes")(
        policy, short_rooms, root(3), num_episodes=COMPILED
    )

    @compiled
    def gradient(steps):
        weights = beyond_others(steps, 0.9).ravel()
        return reinforce(Inputs(learn, policy, Batch(totals, 1, steps), weights, (), jnp.int32(0))).diagnostics.gradient

    lengths = np.asarray(steps.counts).sum(0)
    assert len(set(lengths.tolist())) > 2, "episodes of different lengths"
    times, lanes = zip(*((t, lane) for lane in range(COMPILED) for t in range(lengths[lane])))
    packed = jax.tree.map(lambda leaf: np.asarray(leaf)[..., times, lanes][..., None], steps)
    for one, other in zip(jax.tree.leaves(gradient(steps)), jax.tree.leaves(gradient(packed)), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5 * np.abs(other).max())


def test_a_network_is_taught_the_mean_of_weight_times_score(short_rooms, compiled):
    """Worked out from the probabilities of the actions alone, without the functions that score steps."""
    own = {"learn.learner": "reinforce", "learn.entropy": 0.0, "learn.softening": 0.0}
    own |= {"policy.hyperplanes": 0, "policy.skills": "network", "policy.hidden": (3,)}
    config, tasks = compose(["two-rooms"], own)
    policy = build_policy(config.policy, tasks.tasks, np.random.default_rng(0))
    steps, totals = compiled(play_episodes, static_argnames="num_episodes")(
        policy, short_rooms, root(3), num_episodes=8
    )
    weights = beyond_others(steps, 0.9).ravel()
    batch = Batch(totals, 1, steps)
    optimizer = optimizer_of(config.learn).init(parameters_of(policy))
    found = reinforce(Inputs(config.learn, policy, batch, weights, optimizer, jnp.int32(0))).diagnostics.gradient

    def mean_weighted(network, theta):
        flat = steps.flat()
        hidden = jnp.tanh(network.weights[0] @ flat.observation[:2] + network.biases[0][:, None])
        logits = theta[0] @ jnp.concatenate([jnp.ones((1, hidden.shape[-1])), hidden])
        log_probs = jnp.take_along_axis(jax.nn.log_softmax(logits, axis=0), flat.action[None], axis=0)[0]
        return (weights * log_probs).sum() / flat.counts.sum()

    expected = jax.grad(mean_weighted, argnums=(0, 1))(policy.phi.basis, policy.skills.theta)
    assert any(np.abs(leaf).max() > 1e-3 for leaf in jax.tree.leaves(expected))
    for one, other in zip(jax.tree.leaves((found.phi, found.theta)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


# What `--learner reinforce` came to before it had another default, after three updates: its estimator with the mean of the
# other returns subtracted, and as printed.
SMALL = ("learn.batch_episodes=8", "learn.lanes=4", "run.chunk=1", "run.eval_episodes=2", "run.final_episodes=2")
RECORDED = {
    (): (
        [-0.49067339301109314, 0.06647267192602158, 1.017905831336975],
        [
            [0.12599778175354004, 0.1142234057188034, -0.11763476580381393, -0.12099858373403549],
            [0.0638270303606987, -0.12361451238393784, 0.011711976490914822, -0.11530590057373047],
        ],
    ),
    ("learn.gradient=marginal", "learn.baseline=mean"): (
        [-0.5050262808799744, -0.003436623141169548, 1.112019419670105],
        [
            [-0.0542655847966671, 0.020704027265310287, -0.06839870661497116, -0.12825848162174225],
            [0.057310257107019424, 0.13576337695121765, 0.1202182024717331, 0.06628571450710297],
        ],
    ),
}


@pytest.mark.parametrize(("changes", "recorded"), RECORDED.items(), ids=["as printed", "with a mean baseline"])
def test_the_preset_is_the_estimator_as_it_was(changes, recorded):
    model = ASAP("two-rooms", preset="algorithm-1", seed=3, settings=(*SMALL, *changes)).learn(episodes=24)
    found = model.policy.partition.beta[0], model.policy.skills.theta[..., 0]
    for part, expected in zip(found, recorded):
        np.testing.assert_allclose(part, expected, rtol=1e-6)


def test_the_preset_subtracts_and_adds_nothing():
    own = compose(["two-rooms"], {}, preset="algorithm-1")[0].learn
    assert (own.learner, own.gradient, own.baseline) == ("reinforce", "sampled", "none")
    assert compose(["two-rooms"], {"learn.learner": "reinforce"})[0].learn.baseline == "running"
