"""Promise: every learner trains on environments of Gymnasium, with actions from a list and with vectors; and a policy
without planes, one skill everywhere, is trained, kept and explained like any other, whoever plays."""

import gymnasium
import jax
import numpy as np
import pytest

from asap import ASAP
from asap.learn.state import parameter_digest

LEARNERS = ("reinforce", "natural", "actor-critic", "ppo")
PLAIN = ["run.candidates=0", "learn.averaging=none", "run.final_episodes=5"]


class Signs(gymnasium.Env):
    """The right action is the sign of what is shown: from a list, or the side of a vector's number."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))

    def __init__(self, vectors: bool = False):
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,)) if vectors else gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._next(), {}

    def step(self, action):
        self.time += 1
        side = float(action[0]) if np.ndim(action) else 2.0 * action - 1
        reward = side * np.sign(self.shown[0])
        return self._next(), float(reward), False, self.time == 8, {}

    def _next(self):
        self.shown = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.shown


def vectors() -> Signs:
    return Signs(vectors=True)


@pytest.mark.parametrize("make", [Signs, vectors])
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_learns_the_side(learner, make):
    """The best return is 8, that of the start about 0; a step in the wrong direction ends below 0."""
    sizes = ["learn.batch_steps=128", "learn.batch_episodes=16"]
    model = ASAP(make, hyperplanes=1, learner=learner, skills=None, settings=[*PLAIN, *sizes], seed=1).learn(6000)
    assert model.evaluate(episodes=20, deterministic=False)["return"] > 3


@pytest.mark.parametrize(
    ("env", "learner"), [("CartPole-v1", "natural"), ("CartPole-v1", "reinforce"), ("Pendulum-v1", "natural")]
)
def test_updates_are_finite_and_each_changes_all_that_is_learned(env, learner):
    """The gradient is told with every update."""
    reports = []
    model = ASAP(env, learner=learner, settings=[*PLAIN, "learn.batch_episodes=8"])
    start = jax.tree.leaves(model.policies.skills) + [model.policies.partition.beta]
    model.learn(2500, callback=reports.append)
    learned = jax.tree.leaves(model.policies.skills) + [model.policies.partition.beta]
    for before, after in zip(start, learned):
        assert np.isfinite(after).all() and (np.ndim(after) == 1 or (before != after).all())
    told = np.array([[report.event[f"gradient_{name}"] for name in ("theta", "beta")] for report in reports])
    assert len(told) > 1 and np.isfinite(told).all() and (told > 0).all()


@pytest.mark.parametrize("learner", ["natural", "reinforce"])
def test_workers_make_no_difference_to_a_learner(learner):
    settings = [*PLAIN, "learn.batch_steps=200", "learn.batch_episodes=6"]
    digests = [
        parameter_digest(ASAP("CartPole-v1", learner=learner, settings=settings, workers=workers).learn(800).policies)
        for workers in ("0", "2")
    ]
    assert digests[0] == digests[1]


# ---- One skill everywhere -----------------------------------------------------------------------------------------

ROOMS = ["run.chunk=2", "run.eval_episodes=4", "run.final_episodes=20"]


def again(*case) -> object:
    """Cases whose skills, learner and task are each in another one."""
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("env", "skills", "learner", "settings", "says"),
    [
        ("two-rooms", "constant", "ppo", ROOMS, "no planes, 1 skill"),
        again("two-rooms", "constant", "reinforce", ROOMS, "no planes, 1 skill"),
        again("two-rooms", "linear", "natural", ROOMS, "no planes, 1 skill"),
        ("two-rooms", "network", "reinforce", ROOMS, "no planes, 1 skill"),
        again("CartPole-v1", "linear", "ppo", [*PLAIN, "run.candidates=16"], "\n  push "),
        ("CartPole-v1", "linear", "natural", [*PLAIN, "run.candidates=16"], "\n  push "),
    ],
)
def test_one_skill_everywhere_is_a_policy_like_any_other(env, skills, learner, settings, says, tmp_path):
    model = ASAP(env, hyperplanes=0, skills=skills, learner=learner, settings=settings)
    start = model.policy.skills.theta
    model.learn(episodes=60)
    assert model.policy.partition.beta.shape[0] == 0 and model.policy.num_skills == 1
    assert np.isfinite(model.policy.skills.theta).all() and (model.policy.skills.theta != start).all()
    model.save(tmp_path / "one.asap")
    loaded = ASAP.load(tmp_path / "one.asap")
    assert parameter_digest(loaded.policies) == parameter_digest(model.policies)
    report = loaded.evaluate(episodes=5)
    assert report["usage"] == [1.0] and report["returns"] == model.evaluate(episodes=5)["returns"]
    rows = np.zeros((3, *loaded.tasks.tasks[0].observation_shape), np.float32)
    assert loaded.predict(rows)[1].tolist() == [0, 0, 0]
    assert says in loaded.explain()
    assert loaded.plot().axes
    assert loaded.learn(episodes=20).num_episodes >= 80


@pytest.mark.slow  # test_families.py learns with one linear skill in less.
def test_one_linear_skill_balances_the_pole():
    """What it takes is one weighted sum, whose sign is the side to push."""
    model = ASAP("CartPole-v1", hyperplanes=0, skills="linear", seed=0).learn(20_000)
    assert model.evaluate(episodes=10)["return"] > 150  # Random play has 22.
