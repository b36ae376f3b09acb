"""Each target of the Makefile installs what it needs, and nothing twice."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE, TOOLS = "--editable .", "--editable '.[test,ray,tensorboard,tree,pinball]'"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def checkout(tmp_path) -> Path:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv").mkdir()
    return tmp_path


def installs(checkout: Path, target: str) -> list[str]:
    """What `make TARGET` would install, in this order."""
    told = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = subprocess.run(
        ["make", "-n", target], cwd=checkout, env=told, capture_output=True, text=True, timeout=60, check=True
    )
    lines = [line for line in done.stdout.splitlines() if "pip install" in line]
    return [next(one for one in (PACKAGE, TOOLS) if line.endswith(one)) for line in lines]


def set_up(checkout: Path, *stamps: str) -> None:
    for age, name in enumerate(["pyproject.toml", *stamps]):
        (checkout / name).touch()
        os.utime(checkout / name, (1000 + age, 1000 + age))


@pytest.mark.parametrize("target", ["demo", "bench"])
def test_who_only_runs_asap_installs_the_package_alone(checkout, target):
    assert installs(checkout, target) == [PACKAGE]


@pytest.mark.parametrize("target", ["setup", "check", "test", "test-slow", "test-ray", "fuzz", "results"])
def test_who_develops_installs_the_tools_too(checkout, target):
    assert installs(checkout, target) == [PACKAGE, TOOLS]


def test_after_the_demo_the_tests_install_only_the_rest(checkout):
    set_up(checkout, ".venv/.set-up")
    assert (installs(checkout, "demo"), installs(checkout, "test")) == ([], [TOOLS])


def test_what_is_set_up_is_not_installed_again(checkout):
    set_up(checkout, ".venv/.set-up", ".venv/.set-up-dev")
    assert installs(checkout, "test") == []


def test_a_changed_pyproject_renews_both(checkout):
    set_up(checkout, ".venv/.set-up", ".venv/.set-up-dev")
    os.utime(checkout / "pyproject.toml", (2000, 2000))
    assert (installs(checkout, "demo"), installs(checkout, "test")) == ([PACKAGE], [PACKAGE, TOOLS])
