"""Promise: paired random search (`--learner ars`, and `run.finish` after any learner) moves a policy as its formula says; it counts all
that it plays, leaves what is kept, and gives the same bits for any number of workers."""

import gymnasium
import jax
import numpy as np
import pytest

from asap import ASAP
from asap.base.arrays import member
from asap.base.errors import UserError
from asap.base.keys import root
from asap.experience.protocol import Evaluation
from asap.learn import ars
from asap.learn.state import first_state, parameter_digest
from asap.model.training import blank_start
from asap.policy.score import Parameters, parameters_of, with_parameters

QUICK = ["run.candidates=0", "run.eval_episodes=2", "run.final_episodes=2", "learn.critic_features=8"]


class Vectors(gymnasium.Env):
    """One number is seen and one is done; episodes have a step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 1).astype(np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), -float((action[0] - 0.5) ** 2), True, False, {}


class Quadratic:
    """In place of play: the return is -(3 - w)^2 of the first weight of the first skill; each episode has 7 steps."""

    together, most_updates, least_episodes, plays = False, 1, 1, True

    def __init__(self, tasks):
        self.tasks, self.asked = tasks, []
        self.begin = self.feed = self.collect = self.look = self.random_states = self.known_moments = self.close = (
            lambda *given: None
        )

    def evaluate(self, policies, ids, num_episodes, deterministic):
        self.asked.append((ids, num_episodes, deterministic))
        returns = -((3 - policies.skills.theta[:, 0, 0, 0].astype(float)) ** 2)[:, None, None]
        counts = np.zeros((len(returns), 1, policies.num_skills), int)
        return Evaluation(returns, returns, np.full_like(returns, np.nan), np.full_like(returns, 7), counts, counts)


def quadratic(*settings: str):
    """A model of one linear skill with the weights 1 and 0, its state, and the stand-in."""
    given = [*QUICK, "env.allow_one_step=true", *settings]
    model = ASAP(Vectors, hyperplanes=0, skills="linear", learner="ars", settings=given)
    experience, start = Quadratic(model.tasks), member(blank_start(model.config, model.tasks), 0)
    policy = with_parameters(start.policy, parameters_of(start.policy)._replace(theta=np.float32([[[1.0, 0.0]]])))
    state = first_state(model.config, experience, root(0), start._replace(policy=policy)).counted_from(start.totals)
    return model.config, experience, jax.tree.map(np.asarray, state)


def test_a_step_by_hand(monkeypatch):
    """u = sqrt(1 / 2); one direction (1, 0), so s is half of the difference and the step is 2 alpha u."""
    config, experience, state = quadratic("learn.directions=1", "learn.perturbation=0.2", "learn.search_step=0.1")
    one = parameters_of(state.policy)._replace(theta=np.float32([[[1.0, 0.0]]]))
    one = one._replace(log_std=np.zeros_like(one.log_std))
    monkeypatch.setattr(ars, "directions", lambda policy, seed, iteration, count, tied: [one] * count)
    unit = np.sqrt(0.5)
    rule, state = ars.Rule.of(config.learn), ars.begun(state, False)
    found = ars.search_update(config, experience, 5, state, (100, 1000), rule, 0.0)
    np.testing.assert_allclose(found.state.policy.skills.theta, [[[1 + 2 * 0.1 * unit, 0]]], rtol=1e-6)
    np.testing.assert_allclose(found.played.returns.ravel(), [-((2 - s * 0.2 * unit) ** 2) for s in (1, -1)], rtol=1e-6)
    (ids, episodes, deterministic), after = experience.asked[0], found.state
    assert (ids.seeds, list(ids.first), episodes, deterministic) == ([5, 5], [0, 0], 1, True)
    assert (int(after.iteration), int(after.env_steps), after.totals.episodes.tolist()) == (1, 14, [2])
    last = ars.search_update(config, experience, 5, after, (98, 986), rule, 1.0).state
    np.testing.assert_allclose(last.policy.skills.theta[0, 0, 0], 1 + 2.4 * 0.1 * unit, rtol=1e-6)
    assert list(experience.asked[1][0].first) == [2, 2]  # Episodes that nobody has played.
    np.testing.assert_allclose(last.search.before.theta, [[[1, 0]]])
    # The first counts once and the second twice.
    np.testing.assert_allclose(last.search.mean.theta[0, 0, 0], 1 + (2 + 2 * 2.4) / 3 * 0.1 * unit, rtol=1e-6)


def test_the_mean_over_directions_by_hand():
    """Returns 3, 1 for plus and 1, 1 for minus: mean 3/2, deviation sqrt(3/4); of four directions two were tried."""
    deltas = [Parameters(np.float32([[row]]), np.zeros((0, 1), np.float32)) for row in ([1, 0], [0, 1])]
    found = ars.uphill(deltas, np.array([3.0, 1.0, 1.0, 1.0]), 4)
    np.testing.assert_allclose(found.theta, [[[2 / (4 * np.sqrt(0.75)), 0]]], rtol=1e-6)
    assert not ars.uphill(deltas, np.full(4, 7.0), 2).theta.any()


def test_it_climbs_to_the_top():
    config, experience, state = quadratic("learn.directions=2", "learn.search_step=0.5")
    rule, state = ars.Rule.of(config.learn), ars.begun(state, False)
    for update in range(40):
        state = ars.search_update(config, experience, 0, state, (10**6, 10**6), rule, update / 40).state
    assert abs(float(state.policy.skills.theta[0, 0, 0]) - 3) < 0.5


@pytest.mark.parametrize(
    ("left", "expected"), [((100, 10**6), 8), ((31, 10**6), 8), ((14, 10**6), 4), ((2, 10**6), 1), ((100, 2001), 2)]
)
def test_directions_are_halved_until_they_surely_begin(left, expected):
    """Pairs of 2 episodes, of 500 steps at most."""
    assert ars.surely_begun(left, 2, 500, 8) == expected


def test_weights_of_zero_have_the_unit_one():
    assert ars.root_mean_square(np.zeros((2, 3))) == ars.root_mean_square(np.zeros((0, 3))) == 1
    assert ars.root_mean_square(np.array([3.0, -3.0])) == 3


@pytest.mark.parametrize("learner", ["ars", "ppo"])
def test_workers_make_no_difference(learner):
    settings = [*QUICK, "learn.batch_steps=100", "learn.directions=2", "run.pick=0.1"]
    settings += ["run.finish=0.4"] if learner == "ppo" else []
    models = [ASAP("CartPole-v1", learner=learner, settings=settings, workers=w).learn(700) for w in "02"]
    assert parameter_digest(models[0].policies) == parameter_digest(models[1].policies)


def test_deterministic_play_is_what_is_told():
    assert ASAP("two-rooms", learner="ars").config.run.deterministic
    assert ASAP("two-rooms", settings=["run.finish=0.1"]).config.run.deterministic
    told = ["run.finish=0.1", "run.deterministic=false"]
    assert not ASAP("two-rooms", settings=told).config.run.deterministic
    assert not ASAP("two-rooms").config.run.deterministic


def test_what_makes_no_sense_is_refused(tmp_path):
    with pytest.raises(UserError, match="run.finish: ars is the finish already"):
        ASAP("two-rooms", learner="ars", settings=["run.finish=0.1"])
    with pytest.raises(UserError, match="run.pick: there is one policy to pick from"):
        ASAP("two-rooms", settings=["run.pick=0.02"])
    with pytest.raises(UserError, match="run.race: 4 runners leave nothing to learn with"):
        ASAP("two-rooms", settings={"run.race": ("learner", "learner", "ars", "ars"), "run.finish": 0.7})
    with pytest.raises(UserError, match="run.race: a learner by gradients races with ars"):
        ASAP("two-rooms", learner="ars", settings={"run.race": ("learner", "ars")})


def test_logged_data_are_not_played(tmp_path):
    from asap.envs import catalog
    from asap.envs.controllers import find_controller
    from asap.experience.collect import collect

    task, path = catalog.find("two-rooms"), str(tmp_path / "random.npz")
    collect(task, find_controller(task, "random"), 0.0, 3, 0, path)
    settings = {"learn.learner": "ars", "run.finish": 0.3, "run.pick": 0.02, "run.race": ("learner", "ars")}
    for field, value in settings.items():
        with pytest.raises(UserError, match=f"{field}: needs to play"):
            ASAP("two-rooms", settings={"offline.data": path, field: value})


def test_directions_of_a_runner_are_tied():
    """All skills move together, and no plane does."""
    policy = ASAP("CartPole-v1", hyperplanes=2, skills="linear").policy
    tied, free = (ars.directions(policy, 0, 3, 2, is_tied)[1] for is_tied in (True, False))
    assert not tied.beta.any() and free.beta.all()
    assert (tied.theta == tied.theta[0]).all() and (free.theta[0] != free.theta[1]).all()
