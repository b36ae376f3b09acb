"""Tries damaged inputs of every kind: files, settings, rules, command lines, messages, answers of environments.

.venv/bin/python bench/fuzz.py --seconds 300
.venv/bin/python bench/fuzz.py --only model --only data --seed 7 --json

The promise is "one line or right": an input is refused in one line, or taken for exactly what it says. Never a traceback,
an internal error, a hang, a wrong read, or a file touched outside of its folder. What breaks the promise is made smaller
and written to tests/data/fuzz, with a first line that says what happened; tests/test_fuzz_corpus.py tries these files again.

Each target runs in a process of its own, so that a crash or a hang that no signal ends is a finding too.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fuzz_commands
import fuzz_data
import fuzz_environments
import fuzz_rules
import fuzz_saved
import fuzz_settings
import fuzz_workers
from fuzz_mutations import changed_bytes
from fuzz_watch import Outcome, Target, at_home, tried

CORPUS = Path(__file__).parents[1] / "tests" / "data" / "fuzz"
MODULES = (fuzz_saved, fuzz_settings, fuzz_commands, fuzz_data, fuzz_workers, fuzz_environments, fuzz_rules)
TARGETS = {target.name: target for module in MODULES for target in module.TARGETS}
ADDRESS_SPACE = 6 << 30  # Bytes beyond what a target needs to start.
SILENT = 90.0  # Seconds without a word after which a process counts as hanging.
EVERY = 10.0  # Seconds between lines of progress.
MEMORY = "/dev/shm"  # A folder in memory, where there is one: thousands of files a second.
LAST = "last"  # Holds the input that is being tried, for the case that the process dies of it.


class Recipe(NamedTuple):
    """How an input was made: from which seed, by which changes; each change is a seed of its own."""

    choice: int
    changes: tuple[int, ...]


class Fuzzer:
    """One target with its seeds and a folder for its files."""

    def __init__(self, target: Target, folder: Path):
        self.target, self.folder = target, folder
        with at_home(str(folder)):
            self.seeds = target.seeds(folder)

    def fresh(self, rng: random.Random) -> Recipe:
        changes = (rng.getrandbits(48) for _ in range(rng.choice([1, 1, 1, 2, 3, 5])))
        return Recipe(rng.randrange(len(self.seeds)), tuple(changes))

    def built(self, recipe: Recipe) -> bytes:
        """Parts are changed first, then the bytes."""
        value, raw = self.seeds[recipe.choice], []
        for change in recipe.changes:
            rng = random.Random(change)
            if rng.random() < self.target.raw:
                raw.append(rng)
            else:
                value = self.target.change(rng, value)
        data = self.target.encode(value)
        for rng in raw:
            data = changed_bytes(rng, data)
        return data

    def tried(self, data: bytes) -> Outcome:
        return tried(self.target, data, self.folder)

    def smaller(self, recipe: Recipe, found: Outcome) -> bytes:
        """An input that does the same with as few changes as can be left out one by one."""
        for change in recipe.changes:
            fewer = recipe._replace(changes=tuple(each for each in recipe.changes if each != change))
            if fewer.changes and self.tried(self.built(fewer)).where == found.where:
                recipe = fewer
        return self.built(recipe)


def corpus() -> list[Path]:
    return sorted(path for path in CORPUS.glob("*-*") if path.name.partition("-")[0] in TARGETS)


def read_case(path: Path) -> tuple[Target, bytes]:
    """The target and the input of a file in the corpus."""
    return TARGETS[path.name.partition("-")[0]], path.read_bytes().partition(b"\n")[2]


def keep(target: str, data: bytes, problem: str) -> Path:
    CORPUS.mkdir(parents=True, exist_ok=True)
    path = CORPUS / f"{target}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(problem[:300].encode("ascii", "backslashreplace").replace(b"\n", b" ") + b"\n" + data)
    return path


# ---- In the process of a target -------------------------------------------------------------------------------------


def fuzz_one(name: str, seed: int, seconds: float, folder: Path) -> None:
    """Tries inputs until the time is over; tells on stdout, in lines of JSON, what was found and how many there were."""
    fuzzer, rng = Fuzzer(TARGETS[name], folder / "files"), random.Random(f"{name} {seed}")
    limit = ADDRESS_SPACE + int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    ends, told, counts, known = time.monotonic() + seconds, 0.0, {"accepted": 0, "refused": 0, "found": 0}, set()
    while time.monotonic() < ends:
        recipe = fuzzer.fresh(rng)
        data = fuzzer.built(recipe)
        (folder / LAST).write_bytes(data)
        outcome = fuzzer.tried(data)
        counts["found" if outcome.problem else "accepted" if outcome.accepted else "refused"] += 1
        if outcome.problem and outcome.where not in known:
            known.add(outcome.where)
            path = keep(name, fuzzer.smaller(recipe, outcome), outcome.problem)
            tell({"finding": outcome.problem, "file": path.name, **counts})
        if time.monotonic() - told > 1:
            told = time.monotonic()
            tell(counts)
    tell(counts)


def tell(report: dict[str, Any]) -> None:
    print(json.dumps(report), flush=True)


# ---- In the driver --------------------------------------------------------------------------------------------------


class Tally:
    """What the processes of one target have told so far."""

    def __init__(self, name: str):
        self.name, self.findings = name, []
        self.before = {"accepted": 0, "refused": 0, "found": 0}
        self.now = dict(self.before)

    def take(self, report: dict[str, Any]) -> None:
        if "finding" in report:
            self.add(report["finding"], report["file"])
        self.now = {key: self.before[key] + report[key] for key in self.before}

    def add(self, problem: str, file: str) -> None:
        self.findings.append({"problem": problem, "file": file})
        print(f"{self.name}: found: {problem} ({file})", file=sys.stderr, flush=True)

    def as_dict(self) -> dict[str, Any]:
        inputs = sum(self.now.values())
        return {"target": self.name, "inputs": inputs, **self.now, "findings": self.findings}


def drive(name: str, seed: int, seconds: float, tally: Tally) -> None:
    """Runs a target for a while; a process that dies or falls silent is a finding, and another one takes over."""
    ends, attempt = time.monotonic() + seconds, 0
    while (left := ends - time.monotonic()) > 0:
        with tempfile.TemporaryDirectory(prefix="asap-fuzz-", dir=MEMORY if os.path.isdir(MEMORY) else None) as folder:
            Path(folder, "files").mkdir()
            ended = _watch_process(name, seed + 1000 * attempt, left, Path(folder), tally)
            if not ended:
                return
            last = Path(folder, LAST)
            data = last.read_bytes() if last.exists() else b""
            tally.now["found"] += 1
            tally.add(ended, keep(name, data, ended).name)
        tally.before, attempt = dict(tally.now), attempt + 1


def _watch_process(name: str, seed: int, seconds: float, folder: Path, tally: Tally) -> str:
    """How the process ended that should not have; empty where all went well."""
    words = ["--inside", str(folder), "--only", name, "--seed", str(seed), "--seconds", str(seconds)]
    compiled = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(folder / "compiled"))  # Not in a home that changes.
    environment = os.environ | {
        "MPLCONFIGDIR": str(folder / "matplotlib"),
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": compiled,
    }
    with open(folder / "errors", "w+", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, __file__, *words], stdout=subprocess.PIPE, stderr=errors, env=environment
        )
        try:
            for line in _lines(process, tally):
                tally.take(json.loads(line))
        except TimeoutError:
            return f"hangs for {SILENT:.0f} s, and no signal ends it"
        finally:
            process.kill()
            code = process.wait()
        errors.seek(0)
        if code != 0:
            return f"ends the process with {code}: {errors.read()[-300:]}"
    return ""


def _lines(process: subprocess.Popen, tally: Tally) -> Iterator[bytes]:
    shown = time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(SILENT):
                raise TimeoutError
            line = process.stdout.readline()
            if not line:
                process.wait()
                return
            yield line
            if time.monotonic() - shown > EVERY:
                shown = time.monotonic()
                counts = tally.as_dict()
                print(
                    f"{tally.name}: {counts['inputs']:,} inputs, {counts['found']} findings",
                    file=sys.stderr,
                    flush=True,
                )


def main() -> None:
    arguments = parsed()
    names = arguments.only or list(TARGETS)
    if arguments.inside is not None:
        return fuzz_one(names[0], arguments.seed, arguments.seconds, Path(arguments.inside))
    tallies = [Tally(name) for name in names]
    try:
        for tally in tallies:
            drive(tally.name, arguments.seed, arguments.seconds / len(names), tally)
    except KeyboardInterrupt:
        print("note: stopped", file=sys.stderr)
    print_table(tallies)
    if arguments.json:
        print(json.dumps({"seed": arguments.seed, "targets": [tally.as_dict() for tally in tallies]}))
    sys.exit(1 if any(tally.findings for tally in tallies) else 0)


def print_table(tallies: list[Tally]) -> None:
    print(f"{'target':<14}{'inputs':>12}{'accepted':>12}{'refused':>12}{'findings':>12}")
    for counts in (tally.as_dict() for tally in tallies):
        row = "".join(f"{counts[key]:>12,}" for key in ("inputs", "accepted", "refused"))
        print(f"{counts['target']:<14}{row}{len(counts['findings']):>12,}")
        for finding in counts["findings"]:
            print(f"  tests/data/fuzz/{finding['file']}: {finding['problem'][:160]}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="for all targets together; default: 300")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn; default: 0")
    parser.add_argument("--only", action="append", choices=TARGETS, help="just this target; may be given again")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
