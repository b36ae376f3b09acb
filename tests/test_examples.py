"""The examples run as they are, and come to what they say, in under two minutes each. Those that take long learn less in
`make test`: every line of them runs all the same."""

import re
import resource
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from asap import ASAP

EXAMPLES = Path(__file__).parents[1] / "examples"
GOOD = {
    "acrobot": -110.0,
    "cartpole": 400.0,
    "correct_your_rules": -8.0,
    "custom_env": -85.0,
    "family": 400.0,
    "learn_from_a_log": 300.0,
    "mountain_car": -130.0,
    "pendulum": -400.0,
}
QUICK = {"correct_your_rules"}  # The environment of custom_env is that of the README: test_documents.py learns it.
FULL = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in sorted(GOOD)]
RETURN = re.compile(r"mean return of 100 episodes: (-?[\d.]+)")


def seconds_of_children() -> float:
    """Of the processor: by the clock, a busy machine alone takes many times as long."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(GOOD)


@pytest.mark.parametrize("name", FULL)
def test_an_example_comes_to_what_it_says(name, tmp_path):
    began = seconds_of_children()
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True, timeout=1200, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert seconds_of_children() - began < 120
    assert " then " in done.stdout
    assert float(RETURN.search(done.stdout)[1]) > GOOD[name]


@pytest.mark.parametrize("name", sorted(GOOD.keys() - QUICK))
def test_an_example_runs(name, tmp_path, capsys, monkeypatch):
    """Here, with a small budget and few episodes of evaluation."""
    learn, evaluate, asked = ASAP.learn, ASAP.evaluate, []

    def little(self, total_timesteps=None, **more):
        """From logged data there is no budget of steps."""
        if total_timesteps is None:
            return learn(self, **more)
        asked.append(total_timesteps)
        return learn(self, 2000, **more)

    monkeypatch.setattr(ASAP, "learn", little)
    monkeypatch.setattr(ASAP, "evaluate", lambda self, episodes, *where, **more: evaluate(self, 2, *where, **more))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert len(asked) == 1 and asked[0] >= 30_000
    assert " then " in said and RETURN.search(said)
