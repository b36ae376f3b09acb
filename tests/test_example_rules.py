"""The rules in examples/rules load for their environments and play well; the rule of the README is one of them."""

import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from asap import load_rules

ROOT = Path(__file__).parents[1]
RULES = ROOT / "examples" / "rules"
EPISODES = 20
# Measured on 200 episodes: 500, 500, -83.6, -105.6, 94.6, -160 and 0.73.
GOOD = {
    "cartpole": ("CartPole-v1", 475.0),
    "cartpole_learned": ("CartPole-v1", 475.0),
    "acrobot": ("Acrobot-v1", -100.0),
    "mountain_car": ("MountainCar-v0", -120.0),
    "mountain_car_continuous": ("MountainCarContinuous-v0", 90.0),
    "pendulum": ("Pendulum-v1", -220.0),
    "frozen_lake": ("FrozenLake-v1", 0.5),
}
# What bench/records.py writes into the files that it makes.
TRIED = re.compile(rf"^# Tried by the tests: {EPISODES} episodes of (\S+) return at least (\S+)\.$", re.MULTILINE)
OF_MUJOCO = ("Swimmer", "Hopper", "HalfCheetah")
STARTS, MOST_FAILURES = 10_000, 0.001


def wanted(path: Path) -> tuple[str, float] | None:
    """The environment of a file, and the least that its rules return there."""
    tried = TRIED.search(path.read_text())
    return GOOD.get(path.stem) if tried is None else (tried[1], float(tried[2]))


def test_every_file_is_tried():
    assert {path.stem for path in RULES.iterdir()} >= set(GOOD)
    assert [path.name for path in RULES.iterdir() if wanted(path) is None] == []


@pytest.mark.parametrize("name", sorted(path.stem for path in RULES.iterdir()))
def test_rules_play_well(name):
    env, threshold = wanted(RULES / f"{name}.txt")
    if env.startswith(OF_MUJOCO):
        pytest.importorskip("mujoco")
    model = load_rules(RULES / f"{name}.txt", env)
    assert model.given.rules.warnings == ()
    assert model.evaluate(episodes=EPISODES, deterministic=True)["return"] >= threshold


def test_the_readme_shows_a_rule_of_these_files():
    block = re.search(
        r"```\nCartPole-v1: 1 plane, 2 skills\.\n(.*?)\n\.\.\.", (ROOT / "README.md").read_text(), re.DOTALL
    )
    assert rules_in(block[1]) in [rules_in(path.read_text()) for path in RULES.glob("cartpole*.txt")]


def rules_in(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("path", sorted(RULES.glob("cartpole*.txt")), ids=lambda path: path.stem)
def test_the_pole_falls_from_next_to_no_start(path):
    """Followed by hand, from 10,000 starts side by side."""
    book = load_rules(path, "CartPole-v1").given.book
    env = gymnasium.make_vec("CartPole-v1", num_envs=STARTS, vectorization_mode="vector_entry_point")
    x, _ = env.reset(seed=1)
    stands = np.ones(STARTS, bool)
    for _ in range(env.spec.max_episode_steps - 1):
        x, _, terminated, _, _ = env.step(book.act(x.T.astype(float))[1])
        stands &= ~terminated
    env.close()
    assert np.mean(~stands) <= MOST_FAILURES
