"""Compiled programs are kept for later processes, in a folder that is private to the user; results stay the same to the
bit, and whatever is wrong with the folder, nobody is bothered."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from asap.base import compile_cache

HASH = "0123456789abcdef" * 4

# Trains, and tells the return, the parameters and what JAX did. Warnings are errors.
TRAINING = """
import collections, hashlib, json, sys
import jax, numpy as np
from asap import ASAP
assert jax.config.jax_compilation_cache_dir is None  # Importing changes nothing.
seen = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **_: seen.update([name.rpartition("/")[2]]))
model = ASAP("two-rooms", seed=3)
model.learn(episodes=64)
leaves = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(model.policy))
print(json.dumps({"bits": hashlib.sha256(leaves).hexdigest(), "folder": jax.config.jax_compilation_cache_dir, **seen}))
"""
DOUBLE = """
import jax
from asap.base import arrays
assert int(arrays.compiled(lambda x: 2 * x)(21)) == 42
print(jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs)
"""


def in_a_process(script: str, home: Path | str, **variables: str) -> str:
    """What it prints; stderr must be empty."""
    dropped = (compile_cache.FOLDER, compile_cache.IN_USE, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", script],
        env={**kept, "XDG_CACHE_HOME": str(home), **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.fixture
def own(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return compile_cache.own_folder()


@pytest.fixture
def asked(monkeypatch, own):
    """What `use` sets, in a JAX where nobody has set anything; the process's own is left alone."""
    set_ = {}
    config = SimpleNamespace(
        jax_compilation_cache_dir=None,
        jax_enable_compilation_cache=True,
        jax_persistent_cache_min_compile_time_secs=1.0,
        update=set_.__setitem__,
    )
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(config=config))

    def use(**settings):
        set_.clear()
        vars(config).update(settings)
        compile_cache.use.__wrapped__()
        return set_.get("jax_compilation_cache_dir")

    return use


# ---- What it is for -----------------------------------------------------------------------------------------------


def test_a_later_process_compiles_nothing_and_has_the_same_bits(tmp_path):
    cold = json.loads(in_a_process(TRAINING, tmp_path))
    programs = sorted(Path(cold["folder"]).iterdir())
    warm = json.loads(in_a_process(TRAINING, tmp_path))
    off = json.loads(in_a_process(TRAINING, tmp_path, JAX_ENABLE_COMPILATION_CACHE="false"))
    assert cold["cache_misses"] == len(programs) > 0 and "cache_hits" not in cold
    assert warm["cache_hits"] == len(programs) and "cache_misses" not in warm
    assert sorted(Path(cold["folder"]).iterdir()) == programs
    assert off["folder"] is None and not {"cache_hits", "cache_misses"} & set(off)
    assert cold["bits"] == warm["bits"] == off["bits"]


def test_a_damaged_program_is_compiled_again_in_silence(tmp_path):
    folder = Path(in_a_process(DOUBLE, tmp_path).split()[0])
    for program in folder.iterdir():
        program.write_bytes(program.read_bytes()[:100])
    in_a_process(DOUBLE, tmp_path)


# ---- Whose choice it is -------------------------------------------------------------------------------------------


def test_the_callers_own_cache_is_left_alone(asked, own):
    assert asked(jax_compilation_cache_dir="/elsewhere") is None
    assert asked(jax_compilation_cache_dir="") is None
    assert asked(jax_compilation_cache_dir=None, jax_enable_compilation_cache=False) is None
    assert not own.exists()


def test_the_callers_own_folder_is_used_with_its_own_limit(tmp_path):
    chosen = str(tmp_path / "chosen")
    assert in_a_process(DOUBLE, tmp_path / "unused", **{compile_cache.FOLDER: chosen}) == f"{chosen} 1.0"
    assert not (tmp_path / "unused").exists()


# ---- Whose folder it is -------------------------------------------------------------------------------------------


def test_the_folder_is_private_whatever_the_umask(asked, own):
    before = os.umask(0o002)
    try:
        assert asked() == str(own)
    finally:
        os.umask(before)
    for folder in (own, own.parent, own.parent.parent, own.parent.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("above", [0, 1, 2, 3])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_to_is_refused(asked, own, above, mode):
    own.mkdir(parents=True, mode=0o700)
    assert asked() == str(own)
    [own, *own.parents][above].chmod(mode)
    assert asked() is None


def test_a_folder_of_somebody_else_is_refused(asked, own, monkeypatch):
    assert asked() == str(own)
    monkeypatch.setattr(os, "geteuid", lambda: own.stat().st_uid + 1)
    assert asked() is None


def test_a_link_is_judged_by_where_it_leads(asked, own, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    own.parent.mkdir(parents=True, mode=0o700)
    own.symlink_to(elsewhere)
    assert asked() == str(own)
    elsewhere.chmod(0o777)
    assert asked() is None


def test_each_jax_and_each_cpu_has_a_folder(own, monkeypatch):
    monkeypatch.setattr(compile_cache, "_cpu", lambda: ["x86_64", "flags: avx512"])
    other_cpu = compile_cache.own_folder()
    monkeypatch.setattr(compile_cache.metadata, "version", lambda name: "99.0")
    other_jax = compile_cache.own_folder()
    assert len({own, other_cpu, other_jax}) == 3 and "99.0" in other_jax.name
    assert {own.parent} == {other_cpu.parent, other_jax.parent}


# ---- Where there can be none --------------------------------------------------------------------------------------


@pytest.mark.parametrize("home", ["relative", "/dev/null", "/proc/1/none", "nul\0"])
def test_without_a_place_there_is_none_and_no_word(asked, monkeypatch, home):
    monkeypatch.setattr(os, "environ", {**os.environ, "XDG_CACHE_HOME": home})
    assert asked() is None


def test_a_folder_that_can_not_be_written_is_not_used(asked, own, monkeypatch):
    assert asked() == str(own)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # The superuser may write anywhere.
    assert asked() is None


def test_a_disk_that_is_nearly_full_is_not_used(asked, own, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=100, f_frsize=4096))
    assert asked() is None


def test_a_disk_that_fills_up_is_silent(tmp_path):
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
    ignored = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    in_a_process(ignored + limited + DOUBLE, tmp_path)


# ---- How large it gets --------------------------------------------------------------------------------------------


def test_what_was_not_used_for_longest_makes_room(asked, own, monkeypatch):
    monkeypatch.setattr(compile_cache, "MOST_BYTES", 250)
    used = {"old": (own, 1), "older": (own.with_name("jax-0.1"), 0), "new": (own, 3), "newer": (own, 4)}
    for name, (folder, time) in used.items():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"jit_{name}-{HASH}-cache"
        path.write_bytes(b"p" * 100)
        os.utime(path, (time, time))
    (own / "notes").write_bytes(b"n" * 1000)
    asked()
    left = [path.name.split("-")[0] for folder in compile_cache.folders(own.parent) for path in folder.iterdir()]
    assert sorted(left) == ["jit_new", "jit_newer", "notes"]
