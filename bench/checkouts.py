"""This checkout beside an earlier commit: where both are, and how a Python program is run with the package of
either."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parents[1]
NOT_INHERITED = ("PYTHONPATH",)
NO_CACHE = {"JAX_ENABLE_COMPILATION_CACHE": "false"}  # Code that one side compiled must not be what the other runs.
LONGEST = 900  # Seconds for one program.


class Failed(Exception):
    """A program that did not end well, with the last line it wrote on stderr."""


class Checkouts(NamedTuple):
    commit: str
    sides: dict[str, Path]  # The commit's checkout, then this one, by the names to print.
    work: Path  # An empty folder for runs, at the same path for both.

    def run(self, root: Path, program: list[str]) -> str:
        """Runs `python PROGRAM` with the package of one side in the work folder; returns its stdout."""
        kept = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        environment = {**kept, **NO_CACHE, "PYTHONPATH": str(root / "src")}
        command = [sys.executable, *program]
        try:
            done = subprocess.run(
                command, cwd=self.work, env=environment, capture_output=True, text=True, timeout=LONGEST
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {LONGEST} s") from None
        if done.returncode != 0:
            raise Failed((done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1])
        return done.stdout

    def clear_work(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()


@contextlib.contextmanager
def checkouts(revision: str) -> Iterator[Checkouts]:
    """A temporary worktree of `revision` beside this checkout; it goes away however the block ends."""
    commit = resolve(revision)
    # The space is on purpose: paths with one must work.
    folder = Path(tempfile.mkdtemp(prefix="asap checkouts "))
    there, work = folder / commit[:12], folder / "work"
    terminate = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        git("worktree", "add", "--quiet", "--detach", str(there), commit)
        work.mkdir()
        found = Checkouts(commit, {revision: there, "this checkout": HERE}, work)
        for root in found.sides.values():
            require_own_package(found, root)
        yield found
    finally:
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        with contextlib.suppress(subprocess.CalledProcessError):
            git("worktree", "remove", "--force", str(there))
        shutil.rmtree(folder, ignore_errors=True)
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, terminate)


def require_own_package(found: Checkouts, root: Path) -> None:
    """An installed package must not come in between: both sides would run the same code."""
    package = Path(found.run(root, ["-c", "import asap; print(asap.__file__)"]).strip())
    if not package.is_relative_to(root):
        sys.exit(f"error: package: Python imports it from elsewhere: {package}; leave out what puts it first")


def resolve(revision: str) -> str:
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
    except subprocess.CalledProcessError:
        sys.exit(f"error: commit: not found: {revision}; give one that `git log` shows")


def git(*arguments: str) -> str:
    command = ["git", "-C", str(HERE), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
