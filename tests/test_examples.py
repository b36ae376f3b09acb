"""The examples run as they are, in under two minutes each, and come to what they say."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
GOOD = {
    "acrobot": -110.0,
    "cartpole": 400.0,
    "correct_your_rules": -8.0,
    "custom_env": -85.0,
    "family": 400.0,
    "mountain_car": -130.0,
    "pendulum": -400.0,
}


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(GOOD)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_an_example_runs(name, tmp_path):
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True, timeout=240, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 120
    assert " then " in done.stdout
    assert float(re.search(r"mean return of 100 episodes: (-?[\d.]+)", done.stdout)[1]) > GOOD[name]
