"""Stops training runs by SIGTERM and SIGINT at random moments: how long they take to end, with which exit code, and
whether the resumed run gives the same bits as one that was never stopped.

.venv/bin/python bench/stops.py --stops 40

Environments: `normal`, `slow` (0.05 s per step), `hanging` (a step that does not return, until it is resumed). Phases:
the search for a start, compiling, training, and the evaluation at the end, each found by what the environment is asked
to play. Players: this process, one worker and two.
"""

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ENVIRONMENTS, PHASES, WORKERS = (
    ("normal", "slow", "hanging"),
    ("search", "compiling", "training", "evaluation"),
    (0, 1, 2),
)
SIGNALS = (signal.SIGTERM, signal.SIGINT)
LONGEST = 6.0  # Seconds from the signal to the end.
MOST = 120.0  # Seconds for a phase to come.
# Few and short episodes: the slow environment is played to its end, too.
SETTINGS = {
    "run.candidates": 16,
    "run.search_share": 0.3,
    "run.eval_episodes": 2,
    "run.final_episodes": 16,
    "learn.batch_steps": 64,
    "learn.critic_features": 8,
    "env.step_timeout": 60,
}
STEPS = 640
# Variables tell each environment how it is to behave; a file has the reset seeds that it was given, which are phases.
MODULE = '''
import os, time
import gymnasium
import numpy as np

FOLDER, PAUSE, HANGS = os.environ["STOPS_FOLDER"], float(os.environ["STOPS_PAUSE"]), os.environ["STOPS_HANG"]

class Walk(gymnasium.Env):
    """A walk of at most 12 steps in which everything comes from the seed."""
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        with open(os.path.join(FOLDER, "resets"), "a") as file:
            file.write(f"{seed}\\n")
        self.seed, self.x, self.time = seed, self.np_random.normal(size=2), 0
        return self.x.astype(np.float32), {}

    def step(self, action):
        time.sleep(PAUSE)
        if str(self.seed) == HANGS:
            open(os.path.join(FOLDER, "hangs"), "w").close()
            time.sleep(1000)
        self.x = 0.8 * self.x + self.np_random.normal(size=2) + 0.3 * (2 * action - 1)
        self.time += 1
        return self.x.astype(np.float32), float(self.x[0]), self.time >= 12, False, {}

def make():
    return Walk()
'''


class Case(NamedTuple):
    environment: str
    phase: str
    workers: int
    number: signal.Signals
    wait: float  # Seconds after the phase has begun.


class Stop(NamedTuple):
    """What became of one."""

    case: Case
    seconds: float  # From the signal to the end.
    code: int
    resumes: bool
    identical: bool

    @property
    def is_good(self) -> bool:
        return self.seconds <= LONGEST and self.code == 128 + self.case.number and self.resumes and self.identical


class Whole(NamedTuple):
    """The run that was never stopped: its result, and the reset seeds of each phase."""

    report: dict
    search: list[str]
    batch: list[str]  # The first one that is learned from: when it has been played, the update is compiled.
    training: list[str]  # What comes later.
    evaluation: list[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stops", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0, help="of the moments and of the training")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        stops = list(stop_all(Path(folder), cases(arguments.stops, arguments.seed), arguments.seed))
    good = all(stop.is_good for stop in stops)
    if arguments.json:
        rows = [{**stop.case._asdict(), **dict(zip(Stop._fields[1:], stop[1:]))} for stop in stops]
        print(json.dumps({"stops": rows, "good": good, "seconds": round(time.monotonic() - began, 1)}))
    else:
        print("\n".join([table(stops), f"{time.monotonic() - began:.0f} s"]))
    sys.exit(0 if good else 1)


def cases(count: int, seed: int) -> list[Case]:
    """All kinds in an order by chance; again from the first when there are more stops than kinds."""
    chance = random.Random(seed)
    kinds = list(itertools.product(ENVIRONMENTS, PHASES, WORKERS))
    chance.shuffle(kinds)
    chosen = list(itertools.islice(itertools.cycle(kinds), count))
    return [Case(*kind, SIGNALS[i % 2], chance.uniform(0.0, 0.5)) for i, kind in enumerate(chosen)]


def stop_all(folder: Path, chosen: list[Case], seed: int):
    (folder / "stops_env.py").write_text(MODULE, encoding="utf-8")
    whole = undisturbed(folder / "whole", seed)
    for index, case in enumerate(chosen):
        yield stopped(folder / f"stop-{index}", case, seed, whole)


def undisturbed(folder: Path, seed: int) -> Whole:
    report = finish(command(folder, seed, 0), folder)
    events = [json.loads(line) for line in (folder / "run" / "events.jsonl").read_text().splitlines()]
    searched, learned = ([event["episodes"][0] for event in events if event.get("update") == n][0] for n in (0, 1))
    seeds, looked, last = resets(folder), SETTINGS["run.eval_episodes"], SETTINGS["run.final_episodes"]
    began, compiled = searched + looked, learned + looked
    return Whole(report, seeds[:searched], seeds[began:compiled], seeds[compiled:-last], seeds[-last:])


def seed_of(case: Case, whole: Whole) -> str:
    """Of the episode with which its phase has begun."""
    last = {"search": whole.search[1], "compiling": whole.batch[-1], "evaluation": whole.evaluation[1]}
    return last.get(case.phase, whole.training[len(whole.training) // 2])


def stopped(folder: Path, case: Case, seed: int, whole: Whole) -> Stop:
    """One run, stopped in its phase, then resumed to its end by an environment that behaves."""
    folder.mkdir()
    with subprocess.Popen(
        command(folder, seed, case.workers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=surroundings(folder, case, whole),
        cwd=folder,
    ) as process:
        wait_for_phase(folder, case, whole, process)
        time.sleep(case.wait)
        sent = time.monotonic()
        process.send_signal(case.number)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
        seconds = time.monotonic() - sent
    try:
        report = finish([sys.executable, "-m", "asap", "train", "--resume", str(folder / "run")], folder)
    except subprocess.CalledProcessError:
        return Stop(case, seconds, process.returncode, False, False)
    same = all(report[key] == whole.report[key] for key in ("parameters_sha256", "return", "episodes"))
    return Stop(case, seconds, process.returncode, True, same)


def wait_for_phase(folder: Path, case: Case, whole: Whole, process: subprocess.Popen) -> None:
    first, deadline = seed_of(case, whole), time.monotonic() + MOST
    while process.poll() is None and time.monotonic() < deadline:
        if case.environment == "hanging" and (folder / "hangs").exists():
            return
        if case.environment != "hanging" and first in resets(folder):
            return
        time.sleep(0.01)


def surroundings(folder: Path, case: Case | None = None, whole: Whole | None = None) -> dict[str, str]:
    hangs, pause = "", 0.0
    if case is not None and whole is not None:
        pause = {"normal": 0.002, "slow": 0.05, "hanging": 0.0}[case.environment]
        hangs = seed_of(case, whole) if case.environment == "hanging" else ""
    path = os.pathsep.join([str(folder.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    told = {"STOPS_FOLDER": str(folder), "STOPS_PAUSE": str(pause), "STOPS_HANG": hangs}
    return {**os.environ, "PYTHONPATH": path, **told}


def command(folder: Path, seed: int, workers: int) -> list[str]:
    settings = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
    train = [sys.executable, "-m", "asap", "train", "stops_env:make", "--steps", str(STEPS), "-k", "1"]
    return [*train, "--seed", str(seed), *settings, "--workers", str(workers), "--out", str(folder / "run"), "--json"]


def finish(line: list[str], folder: Path) -> dict:
    folder.mkdir(exist_ok=True)
    line = line if "--json" in line else [*line, "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    # What was compiled once need not be compiled by every resumed run; those that are stopped compile for themselves.
    told = {**surroundings(folder), "JAX_COMPILATION_CACHE_DIR": str(folder.parent / "compiled")}
    done = subprocess.run(line, **pipes, text=True, check=True, timeout=600, env=told, cwd=folder)
    return json.loads(done.stdout.splitlines()[-1])


def resets(folder: Path) -> list[str]:
    path = folder / "resets"
    return path.read_text().split() if path.exists() else []


def table(stops: list[Stop]) -> str:
    rows = [
        f"{'environment':<12}{'phase':<12}{'workers':>7}  {'signal':<8}{'seconds':>8}  {'code':>4}  {'resumes':<8}same bits"
    ]
    for stop in stops:
        case = stop.case
        rows.append(
            f"{case.environment:<12}{case.phase:<12}{case.workers:>7}  {case.number.name:<8}{stop.seconds:>8.2f}  "
            f"{stop.code:>4}  {'yes' if stop.resumes else 'NO':<8}{'yes' if stop.identical else 'NO'}"
        )
    slowest = max(stop.seconds for stop in stops)
    return "\n".join([*rows, f"{sum(stop.is_good for stop in stops)} of {len(stops)} good; slowest {slowest:.2f} s"])


if __name__ == "__main__":
    main()
