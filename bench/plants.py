"""Plants realistic bugs one by one in a copy of the library, and counts how many of them the tests catch.

    .venv/bin/python bench/plants.py --likely        # the likeliest test files only: half a minute per bug
    .venv/bin/python bench/plants.py                 # then all others, for the bugs that are left
    .venv/bin/python bench/plants.py --only ID,ID    # these anew

The bugs stand in `planted_bugs.py`. The likeliest files are those named there, and some that import the changed module.
What is left is planted all together, and the other files are run once; each test that fails is then tried with each bug
alone. In the end, all tests that caught a bug are run without any, and must pass. Finished bugs are kept in
bench-results/plants.jsonl, so that a stopped run goes on: the last line of a bug counts.
"""

import argparse
import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as xml
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from planted_bugs import BUGS, Bug

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "bench-results"
# As in `make test`; and the test of the bugs themselves, which notices any that is planted.
LEFT_OUT = {"test_ray_network.py", "test_planted_bugs.py"}
MOST_LIKELY = 5  # Test files, besides those that are named.
TIMEOUT = "timeout"  # In place of a test: the bug made the tests hang.
UNKNOWN_SECONDS = 30.0  # Of a test file that has not been run here yet.
STARTING_SECONDS, PATIENCE = 120.0, 5.0  # Tests hang that take so many times as long as they took before.


running: set[subprocess.Popen] = set()
stopping = threading.Event()


class Tried(NamedTuple):
    """What became of a bug."""

    id: str
    caught: str | None  # The first test that failed, or TIMEOUT.
    seconds: float  # Until then.
    passed: list[str]  # Test files that did not notice.
    stale: bool = False

    @property
    def verdict(self) -> str:
        return "stale: its old text no longer stands exactly once" if self.stale else self.caught or "not caught"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="ID,...", help="these bugs, anew")
    parser.add_argument("--lanes", type=int, default=1, choices=(1, 2), help="bugs tried side by side")
    parser.add_argument("--likely", action="store_true", help="the likeliest test files only")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    wanted = set(filter(None, arguments.only.split(",")))
    if unknown := wanted - {bug.id for bug in BUGS}:
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    RESULTS.mkdir(exist_ok=True)
    bugs = [bug for bug in BUGS if bug.id in wanted or not wanted]
    with Trial(arguments.lanes) as trial:
        found = trial.run(bugs, {} if wanted else recorded(), arguments.likely)
    report(found, arguments.json)


# ---- What is kept ---------------------------------------------------------------------------------------------------


def recorded() -> dict[str, Tried]:
    return {line["id"]: Tried(**line) for line in _lines(RESULTS / "plants.jsonl")}


def record(tried: Tried) -> Tried:
    with open(RESULTS / "plants.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(tried._asdict()) + "\n")
    print(f"{tried.id:<34}{tried.seconds:6.0f} s  {tried.verdict}", file=sys.stderr, flush=True)
    return tried


def times() -> dict[str, float]:
    """Seconds of each test file that passed, as last measured."""
    return {line["file"]: line["seconds"] for line in _lines(RESULTS / "plants-times.jsonl")}


def record_times(seconds_of_files: dict[str, float]) -> None:
    with open(RESULTS / "plants-times.jsonl", "a", encoding="utf-8") as file:
        for name, seconds in seconds_of_files.items():
            file.write(json.dumps({"file": name, "seconds": seconds}) + "\n")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):  # Half a line, of a run that was killed.
            yield json.loads(line)


# ---- Which tests ----------------------------------------------------------------------------------------------------


def test_files() -> list[str]:
    """The quickest first; where that is not known, the shortest."""
    known = times()
    paths = [path for path in (HERE / "tests").glob("test_*.py") if path.name not in LEFT_OUT]
    ordered = sorted(paths, key=lambda path: (known.get(path.name, UNKNOWN_SECONDS), path.stat().st_size))
    return [path.name for path in ordered]


def likely_files(bug: Bug) -> list[str]:
    """Those named first, then the quickest that import the changed module."""
    module = "asap." + bug.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, name = module.rpartition(".")
    imports = re.compile(rf"\b{re.escape(module)}\b|from {re.escape(package)} import [^\n]*\b{name}\b")
    importing = [file for file in test_files() if imports.search((HERE / "tests" / file).read_text(encoding="utf-8"))]
    return list(dict.fromkeys([*bug.first, *importing]))[: len(bug.first) + MOST_LIKELY]


# ---- Trying ---------------------------------------------------------------------------------------------------------


class Trial:
    """Copies of this checkout, one per lane, in which bugs are planted."""

    def __init__(self, lanes: int):
        self.lanes = lanes

    def __enter__(self) -> "Trial":
        self._folder = Path(tempfile.mkdtemp(prefix="asap-plants-"))
        self._free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for lane in range(self.lanes):
            self._free.put(copied(self._folder / f"lane-{lane}"))
        self._stale = {bug.id for bug in BUGS if is_stale(bug, self._folder / "lane-0")}
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, bugs: Sequence[Bug], before: dict[str, Tried], only_likely: bool) -> list[Tried]:
        """All of these bugs, in their order; what is known of them before is not tried again."""
        ahead = [bug for bug in bugs if bug.id not in before or before[bug.id].stale != (bug.id in self._stale)]
        with ThreadPoolExecutor(self.lanes) as pool:
            found = before | {tried.id: tried for tried in pool.map(self._try_likely, ahead)}
        left = [bug for bug in bugs if found[bug.id].caught is None and not found[bug.id].stale]
        if left and not only_likely:
            found |= self._try_together(left, found)
        results = [found[bug.id] for bug in bugs]
        self._require_that_tests_pass(sorted({tried.caught for tried in results if "::" in (tried.caught or "")}))
        return results

    def _require_that_tests_pass(self, tests: list[str]) -> None:
        """Those that caught a bug, without any."""
        with self._planted([]) as lane:
            failed = pytest(lane, tests, stops=False) if tests else []
        if failed:
            sys.exit(
                f"error: these fail without a bug, and so tell nothing: {', '.join(failed)}; use --only when mended"
            )

    def _try_likely(self, bug: Bug) -> Tried:
        return record(self._tried(bug, [f"tests/{file}" for file in likely_files(bug)]))

    def _tried(self, bug: Bug, tests: list[str]) -> Tried:
        """One bug alone, up to the first of these tests that fails."""
        if bug.id in self._stale:
            return Tried(bug.id, None, 0.0, [], stale=True)
        began = time.monotonic()
        with self._planted([bug]) as lane:
            failed = pytest(lane, tests, stops=True)
        passed = [] if failed else sorted({_file(test) for test in tests})
        return Tried(bug.id, failed[0] if failed else None, round(time.monotonic() - began, 1), passed)

    def _try_together(self, bugs: list[Bug], found: dict[str, Tried]) -> dict[str, Tried]:
        """All that is left in one copy, with the files that not all of them have passed."""
        files = [file for file in test_files() if any(file not in found[bug.id].passed for bug in bugs)]
        if not files:
            return {}
        with self._planted(bugs) as lane:
            suspects = pytest(lane, [f"tests/{file}" for file in files], stops=False)
        if suspects and TIMEOUT not in suspects:
            with self._planted([]) as lane:
                unrelated = pytest(lane, suspects, stops=False)
            print(f"fail without a bug, left out: {', '.join(unrelated) or 'none'}", file=sys.stderr)
            suspects = [test for test in suspects if test not in unrelated]
        alone = {}
        for bug in bugs:
            # Where all together made the tests hang, nothing is known of single tests.
            tests = [f"tests/{file}" for file in files] if TIMEOUT in suspects else suspects
            tried = self._tried(bug, tests) if tests else found[bug.id]
            passed = tried.passed if tried.caught else sorted({*found[bug.id].passed, *files})
            alone[bug.id] = record(tried._replace(passed=passed))
        return alone

    @contextlib.contextmanager
    def _planted(self, bugs: Sequence[Bug]) -> Iterator[Path]:
        """A lane with these bugs in it, which is as it was afterwards."""
        lane = self._free.get()
        originals: dict[Path, str] = {}
        try:
            for bug in bugs:
                path = lane / "src" / "asap" / bug.file
                text = path.read_text(encoding="utf-8")
                originals.setdefault(path, text)
                path.write_text(bug.planted(text), encoding="utf-8")
            yield lane
        finally:
            for path, text in originals.items():
                path.write_text(text, encoding="utf-8")
            self._free.put(lane)


def is_stale(bug: Bug, lane: Path) -> bool:
    path = lane / "src" / "asap" / bug.file
    return not path.exists() or bug.planted(path.read_text(encoding="utf-8")) is None


def stop(number: int, _: object) -> None:
    """What runs is in groups of its own, which no signal reaches."""
    stopping.set()
    for process in tuple(running):
        end(process)
    sys.exit(128 + number)


def end(process: subprocess.Popen) -> None:
    """With all that the tests have started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def copied(lane: Path) -> Path:
    """All files of this checkout that git knows or would take, without what was compiled from them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=HERE,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (HERE / name).is_file():
            (lane / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(HERE / name, lane / name)
    told = subprocess.run(
        [sys.executable, "-c", "import asap; print(asap.__file__)"],
        cwd=lane, env=environment(lane), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(told.stdout.strip()).is_relative_to(lane), f"the tests would import {told.stdout.strip()}"
    return lane


def environment(lane: Path) -> dict[str, str]:
    """The copy's package comes before the installed one. Nothing compiled is kept: it goes by times of files."""
    return {**os.environ, "PYTHONPATH": str(lane / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


def pytest(lane: Path, tests: list[str], stops: bool) -> list[str]:
    """The tests that fail in a lane, or the first of them if it `stops`."""
    if stopping.is_set():
        raise SystemExit
    told = lane / "plants-report.xml"
    told.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={told}", *tests]
    known = times()
    limit = sum(known.get(name, UNKNOWN_SECONDS) for name in {_file(test) for test in tests})
    process = subprocess.Popen(
        command + ["-x"] * stops,
        cwd=lane, env=environment(lane), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    running.add(process)
    try:
        process.wait(STARTING_SECONDS + PATIENCE * limit)
    except subprocess.TimeoutExpired:
        return [TIMEOUT]
    finally:
        running.discard(process)
        end(process)
        process.wait()
    if stopping.is_set():  # It was killed, and tells nothing.
        raise SystemExit
    if not told.exists():
        return [f"pytest ended with exit code {process.returncode}"]
    failed, seconds = _read(told)
    incomplete = {_file(test) for test in failed} | {_file(test) for test in tests if "::" in test}
    record_times({file: spent for file, spent in seconds.items() if file not in incomplete})
    return failed


def _file(test: str) -> str:
    """The file of a test, by its id."""
    return Path(test.partition("::")[0]).name


def _read(told: Path) -> tuple[list[str], dict[str, float]]:
    """What pytest's report says: the tests that failed, and the seconds of each file."""
    failed, seconds = [], {}
    for case in xml.parse(told).iter("testcase"):
        # `tests.test_x` and `test_y[z]`; of a file that can't be imported, nothing and `tests.test_x`.
        module, name = case.get("classname"), case.get("name")
        file = f"{(module or name).split('.')[1]}.py"
        seconds[file] = round(seconds.get(file, 0.0) + float(case.get("time", 0)), 2)
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"tests/{file}::{name}" if module else f"tests/{file}")
    return failed, seconds


# ---- Telling --------------------------------------------------------------------------------------------------------


def report(found: list[Tried], as_json: bool) -> None:
    planted = [tried for tried in found if not tried.stale]
    caught = sum(tried.caught is not None for tried in planted)
    numbers = {"planted": len(planted), "caught": caught, "stale": len(found) - len(planted)}
    if as_json:
        print(json.dumps({**numbers, "bugs": [tried._asdict() for tried in found]}))
        return
    suffers = {bug.id: bug.suffers for bug in BUGS}
    for tried in found:
        print(f"{tried.id:<34}{tried.seconds:6.0f} s  {tried.verdict}")
        if tried.caught is None:
            print(f"{'':<44}{suffers[tried.id]}")
    share = f" ({100 * caught / len(planted):.0f} %)" if planted else ""
    print(f"{caught} of {len(planted)} caught{share}; {numbers['stale']} stale")


if __name__ == "__main__":
    main()
