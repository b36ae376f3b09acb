"""Promise: a larger budget is learned with steadier settings by default, and what the user says stays as it was said."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap import ASAP
from asap.config.schema import LearnConfig
from asap.experience.critic import table_critic
from asap.learn.judge import fit
from asap.learn.state import drawn_critic
from asap.policy.surgery import has_one_skill, with_one_skill, without_idle_planes


def chosen(env: str, steps: int | None = None, **options) -> tuple:
    """Batch, planes, runners and finish of the default for a budget."""
    settings = {**options.pop("settings", {}), **({} if steps is None else {"run.steps": steps})}
    config = ASAP(env, settings=settings, **options).config
    return config.learn.batch_steps, config.policy.hyperplanes, len(config.run.race), config.run.finish


@pytest.mark.parametrize(
    ("env", "steps", "expected"),
    [
        ("Pendulum-v1", 99_999, (512, 2, 0, 0.0)),
        ("Pendulum-v1", 100_000, (1024, 2, 0, 0.0)),
        ("Pendulum-v1", None, (1024, 2, 0, 0.0)),  # 300,000 steps.
        ("Pendulum-v1", 400_000, (2048, 2, 5, 0.3)),
        ("FrozenLake-v1", 400_000, (2048, 0, 0, 0.0)),
        ("Taxi-v4", 99_999, (512, 1, 0, 0.0)),
        ("CartPole-v1", 400_000, (512, 1, 0, 0.0)),
        ("two-rooms", 400_000, (512, 1, 0, 0.0)),
    ],
)
def test_defaults_follow_the_budget(env, steps, expected):
    assert chosen(env, steps) == expected


def test_what_the_user_says_stays():
    assert chosen("Pendulum-v1", 400_000, hyperplanes=1)[1:3] == (1, 5)
    assert chosen("Pendulum-v1", 400_000, skills="gaussian")[0] == 512, "these steps are for linear skills"
    assert chosen("Pendulum-v1", 400_000, learner="natural")[0] == 512
    assert chosen("Pendulum-v1", 400_000, settings={"learn.batch_steps": 1000})[0] == 1000


def test_a_model_learns_with_the_defaults_of_its_budget():
    model = ASAP("Pendulum-v1", settings=["run.final_episodes=1", "run.candidates=0"])
    assert model.config.learn.batch_steps == 1024
    model.learn(600)
    assert model.config.learn.batch_steps == 512 and model.config.run.steps == 600
    assert ASAP("Pendulum-v1", settings=["run.candidates=0"])._asked[0] == ["Pendulum-v1"]


def test_a_table_has_a_value_for_every_state():
    """Three states that return 1, 2 and 6, fitted without ridge: the values are these."""
    states, critic = np.eye(3, dtype=np.float32), table_critic(3)
    features = critic.features(jnp.asarray(states), jnp.zeros((0, 3)))
    fitted = fit(critic, features, jnp.float32([1, 2, 6]), memory=0.0, ridge=1e-6)
    np.testing.assert_allclose(fitted.weights @ features, [1, 2, 6], rtol=1e-3)
    model = ASAP("FrozenLake-v1")
    assert drawn_critic(model.config, model.tasks, 0).hidden.shape == (16, 16)


def test_the_entropy_counts_less_and_less():
    """At half of a budget with a linear schedule, half of the gradient at its start; with a constant one, all of it."""
    from test_hosted_policy import policy_of, steps

    from asap.learn.regularize import regularity_gradient

    policy = policy_of("linear", "linear")

    def slopes(schedule: str, done: float) -> np.ndarray:
        config = LearnConfig(entropy=0.5, softening=0.0, schedule=schedule)
        return np.asarray(regularity_gradient(config, policy, steps(policy, False), done)[0].theta)

    np.testing.assert_allclose(slopes("linear", 0.5), slopes("linear", 0.0) / 2, rtol=1e-5)
    np.testing.assert_array_equal(slopes("constant", 0.5), slopes("linear", 0.0))
    assert slopes("linear", 0.0).any() and not slopes("linear", 1.0).any()


def test_one_skill_everywhere():
    policy = ASAP("Pendulum-v1").policy
    one = with_one_skill(jax.tree.map(np.asarray, policy))
    assert has_one_skill(one) and not has_one_skill(policy)
    np.testing.assert_array_equal(one.skills.theta[3], policy.skills.theta[0])
    assert without_idle_planes(policy).partition.num_planes == 2, "its skills differ"
    shown = without_idle_planes(one)
    assert (shown.partition.num_planes, shown.num_skills) == (0, 1)
    np.testing.assert_array_equal(shown.skills.theta[0], policy.skills.theta[0])


def test_planes_that_change_nothing_are_not_shown():
    model = ASAP("Pendulum-v1", settings=["run.final_episodes=1"])
    model.policy = with_one_skill(jax.tree.map(np.asarray, model.policy))
    assert "no planes, 1 skill" in model.explain() and "A =" not in model.explain()
