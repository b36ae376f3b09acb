"""Commands about the installation: `asap doctor`, for reports of problems, and `asap cache`, JAX's compiled programs.

Neither imports JAX. The doctor asks another process about it, because a broken JAX may abort its process.
"""

import json
import os
import platform
import re
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from asap.base import compile_cache, trust
from asap.base.errors import RunError, UserError
from asap.cli.app import ADDRESS_SPACE, Debug, Json, app, low_address_space, tell

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PACKAGE = "asap-rl"
# Variables that change what commands do. A report has their names: values may be secret.
VARIABLES = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "PYTHONPATH", "LD_LIBRARY_PATH", "NO_COLOR", "TMPDIR")
FAMILIES = ("ASAP_", "JAX_", "XLA_", "CUDA_", "OMP_", "RAY_", "MPL", "MINARI_", "WANDB_")
PATIENCE = 120  # Seconds that JAX has to find its devices.
ASK_JAX = """
import json, jax
devices = [f"{device.platform} ({device.device_kind})" for device in jax.devices()]
print(json.dumps({"backend": jax.default_backend(), "devices": devices, "x64": bool(jax.config.jax_enable_x64)}))
"""


class Problem(NamedTuple):
    what: str
    cure: str


@app.command()
def doctor(seed: Annotated[int, typer.Option(hidden=True)] = 0, json_: Json = False, debug: Debug = False) -> None:
    """Describe the installation for a bug report, and name common problems with their cure.

    The output has no secrets: of environment variables it has the names alone. The exit code is 1 if there is a problem.
    """
    report = examination()
    tell(json_, report, _report_in_words(report))
    raise typer.Exit(1 if report["problems"] else 0)


@app.command("cache")
def show_cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove the programs; a running training goes on.")] = False,
    seed: Annotated[int, typer.Option(hidden=True)] = 0,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Show JAX's cache of compiled programs, or clear it."""
    removed = _clear_cache() if clear else None
    report = {**cache_state(), "removed": removed}
    tell(json_, report, _cache_in_words(report))


# ---- The compile cache --------------------------------------------------------------------------------------------


def cache_state() -> dict[str, Any]:
    """Where the cache is, whether commands use it, and what is in it."""
    chosen = os.environ.get(compile_cache.FOLDER)
    own = compile_cache.own_folder() if chosen is None else None
    path = str(own) if own is not None else chosen or None
    found = _cache_entries()
    writable = _can_write(Path(path)) if path is not None and "://" not in path else None
    private = compile_cache.is_private(own) if own is not None and own.exists() else None
    is_on = os.environ.get(compile_cache.IN_USE, "true").lower() in ("y", "yes", "t", "true", "on", "1")
    return {
        "path": None if path is None else shortened(path),
        "in_use": is_on and path is not None and (own is None or bool(writable) and private is not False),
        "programs": sum(path.name.endswith("-cache") for path, _ in found),
        "bytes": sum(status.st_size for _, status in found),
        "writable": writable,
        "private": private,
    }


def _cache_entries() -> list[tuple[Path, os.stat_result]]:
    """Of the folder that the user has chosen, or of our own: of every JAX and CPU."""
    chosen, own = os.environ.get(compile_cache.FOLDER), compile_cache.own_folder()
    if chosen is not None:
        folders = [Path(chosen)] if chosen and "://" not in chosen else []
    else:
        folders = [] if own is None else compile_cache.folders(own.parent)
    return [entry for folder in folders for entry in compile_cache.entries(folder)]


def _can_write(folder: Path) -> bool:
    """Whether files can be made in the folder, which JAX makes with its parents where it is missing."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _clear_cache() -> dict[str, int]:
    """Removes the cache's own files. JAX compiles again what it does not find."""
    chosen = os.environ.get(compile_cache.FOLDER) or ""
    if "://" in chosen:
        raise UserError("cache", "is not on this machine", shortened(chosen), "clear it where it is")
    removed = {"programs": 0, "bytes": 0}
    for path, status in _cache_entries():
        try:
            path.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            what = f"removed {removed['programs']} programs, then {path.name} could not be removed: {error.strerror}"
            where = shortened(str(path.parent))
            raise RunError("cache", what, where, "make the directory writable, then try again") from None
        removed["programs"] += path.name.endswith("-cache")
        removed["bytes"] += status.st_size
    return removed


def _cache_in_words(report: dict[str, Any]) -> str:
    removed = report["removed"]
    done = [] if removed is None else [f"removed    {removed['programs']} programs, {removed['bytes']:,} bytes"]
    is_off = not report["in_use"] and os.environ.get(compile_cache.IN_USE) is not None
    switch = f"on by `unset {compile_cache.IN_USE}`" if is_off else f"off by `export {compile_cache.IN_USE}=false`"
    lines = [f"cache      {_cache_in_a_line(report)}", *done]
    lines += [f"switch     {switch}; set {compile_cache.FOLDER} to move it", "clear      asap cache --clear"]
    return "\n".join(lines)


def _cache_in_a_line(state: dict[str, Any]) -> str:
    if state["path"] is None:
        return "none: the user has no folder for it"
    if "://" in state["path"]:
        return f"{state['path']}, not on this machine"
    why = ["not writable"] * (not state["writable"]) + ["not private to you"] * (state["private"] is False)
    held = [f"{state['programs']} programs", f"{state['bytes']:,} bytes"]
    return ", ".join([f"{'on' if state['in_use'] else 'off'}: {state['path']}", *held, *why])


# ---- The doctor ---------------------------------------------------------------------------------------------------


def examination() -> dict[str, Any]:
    """What a report of a problem needs to say, as JSON has it."""
    from asap import __version__

    problems: list[Problem] = []
    needed, extras = _requirements(problems)
    versions = {each.name: _version(each.name) for each in needed} | {"jaxlib": _version("jaxlib")}
    problems += [problem for requirement in needed for problem in _unmet(requirement)]
    limit, cache = low_address_space(), cache_state()
    if limit is not None:
        cure = f"ulimit -v unlimited, or at least {ADDRESS_SPACE // 1024}"
        problems.append(Problem(f"the limit on address space is too low for JAX: {limit:,} bytes", cure))
    if cache["in_use"] and cache["writable"] is False:
        cure = f"set {compile_cache.FOLDER} to another folder"
        problems.append(Problem(f"the compile cache is not writable: {cache['path']}", cure))
    if cache["private"] is False:
        cure = "chmod go-w it and the folders above it, or delete it: a new one is made"
        problems.append(Problem(f"the compile cache is not used, others may write to it: {cache['path']}", cure))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "asap": __version__,
        "python": platform.python_version(),
        "packages": versions,
        "extras": {name: _extra(name, members, problems) for name, members in extras.items()},
        "platform": {"system": platform.platform(), "cores": cores, "memory_bytes": _memory()},
        "jax": None if limit is not None else _ask_jax(problems),
        "cache": cache,
        "variables": sorted(name for name in os.environ if name in VARIABLES or name.startswith(FAMILIES)),
        "key": _key(problems),
        "problems": [problem._asdict() for problem in problems],
    }


def shortened(text: str) -> str:
    """Without the name of the user's home: reports are public."""
    home = os.path.expanduser("~")
    return text if home in ("~", "/") else re.sub(re.escape(home) + r"(?![\w.-])", "~", text)


def _memory() -> int | None:
    """Bytes of the machine, or of the container where it has fewer; None where the system does not say."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        return min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # No container, or one without a limit ("max").
        return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _requirements(problems: list[Problem]) -> tuple[list["Requirement"], dict[str, list["Requirement"]]]:
    """What the package needs, and what each of its extras needs, from its own metadata."""
    try:
        package = metadata.metadata(PACKAGE)
    except metadata.PackageNotFoundError:
        problems.append(Problem(f"{PACKAGE} is on the path but not installed", "run `pip install .` in its folder"))
        return [], {}
    extras = package.get_all("Provides-Extra") or []
    return _required(PACKAGE, ""), {extra: _added(PACKAGE, extra) for extra in extras}


def _required(package: str, extra: str) -> list["Requirement"]:
    """What a package needs on this machine; with an extra, what that adds as well."""
    from packaging.requirements import Requirement

    found = [Requirement(line) for line in metadata.requires(package) or []]
    return [each for each in found if each.marker is None or each.marker.evaluate({"extra": extra})]


def _added(package: str, extra: str) -> list["Requirement"]:
    return [each for each in _required(package, extra) if each.marker is not None]


def _unmet(requirement: "Requirement") -> list[Problem]:
    """What is missing or too old, of a package and of the extras that are wanted of it."""
    version = _version(requirement.name)
    cure = f"pip install '{requirement.name}{requirement.specifier}'"
    if version is None:
        return [Problem(f"{requirement.name} is missing", cure)]
    if not requirement.specifier.contains(version, prereleases=True):
        return [Problem(f"{requirement.name} {version} is not {requirement.specifier}", cure)]
    inner = [each for extra in requirement.extras for each in _added(requirement.name, extra)]
    return [problem for each in inner for problem in _unmet(each)]


def _extra(name: str, members: list["Requirement"], problems: list[Problem]) -> dict[str, Any]:
    """An extra that is not there is no problem; one that is too old is."""
    unmet = [problem for each in members for problem in _unmet(each)]
    problems += [problem for problem in unmet if not problem.what.endswith("is missing")]
    found = {each.name: version for each in members if (version := _version(each.name)) is not None}
    return {"found": found, "complete": not unmet, "install": f"pip install '{PACKAGE}[{name}]'"}


def _key(problems: list[Problem]) -> dict[str, Any]:
    """Whether files that are made here differ from a stranger's. The key itself is read and not shown."""
    path = trust.key_path()
    exists, usable = path is not None and os.path.lexists(path), trust.read_key() is not None
    if exists and not usable:
        cure = "chmod 600 it; if it is damaged, delete it: a new one is made"
        problems.append(Problem(f"the key is not private to you, or damaged: {shortened(str(path))}", cure))
    return {"path": None if path is None else shortened(str(path)), "exists": exists, "usable": usable}


def _ask_jax(problems: list[Problem]) -> dict[str, Any] | None:
    """The devices of JAX, asked in a process of its own."""
    ask = [sys.executable, "-P", "-c", ASK_JAX]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, errors="replace", timeout=PATIENCE)
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        why = f"no answer in {PATIENCE} s"
    except (IndexError, ValueError):
        said = done.stderr.strip().splitlines()
        why = said[-1] if said else f"exit code {done.returncode}"
        if done.returncode < 0:
            why = f"ended by {signal.Signals(-done.returncode).name}: {why}"
    cure = "pip install --upgrade --force-reinstall jax jaxlib"
    problems.append(Problem(f"JAX does not start: {shortened(why)[:200]}", cure))
    return None


def _report_in_words(report: dict[str, Any]) -> str:
    packages = [f"{name} {version or 'MISSING'}" for name, version in report["packages"].items()]
    jax, key, size = report["jax"], report["key"], report["platform"]["memory_bytes"]
    state = "private" if key["usable"] else "not usable" if key["exists"] else "none yet: made on first use"
    memory = "unknown" if size is None else f"{size / 2**30:.1f} GiB"
    devices = "not usable"
    if jax is not None:
        counts = ", ".join(f"{count} x {each}" for each, count in Counter(jax["devices"]).items())
        devices = f"{counts}; x64 {'on' if jax['x64'] else 'off'}"
    rows = [
        ("asap", f"{report['asap']}, Python {report['python']}"),
        ("packages", ", ".join(packages) or "unknown"),
        *(("extra", _extra_in_words(*extra)) for extra in report["extras"].items()),
        ("platform", report["platform"]["system"]),
        ("machine", f"{report['platform']['cores']} usable cores, {memory} of memory"),
        ("JAX", devices),
        ("cache", _cache_in_a_line(report["cache"])),
        ("variables", ", ".join(report["variables"]) or "none"),
        ("key", "no place for one" if key["path"] is None else f"{key['path']} ({state})"),
        *(("problem", f"{problem['what']}; {problem['cure']}") for problem in report["problems"]),
        *([] if report["problems"] else [("problems", "none found")]),
    ]
    lines = [textwrap.wrap(text, 100, initial_indent=f"{name:<11}", subsequent_indent=" " * 11) for name, text in rows]
    return "\n".join(line for each in lines for line in each)


def _extra_in_words(name: str, state: dict[str, Any]) -> str:
    found = ", ".join(f"{package} {version}" for package, version in state["found"].items())
    if state["complete"]:
        return f"{name}: {found}"
    return f"{name}: {f'incomplete ({found})' if found else 'missing'}; {state['install']}"
