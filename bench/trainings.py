"""What the measurements have in common that run one training after another, each in a process of its own: processes,
the file of what is finished, and the environment of the rivals."""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HEARTBEAT_SECONDS = 30
PATIENCE_SECONDS = 60  # For a training that is asked to stop: it saves first.
TORCH = "torch==2.13.0"  # Installed first: what comes after takes it as it is.
# Compiling counts: what an earlier process left in JAX's cache is not used.
NO_CACHE = {"JAX_ENABLE_COMPILATION_CACHE": "false"}

Key = tuple[Any, ...]


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be an integer >= 1 (got {text!r})")
    return int(text)


class Failed(SystemExit):
    """A process that did not end well; uncaught, it ends the measurement with one line."""


class Processes:
    """Scripts of this folder that are running, each of which gets a job as JSON and prints a report as its last line."""

    def __init__(self):
        self._running: set[subprocess.Popen] = set()
        self._is_over = False

    @contextlib.contextmanager
    def ended_with_this(self) -> Iterator[None]:
        """However the block ends, so do they. SIGTERM ends it, too."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            yield
        finally:
            self.end()

    def end(self) -> None:
        self._is_over = True
        for process in (running := list(self._running)):
            process.terminate()
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_SECONDS)
            process.kill()

    def run(self, python: Path, script: str, job: Any, name: str = "", core: int | None = None) -> dict[str, Any]:
        """The report of one job; on a core of its own, if there is one for it."""
        if self._is_over:
            raise SystemExit(1)
        process = subprocess.Popen(
            [python, HERE / script, json.dumps(job)],
            env=os.environ | NO_CACHE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if core is not None:
            os.sched_setaffinity(process.pid, {core})  # Before it has threads, which keep to it.
        self._running.add(process)
        try:
            printed = self._wait(process, name)
        finally:
            if not self._is_over:  # Else it is being asked to stop.
                process.kill()
            self._running.discard(process)
        if process.returncode:
            raise Failed(f"bench: {script} failed with status {process.returncode} on {json.dumps(job)}")
        return json.loads(printed.splitlines()[-1])

    def _wait(self, process: subprocess.Popen, name: str) -> str:
        began = time.monotonic()
        while True:
            try:
                return process.communicate(timeout=HEARTBEAT_SECONDS)[0]
            except subprocess.TimeoutExpired:
                tell(f"  ... {name} {time.monotonic() - began:.0f} s".replace("  ", " "))


class Finished:
    """Reports of finished trainings by key, kept in a file of a JSON object per line."""

    def __init__(self, path: Path):
        self.path, self._lock = path, threading.Lock()
        self.kept: dict[Key, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        whole, _, torn = path.read_text().rpartition("\n")
        if torn:  # A line that was being written when the machine stopped.
            path.write_text(f"{whole}\n" if whole else "")
        for line in whole.splitlines():
            kept = json.loads(line)
            self.kept[tuple(kept["key"])] = kept["report"]

    def keep(self, key: Key, report: dict[str, Any], settings: Any) -> None:
        with self._lock, self.path.open("a") as file:
            self.kept[key] = report
            file.write(json.dumps({"key": key, "report": report, "settings": settings}) + "\n")


def rival_python(folder: Path, packages: Sequence[str]) -> Path:
    """The interpreter of the rivals' own environment, which gets what it lacks of these packages."""
    python = folder / "bin" / "python"
    names = [package.partition("=")[0].partition("[")[0] for package in packages]
    has_all = f"from importlib.metadata import version; [version(name) for name in {names!r}]"
    if not python.exists() or subprocess.run([python, "-c", has_all], stderr=subprocess.DEVNULL).returncode:
        tell(f"making {folder} with {', '.join(packages)} (some minutes)")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        for package in packages:
            subprocess.run([python, "-m", "pip", "install", "--quiet", package], check=True, stdout=sys.stderr)
    return python
