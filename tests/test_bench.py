"""The benchmark runs, tells what it promises, and plays the same game in C as in the library, at a comparable speed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench" / "rooms.py"
LOOPS = ("reinforce_sampled", "reinforce_marginal", "ppo")


@pytest.fixture(scope="module")
def numbers() -> dict[str, float]:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler 'cc' to build the yardstick with")
    done = subprocess.run([sys.executable, BENCH, "--quick", "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_number_is_positive(numbers):
    promised = {f"{loop}_{what}" for loop in LOOPS for what in ("ratio", "core_ratio", "steps_per_second")}
    assert promised | {"c_ns_per_step", "c_mean_length", "reinforce_mean_length"} == numbers.keys()
    assert all(type(value) is float and value > 0 for value in numbers.values())


def test_c_and_library_play_the_same_game(numbers):
    # Lengths are 391 on average with a standard error below 0.5 in both.
    assert numbers["reinforce_mean_length"] == pytest.approx(numbers["c_mean_length"], abs=3)


def test_the_library_keeps_up_with_c(numbers):
    # By processor time: by the clock, a busy machine alone moves the ratios by a factor of two.
    assert numbers["reinforce_sampled_core_ratio"] > 0.4
    assert numbers["ppo_core_ratio"] > 0.05
