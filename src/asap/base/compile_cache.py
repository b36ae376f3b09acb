"""Compiled programs are kept between processes: JAX's persistent cache, in a folder that is private to the user.

Whoever can write to the folder can run code as the user, because what is loaded from it is run. So it must belong to
the user, and nobody else may write to it or to a folder above it. Programs are made for one CPU and one JAX, hence a
folder for each. Where there is no such folder, programs are compiled anew, silently: `asap cache` shows it.

JAX's own limit on the size needs another package, writes a file at each reading, and stops at a file that is missing.
So it is not used: what was not used for longest is removed once, when a process begins.
"""

import contextlib
import functools
import hashlib
import os
import platform
import re
import stat
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

FOLDER = "JAX_COMPILATION_CACHE_DIR"  # Environment variable of JAX: a folder that the user has chosen.
IN_USE = "JAX_ENABLE_COMPILATION_CACHE"  # And this one turns any cache off.
MOST_BYTES, LEAST_FREE = 2**28, 2**26
_ENTRY = re.compile(r".+-[0-9a-f]{64}-(cache|atime)")  # A program, or when it was last used.
_CPU = ("model name", "flags", "CPU implementer", "CPU part", "Features", "isa", "cpu")  # On Linux, by architecture.
_TRIFLES = r"Error (reading|writing) persistent compilation cache entry"  # JAX compiles instead: nothing is lost.


@functools.cache
def use() -> None:
    """Has JAX use the cache from now on, unless the caller has chosen another or none."""
    import jax

    if jax.config.jax_compilation_cache_dir is not None or not jax.config.jax_enable_compilation_cache:
        return
    folder = own_folder()
    if folder is None or not _is_usable(folder):
        return
    _make_room(folder.parent)
    warnings.filterwarnings("ignore", _TRIFLES)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    if jax.config.jax_persistent_cache_min_compile_time_secs == 1.0:  # JAX's default leaves out most of our programs.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def own_folder() -> Path | None:
    """For this JAX on this CPU; its parent has those of others. None where the user has no folder of their own."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(home) or "\0" in home:
        return None
    try:
        versions = [metadata.version(name) for name in ("jax", "jaxlib")]
    except metadata.PackageNotFoundError:
        return None
    facts = "\n".join([*versions, *_cpu()])
    return Path(home) / "asap" / "compiled" / f"jax-{versions[0]}-{hashlib.sha256(facts.encode()).hexdigest()[:16]}"


def _cpu() -> list[str]:
    """What a program may depend on. Where the system does not tell the CPU's features, the machine stands for them."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read(2**16).partition("\n\n")[0].splitlines()
    except OSError:
        first = []
    lines = [line for line in first if line.partition(":")[0].strip() in _CPU]
    return [platform.machine(), *(lines or [platform.node()])]


def is_private(folder: Path) -> bool:
    """Whether the folder is the user's, and nobody else can put anything into it or in its place."""
    real = Path(os.path.realpath(folder))
    try:
        own, *above = (os.stat(each) for each in (real, *real.parents))
    except OSError:
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    if not stat.S_ISDIR(own.st_mode) or own.st_uid != os.geteuid() or own.st_mode & others:
        return False
    return not any(each.st_mode & others and not each.st_mode & stat.S_ISVTX for each in above)


def _is_usable(folder: Path) -> bool:
    """Makes the folder, with those above it, where it is missing."""
    try:
        for each in (*reversed(folder.parents), folder):
            with contextlib.suppress(FileExistsError):
                if not each.is_dir():
                    each.mkdir(mode=0o700)
        space = os.statvfs(folder)
    except OSError:
        return False
    has_space = space.f_bavail * space.f_frsize >= LEAST_FREE
    return has_space and is_private(folder) and os.access(folder, os.R_OK | os.W_OK | os.X_OK)


def entries(folder: str | Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The cache's own files; programs come before what belongs to them."""
    try:
        names = sorted(os.listdir(folder), key=lambda name: (not name.endswith("-cache"), name))
    except OSError:  # There is no such folder yet.
        return
    for name in filter(_ENTRY.fullmatch, names):
        path = Path(folder) / name
        try:
            status = os.lstat(path)
        except OSError:  # Another process has removed it.
            continue
        if stat.S_ISREG(status.st_mode):
            yield path, status


def folders(parent: Path) -> list[Path]:
    """Of every JAX and every CPU."""
    try:
        return sorted(path for path in parent.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


def _make_room(parent: Path) -> None:
    """Removes what was not used for longest, of any JAX and CPU, until no more than MOST_BYTES are left."""
    found = [entry for folder in folders(parent) for entry in entries(folder)]
    left = sum(status.st_size for _, status in found)
    for path, status in sorted(found, key=lambda entry: max(entry[1].st_atime, entry[1].st_mtime)):
        if left <= MOST_BYTES:
            break
        with contextlib.suppress(OSError):  # Another process was first.
            path.unlink()
        left -= status.st_size
