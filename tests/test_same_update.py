"""Promise: an update depends on the episodes, not on the way they came: windows of lanes, packed episodes of any
filling and minibatches of logged data give the same advantages, the same critic and the same step.

Four episodes with eight steps in all, discount 1/2, trace 1, a critic V(x) = 1 + 2 x. Advantages are worked out by
hand. Steps are held against derivatives by finite differences of the objective, which NumPy states once more in
float64.
"""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy.special import expit, log_softmax, logsumexp
from scipy.stats import norm
from update_paths import (
    Episode,
    Start,
    Updated,
    config_of,
    logged_update,
    packed_ends,
    packed_update,
    reinforce_update,
    sampled_fisher,
    state_of,
    window_update,
)

from asap.learn.update import scaled_by
from asap.policy.scaling import Moments, no_moments
from asap.policy.score import Parameters

# Values are 1, 2 and 3 at the end: the targets are 1 + 3/2 = 5/2 and 2 + 5/4.
CUT = Episode((0.0, 0.5, 1.0), (0, 1), (0, 1), (2.0, 1.0), terminated=False)
# Values are 3, 0 and, after the end, 2, which does not count: the targets are 4 and 0 + 4/2.
OVER = Episode((1.0, -0.5, 0.5), (1, 1), (1, 0), (0.0, 4.0), terminated=True)
# Values are -1, 1, 2 and, after the end, 3: the targets are 3, -2 + 3/2 and 1 - 1/4.
LONG = Episode((-1.0, 0.0, 0.5, 1.0), (0, 0, 1), (1, 1, 0), (1.0, -2.0, 3.0), terminated=True)
# The value is 2, and -1 at the end: the target is 1 - 1/2.
SHORT = Episode((0.5, -1.0), (0,), (0,), (1.0,), terminated=False)
EPISODES = (CUT, OVER, LONG, SHORT)
TARGETS = np.array([3.25, 2.5, 2.0, 4.0, 0.75, -0.5, 3.0, 0.5])
ADVANTAGES = np.array([2.25, 0.5, -1.0, 4.0, 1.75, -1.5, 1.0, -1.5])

# The second task has the descriptor 1/2 and V(x, m) = 1 + 2 x + 2 m: its values are larger by 1.
TWO_TASKS = (
    CUT._replace(descriptor=(0.0,)),
    OVER._replace(descriptor=(0.0,)),
    LONG._replace(descriptor=(0.5,), task=1),
    SHORT._replace(descriptor=(0.5,), task=1),
)
TWO_TARGETS = np.array([3.25, 2.5, 2.0, 4.0, 0.75, -0.5, 3.0, 1.0])
TWO_ADVANTAGES = np.array([2.25, 0.5, -1.0, 4.0, 0.75, -2.5, 0.0, -2.0])

START = Start(
    beta=[[0.2, -0.4]],
    theta=[[0.3, -0.2], [-0.5, 0.4]],
    alpha_beta=2.0,
    alpha_theta=1.5,
    ramps=[[1.0]],
    critic=[1.0, 2.0],
    gram=[[1.0, 0.0], [0.0, 1.0]],
    moment=[1.0, 2.0],
)
TWO_START = START._replace(
    beta=[[0.2, -0.4, 0.7]],
    ramps=[[1.0, 0.0], [0.0, 1.0]],
    critic=[1.0, 2.0, 2.0],
    gram=np.eye(3),
    moment=[1.0, 2.0, 2.0],
    task_features="additive",
)
# The critic of a policy that commits sees the skills in force, and here makes nothing of them.
COMMITTED = START._replace(termination=0.25, ramps=[[1.0, 0.0, 0.0]])

LEARN = {"discount": 0.5, "trace": 1.0, "critic_memory": 0.5, "step_size_theta": 0.5, "step_size_beta": 0.25}
REGULAR = {"entropy": 0.3, "softening": 0.2, "softening_floor": 0.5}
RIDGE = 1e-3

PATHS = {
    "windows of 2 lanes": window_update,
    "a window of 1 lane": lambda *given, **learn: window_update(*given, lanes=1, **learn),
    "packed, filled to 16": packed_update,
    "packed, filled to 64": lambda *given, **learn: packed_update(*given, smallest=64, **learn),
    "logged, full": logged_update,
    "logged, half filled": lambda *given, **learn: logged_update(*given, lanes=3, window=5, **learn),
}
PLAYED = ["windows of 2 lanes", "packed, filled to 16", "packed, filled to 64"]
each_path = pytest.mark.parametrize("path", PATHS)
each_played = pytest.mark.parametrize("path", PLAYED)


# ---- The objective once more, in NumPy ----------------------------------------------------------------------------


class Steps:
    """The steps of some episodes in one row."""

    def __init__(self, episodes: tuple[Episode, ...]):
        self.x = np.concatenate([e.observations[:-1] for e in episodes])
        self.m = np.concatenate([np.tile(e.descriptor, (e.length, 1)) for e in episodes]).T
        self.previous = np.concatenate([(-1, *e.skills[:-1]) for e in episodes])
        self.skill, self.action = (np.concatenate([e[part] for e in episodes]) for part in (1, 2))
        self.task = np.concatenate([[e.task] * e.length for e in episodes])
        self.psi = np.concatenate([[np.ones_like(self.x), self.x], self.m])
        self.columns = np.arange(len(self.x))


def flat(start: Start) -> np.ndarray:
    return np.concatenate([np.ravel(start.theta), np.ravel(start.beta)]).astype(float)


def parts(start: Start, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shape = np.shape(start.theta)
    size = int(np.prod(shape))
    return parameters[:size].reshape(shape), parameters[size:].reshape(np.shape(start.beta))


def joint_log_probs(start: Start, parameters: np.ndarray, steps: Steps, previous=None) -> np.ndarray:
    """log P(skill, action) at every step: skills by actions by steps."""
    previous = steps.previous if previous is None else previous
    theta, beta = parts(start, parameters)
    side = expit(start.alpha_beta * beta[0] @ steps.psi)
    skills = np.stack([1 - side, side])
    if start.termination is not None:
        is_previous = np.arange(2)[:, None] == np.broadcast_to(previous, steps.x.shape)
        stay = (1 - start.termination) * (skills * is_previous).sum(0)
        skills = (1 - stay) * skills + stay * is_previous
    return np.log(skills)[:, None] + log_softmax(start.alpha_theta * theta, axis=1)[..., None]


def log_probs(start: Start, parameters: np.ndarray, steps: Steps, gradient: str = "marginal") -> np.ndarray:
    """Of what was done at every step: the action, or the skill and the action."""
    if start.termination is not None and gradient == "marginal":
        return log_probs_of_all_ways(start, parameters, steps)
    joint = joint_log_probs(start, parameters, steps)[:, steps.action, steps.columns]
    return joint[steps.skill, steps.columns] if gradient == "sampled" else logsumexp(joint, axis=0)


def log_probs_of_all_ways(start: Start, parameters: np.ndarray, steps: Steps) -> np.ndarray:
    """log p(action | the episode so far), from the sum over all rows of skills that may have been in force."""
    after = {j: joint_log_probs(start, parameters, steps, j)[:, steps.action, steps.columns] for j in (-1, 0, 1)}
    found = []
    for n in steps.columns:
        if steps.previous[n] == -1:
            first, before = n, 0.0
        rows = itertools.product((0, 1), repeat=n - first + 1)
        ways = [sum(after[j][i, first + t] for t, (j, i) in enumerate(zip((-1, *row), row))) for row in rows]
        found.append(logsumexp(ways) - before)
        before += found[-1]
    return np.array(found)


def regularity(start: Start, parameters: np.ndarray, steps: Steps, learn: dict) -> float:
    """The entropy of the actions minus the penalty on a plane that has less than the floor on one side, task by
    task."""
    log_pi = logsumexp(joint_log_probs(start._replace(termination=None), parameters, steps), axis=0)
    entropy = -(np.exp(log_pi) * log_pi).sum(0).mean()
    then, now = (start.alpha_beta * parts(start, numbers)[1][0] @ steps.psi for numbers in (flat(start), parameters))
    lost = np.zeros_like(now)
    for task in np.unique(steps.task):
        share = expit(then[steps.task == task]).mean()
        lost[steps.task == task] = max(0.0, 1 - min(share, 1 - share) / learn["softening_floor"])
    penalty = (lost * (np.logaddexp(0, now) + np.logaddexp(0, -now))).mean()
    return learn["entropy"] * entropy - learn["softening"] * penalty


def derivative(function, parameters: np.ndarray, width: float = 1e-5) -> np.ndarray:
    changes = width * np.eye(len(parameters))
    return np.array([(function(parameters + c) - function(parameters - c)) / (2 * width) for c in changes])


def standardized(advantages: np.ndarray) -> np.ndarray:
    return (advantages - advantages.mean()) / advantages.std()


def stepped(start: Start, slopes: np.ndarray) -> np.ndarray:
    sizes = [LEARN["step_size_theta"]] * np.size(start.theta) + [LEARN["step_size_beta"]] * np.size(start.beta)
    return flat(start) + sizes * slopes


def step_by_hand(start, episodes, weights, gradient="marginal", learn=None) -> np.ndarray:
    steps = Steps(episodes)

    def objective(parameters: np.ndarray) -> float:
        extra = 0.0 if learn is None else regularity(start, parameters, steps, learn)
        return (weights * log_probs(start, parameters, steps, gradient)).mean() + extra

    return stepped(start, derivative(objective, flat(start)))


def critic_by_hand(start: Start, episodes, targets: np.ndarray) -> np.ndarray:
    """Half of what was known before, and the means over the steps."""
    steps = Steps(episodes)
    gram = 0.5 * np.asarray(start.gram) + steps.psi @ steps.psi.T / len(targets)
    moment = 0.5 * np.asarray(start.moment) + steps.psi @ targets / len(targets)
    return np.linalg.solve(gram + RIDGE * np.eye(len(moment)), moment)


def as_played_by(start: Start, episodes) -> tuple[Episode, ...]:
    """The episodes with the policy's own probabilities, which give every logged step a weight of 1."""
    return tuple(e._replace(behaviour=tuple(log_probs(start, flat(start), Steps((e,))))) for e in episodes)


def assert_step(found: Updated, expected: np.ndarray, start: Start) -> None:
    assert np.abs(expected - flat(start)).max() > 0.02, "a step that can be seen"
    np.testing.assert_allclose(np.concatenate([found.theta.ravel(), found.beta.ravel()]), expected, atol=2e-6)


# ---- One task -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_one_task():
    """What each path makes of the four episodes."""
    known = {}

    def of(path: str) -> Updated:
        if path not in known:
            known[path] = PATHS[path](START, as_played_by(START, EPISODES), **LEARN)
        return known[path]

    return of


@each_path
def test_advantages_are_those_by_hand(of_one_task, path):
    """The end of a truncated episode is worth its value, that of a terminated one nothing; nothing flows across."""
    np.testing.assert_allclose(of_one_task(path).advantages, ADVANTAGES, atol=1e-6)


@each_path
def test_the_critic_is_that_by_hand(of_one_task, path):
    """Sums over the eight steps: x 1, x^2 3, targets 15.5, x times target 2.25."""
    gram = np.array([[0.5 + 1 + RIDGE, 1 / 8], [1 / 8, 0.5 + 3 / 8 + RIDGE]])
    moment = np.array([0.5 + 15.5 / 8, 1 + 2.25 / 8])
    expected = np.linalg.solve(gram, moment)
    np.testing.assert_allclose(expected, critic_by_hand(START, EPISODES, TARGETS))
    np.testing.assert_allclose(of_one_task(path).critic, expected, rtol=1e-5)


@each_path
def test_the_step_is_that_by_hand(of_one_task, path):
    """Up the mean of standardised advantage times log-probability, with a step size for skills and one for planes."""
    found = of_one_task(path)
    assert_step(found, step_by_hand(START, EPISODES, standardized(ADVANTAGES)), START)
    assert found.iteration == 1 and not found.spoiled


@each_path
def test_entropy_and_softening_are_means_over_the_steps(path):
    """The filling has no part in the entropy, nor in what each side of the plane has."""
    found = PATHS[path](START, as_played_by(START, EPISODES), **LEARN, **REGULAR)
    assert_step(found, step_by_hand(START, EPISODES, standardized(ADVANTAGES), learn=REGULAR), START)


# ---- Two tasks, and a policy that commits -------------------------------------------------------------------------


@each_path
def test_two_tasks_have_their_own_values_and_one_step(path):
    """The descriptor enters the critic and the planes."""
    found = PATHS[path](TWO_START, as_played_by(TWO_START, TWO_TASKS), **LEARN)
    np.testing.assert_allclose(found.advantages, TWO_ADVANTAGES, atol=1e-6)
    assert_step(found, step_by_hand(TWO_START, TWO_TASKS, standardized(TWO_ADVANTAGES)), TWO_START)
    np.testing.assert_allclose(found.critic, critic_by_hand(TWO_START, TWO_TASKS, TWO_TARGETS), rtol=1e-5)


@each_played
def test_a_plane_is_softened_task_by_task(path):
    """A side that is lost in one task counts as lost there, whatever the other task has on it."""
    found = PATHS[path](TWO_START, TWO_TASKS, **LEARN, **REGULAR)
    weights = standardized(TWO_ADVANTAGES)
    expected = step_by_hand(TWO_START, TWO_TASKS, weights, learn=REGULAR)
    assert_step(found, expected, TWO_START)
    as_one = tuple(episode._replace(task=0) for episode in TWO_TASKS)
    assert np.abs(expected - step_by_hand(TWO_START, as_one, weights, learn=REGULAR)).max() > 1e-3


@pytest.mark.parametrize(
    "path, gradient", [(PLAYED[0], "marginal"), (PLAYED[0], "sampled"), (PLAYED[1], "sampled"), (PLAYED[2], "marginal")]
)
def test_a_policy_that_commits_is_scored_with_the_skill_before(path, gradient):
    """The skill in force is that of the step before, and none at the first step of an episode. Where it is summed out,
    all skills that may have been in force are."""
    found = PATHS[path](COMMITTED, EPISODES, **LEARN, gradient=gradient)
    np.testing.assert_allclose(found.advantages, ADVANTAGES, atol=1e-6)
    assert_step(found, step_by_hand(COMMITTED, EPISODES, standardized(ADVANTAGES), gradient), COMMITTED)


@pytest.mark.parametrize("path", PLAYED[:2])
def test_the_critic_sees_the_skill_in_force(path):
    """V(x, j) = 1 + 2 x, and 2 more under skill 0, 2 less under skill 1; after a step its own skill is in force.

    Values are 1, 4 and 1 at the end; 3 and -2; -1, 3 and 4; 2 and 1 at the end. The targets of the truncated episodes
    are 2 + 1.5/2 and 1 + 1/2; and 1 + 1/2.
    """
    ramps = [[1.0, 0.0, 0.0], [0.0, 0.5, -0.5]]
    start = COMMITTED._replace(ramps=ramps, critic=[1.0, 2.0, 4.0], gram=np.eye(3), moment=[1.0, 2.0, 4.0])
    found = PATHS[path](start, EPISODES, **LEARN, gradient="sampled")
    np.testing.assert_allclose(found.advantages, [1.75, -2.5, -1.0, 6.0, 1.75, -3.5, -1.0, -0.5], atol=1e-6)


# ---- What only some experience has --------------------------------------------------------------------------------


def test_steps_that_decide_nothing_teach_the_critic_alone():
    """At the third and the last step all actions are the same: the step leaves both out, the critic neither."""
    over, short = OVER._replace(decides=(False, True)), SHORT._replace(decides=(False,))
    found = window_update(START, (CUT, over, LONG, short), **LEARN)
    decides = np.array([1, 1, 0, 1, 1, 1, 1, 0], bool)
    weights = np.zeros(8)
    weights[decides] = standardized(ADVANTAGES[decides]) * 8 / 6
    assert_step(found, step_by_hand(START, EPISODES, weights), START)
    np.testing.assert_allclose(found.critic, critic_by_hand(START, EPISODES, TARGETS), rtol=1e-5)


def test_packed_episodes_end_where_they_ended():
    """A truncated episode of two steps, then a terminated one of two."""
    terminated, truncated = packed_ends((CUT, OVER))
    assert np.flatnonzero(truncated).tolist() == [1] and np.flatnonzero(terminated).tolist() == [3]


def test_the_critic_sees_observations_scaled():
    """In whatever unit they come, their moments bring them to mean 0 and deviation 1."""
    everything = np.concatenate([e.observations[:-1] for e in EPISODES])

    def moved(shift: float, scale: float) -> tuple[Episode, ...]:
        return tuple(e._replace(observations=tuple(shift + scale * np.array(e.observations))) for e in EPISODES)

    ramps = START._replace(ramps=[[0.3]])
    found = [packed_update(ramps, moved(*unit), scaled=True, **LEARN).critic for unit in ((0.0, 1.0), (7.0, 3.0))]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)
    by_hand = moved(-everything.mean() / everything.std(), 1 / everything.std())
    np.testing.assert_allclose(found[0], packed_update(ramps, by_hand, **LEARN).critic, rtol=1e-4)


@pytest.mark.parametrize("lanes, window", [(2, 4), (3, 5)])
def test_logged_steps_count_by_importance_and_all_of_them_are_anchored(lanes, window):
    """Weights are products of ratios up to the cap, begun anew in each episode; the filling is not anchored."""
    ratios = np.array([2.0, 3.0, 0.5, 1.5, 0.8, 1.25, 2.5, 1.2])
    rho = np.array([2.0, 4.0, 0.5, 0.75, 0.8, 1.0, 2.5, 1.2])  # The second would be 6, the cap is 4.
    own = log_probs(START, flat(START), Steps(EPISODES)) - np.log(ratios)
    starts = np.cumsum([0, *(e.length for e in EPISODES)])
    logged = tuple(e._replace(behaviour=tuple(own[a : a + e.length])) for e, a in zip(EPISODES, starts))
    found = logged_update(START, logged, lanes, window, cap=4.0, anchor=0.3, **LEARN)
    assert_step(found, step_by_hand(START, EPISODES, rho * standardized(ADVANTAGES) + 0.3), START)


@pytest.mark.parametrize("lanes, window", [(2, 4), (3, 5)])
def test_logged_episodes_count_by_merit(lanes, window):
    """The likelihood of the logged actions, each weighted by the merit of its episode; the critic stays as it was."""
    merits = (0.5, 2.0, 1.0, 1.5)
    found = logged_update(START, EPISODES, lanes, window, merits=merits, learner="likelihood", **LEARN)
    weights = np.repeat(merits, [e.length for e in EPISODES])
    assert_step(found, step_by_hand(START, EPISODES, weights), START)
    np.testing.assert_array_equal(found.critic, START.critic)


# ---- The update rules ---------------------------------------------------------------------------------------------

CLIP = 0.1


def clipped_surrogate(start: Start, advantages: np.ndarray, parameters: np.ndarray) -> tuple[float, np.ndarray]:
    """mean(min(r A, clip(r) A)) of the ratios r to the probabilities at the start, and which steps are clipped."""
    steps = Steps(EPISODES)
    ratio = np.exp(log_probs(start, parameters, steps) - log_probs(start, flat(start), steps))
    clipped = np.clip(ratio, 1 - CLIP, 1 + CLIP) * advantages
    return np.minimum(ratio * advantages, clipped).mean(), clipped < ratio * advantages


@each_played
def test_ppo_climbs_the_clipped_surrogate(path):
    """Two passes over one batch: in the second, ratios are no longer 1, and some are clipped."""
    weights = standardized(ADVANTAGES)
    found = PATHS[path](START, EPISODES, **LEARN, learner="ppo", epochs=2, clip=CLIP)
    # On the kink at the start both sides agree: no ratio is clipped.
    first = derivative(lambda p: (weights * log_probs(START, p, Steps(EPISODES))).mean(), flat(START))
    between = stepped(START, first)
    clipped = clipped_surrogate(START, weights, between)[1]
    assert 0 < clipped.sum() < len(weights)
    second = derivative(lambda p: clipped_surrogate(START, weights, p)[0], between)
    assert_step(found, stepped(START, first + second), START)


@each_played
def test_a_natural_step_is_bounded_by_its_divergence(path):
    """Half of d^T (F + damping) d is half a nat for a large gradient; F from the scores of all actions at all steps."""
    sizes = {"step_size_theta": 1.0, "step_size_beta": 1.0, "damping": 0.1}
    found = PATHS[path](START, EPISODES, **{**LEARN, **sizes}, learner="natural", advantage_scale=1e3)
    step = np.concatenate([found.theta.ravel(), found.beta.ravel()]) - flat(START)
    steps = Steps(EPISODES)
    matrix = 0.1 * np.eye(len(step))
    for action in range(2):
        steps.action = np.full(8, action)
        log_pi = log_probs(START, flat(START), steps)
        scores = derivative(lambda p: log_probs(START, p, steps), flat(START))
        matrix += (scores * np.exp(log_pi)) @ scores.T / 8
    np.testing.assert_allclose(0.5 * step @ matrix @ step, 0.5, rtol=0.01)


def test_step_sizes_fall_as_the_schedule_says():
    """eta / (1 + n / scale)^power: with scale and power 1, the step of update 3 is a quarter of that of update 0."""
    learn = {**LEARN, "schedule": "robbins-monro", "schedule_scale": 1.0, "schedule_power": 1.0}
    first, fourth = (window_update(START._replace(iteration=n), EPISODES, **learn) for n in (0, 3))
    for part in ("beta", "theta"):
        before = np.float32(getattr(START, part))
        np.testing.assert_allclose(getattr(fourth, part) - before, (getattr(first, part) - before) / 4, atol=1e-6)


def test_the_baseline_of_an_episode_is_the_mean_return_of_the_others():
    """Three whole episodes with returns 1, 2 and 6: the baselines are 4, 3.5 and 1.5."""
    rng = np.random.default_rng(0)
    scores = [(rng.normal(size=(2, 2)), rng.normal(size=(1, 2))) for _ in range(3)]
    sizes = {"step_size_theta": 1.0, "step_size_beta": 1.0}
    for baseline, worth in (("mean", (-3.0, -1.5, 4.5)), ("none", (1.0, 2.0, 6.0))):
        found = reinforce_update(START, scores, (1.0, 2.0, 6.0), baseline=baseline, **{**LEARN, **sizes})
        for number, part in enumerate(("theta", "beta")):
            slope = sum(one * score[number] for one, score in zip(worth, scores)) / 3
            np.testing.assert_allclose(getattr(found, part), getattr(START, part) + slope, atol=1e-5)


# Discounted returns of the four episodes, and what each has more than the mean of the others': 2.5 - 3.75 / 3 and so
# on.
RETURNS = np.array([2.5, 2.0, 0.75, 1.0])
WORTHS = np.array([1.25, 7 / 12, -13 / 12, -0.75])


@pytest.mark.parametrize("gradient", ["marginal", "sampled"])
@pytest.mark.parametrize(("baseline", "worths"), [("mean", WORTHS), ("none", RETURNS)])
@pytest.mark.parametrize("path", PLAYED[1:])
def test_reinforce_sums_worth_times_score_over_packed_episodes(path, baseline, worths, gradient):
    """A mean over episodes, long or short: (R - baseline) times the sum of the scores of all steps; nothing is
    added."""
    learn = {**LEARN, **REGULAR, "learner": "reinforce", "baseline": baseline, "gradient": gradient}
    found = PATHS[path](START, EPISODES, **learn)
    lengths = [episode.length for episode in EPISODES]
    assert_step(found, step_by_hand(START, EPISODES, np.repeat(worths, lengths) * 8 / 4, gradient), START)
    np.testing.assert_array_equal(found.critic, START.critic)


def test_reinforce_is_the_same_from_packed_steps_and_from_summed_scores():
    def scores(episode: Episode) -> tuple[np.ndarray, np.ndarray]:
        return parts(START, derivative(lambda p: log_probs(START, p, Steps((episode,))).sum(), flat(START)))

    learn = {**LEARN, "baseline": "mean"}
    summed = reinforce_update(START, [scores(episode) for episode in EPISODES], RETURNS, **learn)
    found = packed_update(START, EPISODES, learner="reinforce", **learn)
    for part in ("theta", "beta"):
        np.testing.assert_allclose(getattr(found, part), getattr(summed, part), atol=1e-6)


# ---- Actions that are vectors -------------------------------------------------------------------------------------

VECTORS = (
    Episode((0.0, 0.5, 1.0), (0, 1), ((0.2, -0.7), (0.9, 0.1)), (2.0, 1.0), terminated=False),
    Episode((1.0, -0.5, 0.5, 0.2), (1, 1, 0), ((-0.4, 1.3), (0.0, 0.6), (0.5, -0.2)), (0.0, 4.0, 1.0), terminated=True),
)
LOG_STD = np.array([[-0.5, 0.2], [0.1, -0.3]])


def gaussian_log_probs(parameters: np.ndarray, steps: Steps, gradient: str) -> np.ndarray:
    """Of each action: a mixture over skills of independent normals; theta holds the means."""
    (theta, beta), log_std = parts(START, parameters[:6]), parameters[6:].reshape(2, 2)
    side = expit(START.alpha_beta * beta[0] @ steps.psi)
    normal = norm.logpdf(steps.action, theta[:, None], np.exp(log_std)[:, None]).sum(-1)
    joint = np.log([1 - side, side]) + normal
    return joint[steps.skill, steps.columns] if gradient == "sampled" else logsumexp(joint, axis=0)


@pytest.mark.parametrize("smallest", [8, 64])
@pytest.mark.parametrize("gradient", ["marginal", "sampled"])
def test_the_fisher_matrix_of_drawn_vectors_is_the_mean_of_outer_products(gradient, smallest):
    """Of the scores of the five steps, found by finite differences; the filling has no part in it."""
    parameters, steps = np.concatenate([flat(START), LOG_STD.ravel()]), Steps(VECTORS)
    scores = derivative(lambda p: gaussian_log_probs(p, steps, gradient), parameters)
    found = sampled_fisher(START, LOG_STD, VECTORS, smallest, gradient)
    assert np.linalg.matrix_rank(found, tol=1e-3) == 5
    np.testing.assert_allclose(found, scores @ scores.T / 5, atol=1e-5)


# ---- What is taken over -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["windows of 2 lanes", "packed, filled to 16", "logged, full"])
def test_a_critic_that_is_not_finite_is_not_taken_over(path):
    """The step itself is finite: the new weights of the critic alone are not. All stays as it was, and the seed
    stops."""
    start = START._replace(moment=[np.nan, 2.0])
    found = PATHS[path](start, as_played_by(START, EPISODES), **LEARN)
    assert found.spoiled and found.iteration == 0
    for part in ("critic", "beta", "theta"):
        np.testing.assert_array_equal(getattr(found, part), np.float32(getattr(START, part)))


@pytest.mark.parametrize("spent, goes_on", [(99, True), (100, False)])
def test_a_budget_of_steps_ends_when_it_is_spent(spent, goes_on):
    found = window_update(START._replace(env_steps=spent), EPISODES, **LEARN, steps=100)
    assert found.iteration == (1 if goes_on else 0)


@pytest.mark.parametrize(
    ("mean", "weights", "gradient", "squares"),
    [
        (0.0, [3.0, 100 * 2.0], [1.0, 200 / 100], [4.0, 90_000 / 100**2]),
        # The slope now also carries what the bias had: 50 of 2 each; and its gradient that of the bias, 50 / 100 of it.
        (50.0, [3.0 + 50 * 2.0, 100 * 2.0], [1.0, 200 / 100 - 0.5], [4.0, 90_000 / 100**2 + 4 * 0.5**2]),
    ],
)
def test_what_is_kept_goes_into_the_new_units_of_the_observations(mean, weights, gradient, squares):
    """From observations as they are to a deviation of 100: sums of parameters and averages are as if all had been
    summed in the new units, and the step of Adam is in proportion to its weights what it was."""
    config = config_of(optimizer="adam", averaging=1.0)
    kept = Parameters(np.zeros((2, 2, 1), np.float32), np.float32([[3.0, 2.0]]))
    state = state_of(config, START._replace(beta=kept.beta), 1, no_moments(1))
    adam = state.optimizer._replace(
        mu=kept._replace(beta=np.float32([[1.0, 200.0]])), nu=kept._replace(beta=np.float32([[4.0, 90_000.0]]))
    )
    monitor = state.monitor._replace(total=kept, previous=kept)
    state = dataclasses.replace(state, optimizer=adam, monitor=monitor, average=kept)
    after = scaled_by(state, Moments(np.float32(4), np.float32([mean]), np.float32([4 * 100.0**2])))
    for parameters in (after.policy.partition.beta, after.monitor.total.beta, after.monitor.previous.beta):
        np.testing.assert_allclose(parameters, [weights], rtol=1e-6)
    np.testing.assert_allclose(after.average.beta, [weights], rtol=1e-6)
    np.testing.assert_allclose(after.optimizer.mu.beta, [gradient], rtol=1e-6)
    np.testing.assert_allclose(after.optimizer.nu.beta, [squares], rtol=1e-6)
