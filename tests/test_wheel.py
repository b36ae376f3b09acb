"""The wheel has the whole package and nothing else, and works in an empty environment, from an empty folder."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "asap"
FOLDERS = ("src", "tests", "docs", "examples", "bench", ".ci")
SMOKE = """
import importlib.resources, gymnasium
from asap import ASAP

assert importlib.resources.files("asap").joinpath("py.typed").is_file()
env = gymnasium.make("asap:asap/TwoRooms-v0")
assert env.observation_space.contains(env.reset(seed=0)[0]) and len(env.step(0)) == 5
model = ASAP("CartPole-v1", hyperplanes=1).learn(2000)
assert "push" in model.explain() and model.evaluate(episodes=2)
"""


def source_files() -> set[str]:
    found = (path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if "__pycache__" not in path.parts}


def test_every_module_is_in_a_package_and_every_other_file_is_named():
    """What setuptools would leave out: folders without `__init__.py`, and files that are not Python's."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert settings["packages"]["find"] == {"where": ["src"]} and os.listdir(PACKAGE.parent).count("asap") == 1
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []
    others = {name for name in source_files() if not name.endswith(".py")}
    assert others == {f"asap/{name}" for name in settings["package-data"]["asap"]}


def run(folder: Path, *command: object) -> str:
    """What a command prints, in a folder that has nothing to do with the source."""
    told = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run([*map(str, command)], cwd=folder, env=told, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}"
    return done.stdout


def copy_source(to: Path) -> None:
    """Building leaves files beside the source, and takes up what an earlier build left there."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, to)


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(tmp_path):
    source, dist, empty = tmp_path / "source", tmp_path / "dist", tmp_path / "empty folder"
    copy_source(source)
    empty.mkdir()
    run(empty, sys.executable, "-m", "build", "--outdir", dist, source)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    check_wheel(wheel)
    check_sdist(sdist)
    venv.create(tmp_path / "venv", with_pip=True)
    scripts = tmp_path / "venv" / "bin"
    run(empty, scripts / "python", "-m", "pip", "install", "--quiet", wheel)
    check_commands(scripts / "asap", empty)
    run(empty, scripts / "python", "-c", SMOKE)


def check_wheel(path: Path) -> None:
    """Built from the sdist, so that has the whole package as well."""
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
        (place,) = {name.split("/")[0] for name in names} - {"asap"}
        metadata = wheel.read(f"{place}/METADATA").decode()
    assert {name for name in names if name.startswith("asap/")} == source_files()
    assert place.endswith(".dist-info") and f"{place}/licenses/LICENSE" in names
    assert "License-Expression: MIT" in metadata and "Classifier: Typing :: Typed" in metadata


def check_sdist(path: Path) -> None:
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").glob("*.py")}
    assert {"LICENSE", "README.md", "Makefile", "docs/method.md", "examples/cartpole.py", *tests} <= names


def check_commands(asap: Path, folder: Path) -> None:
    assert run(folder, asap, "--version").startswith("asap ")
    assert "two-rooms" in run(folder, asap, "tasks")
    assert "problems   none found" in run(folder, asap, "doctor")
    assert "success" in run(folder, asap, "train", "two-rooms", "--episodes", 200, "--out", "run")
    assert "plane 1" in run(folder, asap, "explain", "run")
    assert all((folder / picture).is_file() for picture in run(folder, asap, "plot", "run").splitlines())
    assert os.listdir(folder) == ["run"]
