"""`asap doctor` tells what a bug report needs, and no secrets; `asap cache` removes the cache's own files alone; another
JAX compiles as well."""

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from command_line import asap

from asap.base import arrays, compile_cache
from asap.base.trust import KEY_FILE
from asap.cli import installation

SOURCE = Path(__file__).parents[1] / "src"
HASH = "0123456789abcdef" * 4
PROGRAM, LAST_USE = f"jit_run-{HASH}-cache", f"jit_run-{HASH}-atime"
DEVICES = {"backend": "cpu", "devices": ["cpu (cpu)", "cpu (cpu)"], "x64": False}


@pytest.fixture
def quiet_jax(monkeypatch):
    """JAX takes half a second to tell its devices."""
    monkeypatch.setattr(installation, "_ask_jax", lambda problems: DEVICES)


@pytest.fixture
def run(capsys, monkeypatch):
    def called(*arguments: str) -> tuple[int, str, str]:
        return asap(arguments, capsys, monkeypatch)

    return called


def examined(run) -> dict:
    return json.loads(run("doctor", "--json")[1])


def install(folder: Path, name: str, version: str, *lines: str) -> None:
    """A package as the installer would leave it: metadata alone."""
    place = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    place.mkdir(parents=True)
    head = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    (place / "METADATA").write_text("\n".join([*head, *lines, ""]))


# ---- asap doctor --------------------------------------------------------------------------------------------------


def test_the_doctor_tells_versions_machine_and_devices(run):
    code, text, _ = run("doctor", "--json")
    report = json.loads(text)
    assert report["packages"]["jax"] == metadata.version("jax") and report["packages"]["jaxlib"]
    assert {"numpy", "equinox", "optax", "gymnasium", "matplotlib", "typer", "safetensors"} <= set(report["packages"])
    assert report["platform"]["cores"] == len(os.sched_getaffinity(0)) and report["platform"]["memory_bytes"] > 2**28
    assert report["jax"]["devices"] and report["jax"]["x64"] is False
    assert (code, report["problems"]) == (0, [])


def test_it_fits_on_a_screen(run, quiet_jax):
    lines = run("doctor")[1].splitlines()
    assert len(lines) <= 30 and max(map(len, lines)) <= 100
    assert "JAX        2 x cpu (cpu); x64 off" in lines and "problems   none found" in lines


def test_it_names_variables_without_their_values(run, quiet_jax, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "a-secret")
    monkeypatch.setenv("OTHER_PROGRAM", "1")
    code, text, _ = run("doctor")
    assert "WANDB_API_KEY" in text and "a-secret" not in text and "OTHER_PROGRAM" not in text


def test_it_names_every_variable_that_the_library_reads():
    read = re.compile(r'environ(?:\.\w+)?[(\[]\s*(?:"(\w+)"|([A-Z]\w+))')
    found = {one.groups() for path in SOURCE.rglob("*.py") for one in read.finditer(path.read_text())}
    constants = {"KEY_FILE": KEY_FILE, "FOLDER": compile_cache.FOLDER, "IN_USE": compile_cache.IN_USE}
    names = {literal or constants[constant] for literal, constant in found}
    assert {KEY_FILE, "XDG_CONFIG_HOME", "RAY_ADDRESS"} <= names
    assert [
        name for name in names if name not in installation.VARIABLES and not name.startswith(installation.FAMILIES)
    ] == []


def test_the_home_directory_is_not_told(run, quiet_jax, monkeypatch, tmp_path):
    home = tmp_path / "somebody"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv(KEY_FILE, str(home / "key"))
    monkeypatch.setenv(compile_cache.FOLDER, str(home / ".cache" / "compiled"))
    text = run("doctor")[1]
    assert "~/key" in text and "~/.cache/compiled" in text and "somebody" not in text
    assert installation.shortened(f"{home}-else/x") == f"{home}-else/x"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("raise ImportError('no wheel for this machine')", "no wheel for this machine"),
        ("import os; os.abort()", "SIGABRT"),
    ],
)
def test_it_works_where_jax_does_not(tmp_path, fault, why):
    (tmp_path / "jax.py").write_text(fault)
    done = subprocess.run(
        [sys.executable, "-m", "asap", "doctor"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1 and "JAX        not usable" in done.stdout and "numpy" in done.stdout
    assert "problem    JAX does not start" in done.stdout and why in done.stdout and done.stderr == ""


def test_it_works_where_jax_has_no_address_space():
    limited = ["sh", "-c", 'ulimit -v 2000000; exec "$@"', "sh", sys.executable, "-m", "asap", "doctor"]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "limit on address space" in done.stdout and "ulimit -v" in done.stdout


def test_packages_below_their_floor_are_a_problem(run, quiet_jax, monkeypatch):
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "1.26.4" if name == "numpy" else real(name))
    problem = {"what": "numpy 1.26.4 is not >=2.0", "cure": "pip install 'numpy>=2.0'"}
    code, text, _ = run("doctor", "--json")
    assert (code, json.loads(text)["problems"]) == (1, [problem])


def test_extras_are_those_of_the_metadata(run, quiet_jax, monkeypatch, tmp_path):
    wanted = ("Provides-Extra: shiny", 'Requires-Dist: lamp>=2; extra == "shiny"', "Requires-Dist: bulb>=1")
    install(tmp_path, installation.PACKAGE, "9", *wanted)
    monkeypatch.syspath_prepend(tmp_path)
    report = examined(run)
    assert report["extras"] == {"shiny": {"found": {}, "complete": False, "install": "pip install 'asap-rl[shiny]'"}}
    assert report["problems"] == [{"what": "bulb is missing", "cure": "pip install 'bulb>=1'"}]
    install(tmp_path, "bulb", "1.5")
    install(tmp_path, "lamp", "1.0")
    report = examined(run)
    assert [problem["what"] for problem in report["problems"]] == ["lamp 1.0 is not >=2"]


def test_an_extra_is_complete_with_the_extras_of_its_packages(run, quiet_jax, monkeypatch, tmp_path):
    install(tmp_path, installation.PACKAGE, "9", "Provides-Extra: shiny", 'Requires-Dist: lamp[oil]; extra == "shiny"')
    install(tmp_path, "lamp", "2", "Provides-Extra: oil", 'Requires-Dist: oil-of-lamps; extra == "oil"')
    monkeypatch.syspath_prepend(tmp_path)
    assert "shiny: incomplete (lamp 2); pip install 'asap-rl[shiny]'" in run("doctor")[1]
    install(tmp_path, "oil-of-lamps", "1")
    assert examined(run)["extras"]["shiny"]["complete"]


def test_a_package_that_is_not_installed_is_a_problem(run, quiet_jax, monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "metadata", missing)
    assert "not installed" in examined(run)["problems"][0]["what"]


def test_a_key_that_others_can_read_is_a_problem(run, quiet_jax, monkeypatch, tmp_path):
    key = tmp_path / "key"
    monkeypatch.setenv(KEY_FILE, str(key))
    assert examined(run)["key"]["exists"] is False and not key.exists()
    key.write_bytes(b"k" * 32)
    key.chmod(0o644)
    code, text, _ = run("doctor")
    assert code == 1 and "chmod 600" in text and "kkk" not in text
    key.chmod(0o600)
    assert examined(run)["key"]["usable"]


def test_a_cache_that_can_not_be_written_is_a_problem(run, quiet_jax, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv(compile_cache.FOLDER, str(tmp_path / "file" / "cache"))
    assert "compile cache is not writable" in examined(run)["problems"][0]["what"]
    monkeypatch.setenv(compile_cache.IN_USE, "false")
    assert examined(run)["problems"] == []


# ---- asap cache ---------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(monkeypatch, tmp_path) -> Path:
    """A cache of one program of 700 bytes, last used once, and files that are not the cache's."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv(compile_cache.FOLDER, str(folder))
    (folder / PROGRAM).write_bytes(b"p" * 700)
    (folder / LAST_USE).write_bytes(b"t" * 8)
    return folder


@pytest.fixture
def own(monkeypatch, tmp_path) -> Path:
    """Our own cache, where the user has chosen no folder."""
    monkeypatch.delenv(compile_cache.FOLDER)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return compile_cache.own_folder()


def test_our_own_cache_is_shown_and_cleared_for_every_jax(run, own):
    assert run("cache")[1].startswith(f"cache      on: {own}, 0 programs") and not own.exists()
    for folder in (own, own.with_name("jax-0.1")):
        folder.mkdir(mode=0o700, parents=True)
        (folder / PROGRAM).write_bytes(b"p" * 700)
    assert json.loads(run("cache", "--clear", "--json")[1])["removed"] == {"programs": 2, "bytes": 1400}


def test_our_own_cache_that_others_may_write_to_is_a_problem(run, quiet_jax, own):
    own.mkdir(parents=True)
    own.chmod(0o770)
    assert "others may write to it" in examined(run)["problems"][0]["what"]
    assert "off: " in run("cache")[1] and "not private to you" in run("cache")[1]


def test_without_a_home_there_is_no_cache(run, own, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    code, text, _ = run("cache")
    assert code == 0 and text.startswith("cache      none")
    assert json.loads(run("cache", "--json")[1])["in_use"] is False
    assert "removed    0 programs" in run("cache", "--clear")[1]


def test_the_cache_is_shown(run, cache, monkeypatch):
    report = json.loads(run("cache", "--json")[1])
    assert report == {
        "path": str(cache),
        "in_use": True,
        "programs": 1,
        "bytes": 708,
        "writable": True,
        "private": None,
        "removed": None,
    }
    assert f"export {compile_cache.IN_USE}=false" in run("cache")[1]
    monkeypatch.setenv(compile_cache.IN_USE, "0")
    assert f"unset {compile_cache.IN_USE}" in run("cache")[1]


def test_clearing_removes_the_programs_alone(run, cache, tmp_path):
    outside = tmp_path / f"jit_kept-{HASH}-cache"
    outside.write_text("kept")
    (cache / f"jit_link-{HASH}-cache").symlink_to(outside)
    (cache / f"jit_folder-{HASH}-cache").mkdir()
    (cache / f"jit_folder-{HASH}-cache" / PROGRAM).write_text("kept")
    others = ["key", "notes-cache", f"jit_run-{HASH}-cache.txt", f"jit_run-{HASH[1:]}-cache", ".lockfile"]
    for name in others:
        (cache / name).write_text("kept")
    report = json.loads(run("cache", "--clear", "--json")[1])
    assert report["removed"] == {"programs": 1, "bytes": 708} and report["programs"] == 0
    assert sorted(path.name for path in cache.iterdir()) == sorted(
        [*others, f"jit_link-{HASH}-cache", f"jit_folder-{HASH}-cache"]
    )
    assert outside.read_text() == "kept" and (cache / f"jit_folder-{HASH}-cache" / PROGRAM).exists()
    assert "removed    0 programs, 0 bytes" in run("cache", "--clear")[1]


def test_a_cache_elsewhere_is_not_cleared(run, monkeypatch):
    monkeypatch.setenv(compile_cache.FOLDER, "gs://bucket/cache")
    code, _, error = run("cache", "--clear")
    assert code == 2 and "not on this machine" in error
    assert "not on this machine" in run("cache")[1]


def test_a_running_program_survives_clearing(tmp_path):
    script = (
        "import jax, asap.cli.installation as installation\n"
        "double = jax.jit(lambda x: 2 * x)\n"
        "assert int(double(2)) == 4 and installation.cache_state()['programs'] == 1\n"
        "assert installation._clear_cache()['programs'] == 1 and installation.cache_state()['programs'] == 0\n"
        "jax.clear_caches()\n"
        "assert int(double(2)) == 4 and installation.cache_state()['programs'] == 1\n"
    )
    told = {compile_cache.FOLDER: str(tmp_path / "new"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    subprocess.run([sys.executable, "-W", "error", "-c", script], env={**os.environ, **told}, timeout=60, check=True)


# ---- Another JAX --------------------------------------------------------------------------------------------------


def test_a_compiler_that_does_not_know_our_option_does_without(monkeypatch):
    monkeypatch.setattr(arrays, "COMPILER_OPTIONS", {"xla_cpu_no_such_option": False})
    arrays._compiler_options.cache_clear()
    try:
        assert int(arrays.compiled(lambda x: 2 * x)(3)) == 6
    finally:
        arrays._compiler_options.cache_clear()
