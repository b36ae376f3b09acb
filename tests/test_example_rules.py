"""The rules in examples/rules load for their environments and play well."""

from pathlib import Path

import pytest

from asap import load_rules

RULES = Path(__file__).parents[1] / "examples" / "rules"
EPISODES = 20
# Measured on 200 episodes: 500, -83.6, -105.6, 94.6, -160 and 0.73.
GOOD = {
    "cartpole": ("CartPole-v1", 475.0),
    "acrobot": ("Acrobot-v1", -100.0),
    "mountain_car": ("MountainCar-v0", -120.0),
    "mountain_car_continuous": ("MountainCarContinuous-v0", 90.0),
    "pendulum": ("Pendulum-v1", -220.0),
    "frozen_lake": ("FrozenLake-v1", 0.5),
}


def test_every_file_is_tried():
    assert {path.stem for path in RULES.iterdir()} == set(GOOD)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_rules_play_well(name):
    env, threshold = GOOD[name]
    model = load_rules(RULES / f"{name}.txt", env)
    assert model.given.rules.warnings == ()
    assert model.evaluate(episodes=EPISODES, deterministic=True)["return"] >= threshold
