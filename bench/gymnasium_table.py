"""ASAP beside PPO of stable-baselines3 on Gymnasium's classic control, for the same number of steps, in one table.

    .venv/bin/python bench/gymnasium.py --seeds 10

Each training has its own process; the two systems take turns, seed by seed. `return` is the mean over 100 episodes from
fresh seeds, every action the most probable one. Seconds are those of learning alone: programs and libraries are loaded,
ASAP's compiling counts. stable-baselines3 lives in an environment of its own, which is made when it is not there.
Finished trainings are kept in the folder of results and not run again; remove the folder after a change of the library.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from gymnasium_contests import CONTESTS
from gymnasium_speed import play_speed

from asap.base.stats import bootstrap_interval, iqm

HERE = Path(__file__).parent
EPISODES = 100
HEARTBEAT_SECONDS = 30
PACKAGES = ("torch==2.13.0", "stable-baselines3")  # Of the rival's environment, installed one after the other.


class Training(NamedTuple):
    """One system on one environment with one seed; the same training has the same key."""

    env: str
    system: str  # "asap" or "sb3".
    seed: int
    steps: int
    settings: dict[str, Any]

    @property
    def key(self) -> tuple[str, str, int, str]:
        said = json.dumps([self.steps, EPISODES, self.settings], sort_keys=True)
        return self.env, self.system, self.seed, hashlib.sha256(said.encode()).hexdigest()[:16]

    @property
    def job(self) -> str:
        job = {"env": self.env, "seed": self.seed, "steps": self.steps, "episodes": EPISODES, "settings": self.settings}
        return json.dumps(job)


def main() -> None:
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that a training under way ends with the bench.
    systems = [system for system in ("sb3", "asap") if system != options.left_out]
    pythons = {"asap": Path(sys.executable)}
    if "sb3" in systems:
        pythons["sb3"] = rival_python(options.rival_env)
    results = Results(options.out / "gymnasium.jsonl")
    trainings = list(planned(options.only or list(CONTESTS), systems, options.seed, options.seeds, options.steps))
    for number, training in enumerate(trainings, 1):
        if training.key not in results.kept:
            tell(f"{number}/{len(trainings)} {training.env} {training.system} seed {training.seed}: started")
            results.keep(training, run(training, pythons[training.system]))
        report = results.kept[training.key]
        tell(
            f"{number}/{len(trainings)} {training.env} {training.system} seed {training.seed}: "
            f"return {report['return']:.1f}, {report['steps']:,} steps in {report['seconds']:.1f} s"
        )
    rows = [row(name, trainings, results.kept) for name in dict.fromkeys(training.env for training in trainings)]
    speed = {} if options.left_out == "asap" else play_speed(tell)
    print("\n".join([*table(rows), *(f"playing steps/s, {name}: {value:.3g}" for name, value in speed.items())]))
    if options.json:
        options.json.write_text(json.dumps({"environments": rows, "playing": speed}, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", action="append", choices=CONTESTS, metavar="ENV", help="this environment; may be repeated"
    )
    parser.add_argument("--seeds", type=positive, default=10, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="FIRST", help="the first of the seeds")
    parser.add_argument(
        "--steps", type=positive, metavar="N", help="instead of each environment's budget, to try things out"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers behind the table here")
    parser.add_argument("--out", type=Path, default=Path("bench-results"), metavar="DIR", help="finished trainings")
    parser.add_argument("--rival-env", type=Path, default=Path(".venv-sb3"), metavar="DIR", help="of stable-baselines3")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--skip-rival", dest="left_out", action="store_const", const="sb3")
    which.add_argument("--rival-only", dest="left_out", action="store_const", const="asap")
    return parser.parse_args()


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be an integer >= 1 (got {text!r})")
    return int(text)


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# ---- Trainings ----------------------------------------------------------------------------------------------------


def planned(names: list[str], systems: list[str], first: int, seeds: int, steps: int | None) -> Iterator[Training]:
    """Seed by seed, the systems in turns: what slows the machine down for a while slows both."""
    for name in names:
        contest = CONTESTS[name]
        for seed in range(first, first + seeds):
            for system in systems:
                yield Training(name, system, seed, steps or contest.steps, getattr(contest, system))


def run(training: Training, python: Path) -> dict[str, Any]:
    """In a process of its own, which times itself."""
    script = HERE / f"gymnasium_{training.system}.py"
    # Compiling counts: what an earlier process left in JAX's cache is not used.
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    process = subprocess.Popen([python, script, training.job], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        printed = wait(process)
    finally:
        process.kill()
    if process.returncode:
        sys.exit(f"bench: {script.name} failed with status {process.returncode} on {training.job}")
    return json.loads(printed.splitlines()[-1])


def wait(process: subprocess.Popen) -> str:
    seconds = 0
    while True:
        try:
            return process.communicate(timeout=HEARTBEAT_SECONDS)[0]
        except subprocess.TimeoutExpired:
            seconds += HEARTBEAT_SECONDS
            tell(f"  ... {seconds} s")


class Results:
    """Finished trainings by key, kept in a file of a JSON object per line."""

    def __init__(self, path: Path):
        self.path = path
        self.kept: dict[tuple[str, str, int, str], dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        whole, _, torn = path.read_text().rpartition("\n")
        if torn:  # A line that was being written when the machine stopped.
            path.write_text(f"{whole}\n" if whole else "")
        for line in whole.splitlines():
            kept = json.loads(line)
            self.kept[tuple(kept["key"])] = kept["report"]

    def keep(self, training: Training, report: dict[str, Any]) -> None:
        self.kept[training.key] = report
        with self.path.open("a") as file:
            file.write(json.dumps({"key": training.key, "report": report, "settings": training.settings}) + "\n")


def rival_python(folder: Path) -> Path:
    """The interpreter that has stable-baselines3; its environment is made if need be."""
    python = folder / "bin" / "python"
    has_rival = [python, "-c", f"from importlib.metadata import version; version({PACKAGES[-1]!r})"]
    if not python.exists() or subprocess.run(has_rival, stderr=subprocess.DEVNULL).returncode:
        tell(f"making {folder} with {', '.join(PACKAGES)} (some minutes)")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        for package in PACKAGES:
            subprocess.run([python, "-m", "pip", "install", "--quiet", package], check=True, stdout=sys.stderr)
    return python


# ---- The table ----------------------------------------------------------------------------------------------------


def row(name: str, trainings: list[Training], kept: dict[tuple, dict[str, Any]]) -> dict[str, Any]:
    """What one environment's trainings come to."""
    of_env = [training for training in trainings if training.env == name]
    reports = {
        system: [kept[training.key] for training in of_env if training.system == system]
        for system in dict.fromkeys(training.system for training in of_env)
    }
    numbers: dict[str, Any] = {"env": name, "threshold": CONTESTS[name].threshold}
    numbers |= {system: summary(of_system, CONTESTS[name].threshold) for system, of_system in reports.items()}
    if len(reports) == 2:
        for measure, of_what in (("seconds", "speed_ratio"), ("busy_seconds", "core_speed_ratio")):
            pairs = zip(reports["asap"], reports["sb3"], strict=True)
            numbers[of_what] = median(
                ours["steps"] / ours[measure] * sb3[measure] / sb3["steps"] for ours, sb3 in pairs
            )
    return numbers


def summary(reports: list[dict[str, Any]], threshold: float) -> dict[str, Any]:
    returns = [report["return"] for report in reports]
    return {
        "returns": returns,
        "iqm": iqm(returns),
        "interval": bootstrap_interval(returns),
        "reached": sum(value >= threshold for value in returns),
        "seeds": len(returns),
        "steps": median(report["steps"] for report in reports),
        "seconds": median(report["seconds"] for report in reports),
        "steps_per_second": median(report["steps"] / report["seconds"] for report in reports),
        "actor_parameters": reports[0]["actor_parameters"],
        "parameters": reports[0]["parameters"],
        "versions": reports[0]["versions"],
    }


HEAD = (
    "environment",
    "system",
    "return: IQM [95 %]",
    "reached",
    "steps",
    "s",
    "steps/s",
    "parameters",
    "return of each seed",
)


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Markdown. Steps, s and steps/s are medians over the seeds; parameters: those of the actor / all that are
    learned."""
    yield f"| {' | '.join(HEAD)} |"
    yield "|" + "---|" * len(HEAD)
    for numbers in rows:
        for system in ("asap", "sb3"):
            if system in numbers:
                yield f"| {' | '.join(cells(numbers['env'], system, numbers[system], numbers['threshold']))} |"
    yield ""
    for numbers in rows:
        if "speed_ratio" in numbers:
            yield (
                f"{numbers['env']}: training steps/s, stable-baselines3 = 1: {numbers['speed_ratio']:.3g} by the clock, "
                f"{numbers['core_speed_ratio']:.3g} by processor time (medians over the turns)"
            )


def cells(name: str, system: str, numbers: dict[str, Any], threshold: float) -> tuple[str, ...]:
    low, high = numbers["interval"]
    return (
        name,
        system,
        f"{numbers['iqm']:.1f} [{low:.1f}, {high:.1f}]",
        f"{numbers['reached']}/{numbers['seeds']} >= {threshold:g}",
        f"{numbers['steps']:,.0f}",
        f"{numbers['seconds']:.1f}",
        f"{numbers['steps_per_second']:,.0f}",
        f"{numbers['actor_parameters']:,} / {numbers['parameters']:,}",
        ", ".join(f"{value:.1f}" for value in numbers["returns"]),
    )
