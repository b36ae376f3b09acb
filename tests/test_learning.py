"""Learning reaches what it promises, with every learner, and a broken gradient does not."""

import json
import subprocess
import sys

import pytest


def train(*arguments: str, out) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "asap", "train", *arguments, "--json", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


MIRRORED = pytest.param("flipped-two-rooms", 1750, marks=pytest.mark.slow)  # The same rooms, upside down.


@pytest.mark.parametrize(("task", "median"), [("two-rooms", 1750), MIRRORED, ("three-rooms", 700)])
def test_defaults_become_near_optimal(task, median, tmp_path):
    report = train(task, "--seeds", "6", "--episodes", "1500", out=tmp_path / "run")
    assert report["near_optimal_seeds"] >= 5
    assert report["episodes_to_near_optimal"]["median"] <= median


LEARNERS = [
    ("ppo", "sampled", ()),
    ("natural", "marginal", ()),
    ("actor-critic", "marginal", ()),
]


@pytest.mark.parametrize(("learner", "gradient", "settings"), LEARNERS, ids=[f"{one[0]} {one[1]}" for one in LEARNERS])
def test_every_learner_improves_on_the_start(learner, gradient, settings, tmp_path):
    extra = [part for item in settings for part in ("--set", item)]
    report = train(
        "two-rooms",
        "--seeds",
        "4",
        "--episodes",
        "2000",
        "--learner",
        learner,
        "--gradient",
        gradient,
        *extra,
        out=tmp_path / "run",
    )
    better = [value > report["reference"]["misspecified"] + 100 for value in report["return"]["all"]]
    assert sum(better) >= 2, report["return"]


def test_reinforce_becomes_near_optimal_without_a_critic(tmp_path):
    """In the median after 2,200 episodes; the slowest of 20 seeds took 5,000."""
    report = train("two-rooms", "--seeds", "4", "--episodes", "6000", "--learner", "reinforce", out=tmp_path / "run")
    assert report["near_optimal_seeds"] >= 3, report["return"]


BROKEN = {
    "theta sign": "scores = scores._replace(skills=-scores.skills)",
    "beta sign": "scores = scores._replace(planes=-scores.planes)",
}


@pytest.mark.parametrize("breakage", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_theorem_does_not_learn(breakage, tmp_path):
    """The threshold of `test_defaults_become_near_optimal` is one that a wrong sign misses."""
    script = (
        "import asap.learn.updates as updates\nreal = updates.score_in_order\n"
        f"def broken(*arguments):\n scores = real(*arguments)\n {breakage}\n return scores\n"
        "updates.score_in_order = broken\nimport asap.cli.app\nasap.cli.main()"
    )
    arguments = ["train", "two-rooms", "--seeds", "4", "--episodes", "400", "--json", "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=500, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1])["near_optimal_seeds"] <= 1
