"""How fast the library trains on two-rooms, beside a plain C program of the same loop (rooms_loop.c).

Machines differ and are noisy, so the numbers to compare are ratios: C and library take turns, every turn of the library
is divided by the turn of C just before it, and the median over the rounds is reported. C runs on one thread; the
library runs as it always does. `ratio` is by the clock on the wall; `core_ratio` is by the processor time of all
threads, so it neither credits a second core nor suffers from other programs that take one away. C sums whole returns
times scores, as Algorithm 1 does; `reinforce` also compares rewards to go at each step, and adds entropy and softening.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import jax
import numpy as np

from asap.compose import compose
from asap.envs import catalog
from asap.experience.compiled import Compiled
from asap.learn.loop import Loop
from asap.model.training import blank_start
from asap.runs.events import InMemory

TASK = "two-rooms"
SOURCE = Path(__file__).with_name("rooms_loop.c")
LANES, UPDATES = 4096, 2  # Episodes side by side; updates per turn.
SEEDS_ALONE, SEEDS_TOGETHER = 3, 20
POLL_SECONDS = 0.005
# The policy stays near its start, as in C: episodes keep their length, and every turn does the same work.
STANDING_STILL = {
    "learn.step_size_theta": 1e-6,
    "learn.step_size_beta": 1e-6,
    "learn.convergence_tolerance": 0,
    "run.episodes": 1000000000,
    "run.chunk": UPDATES,
}
LOOPS = {
    "reinforce_sampled": {"learn.learner": "reinforce", "learn.gradient": "sampled", "learn.batch_episodes": LANES},
    "reinforce_marginal": {"learn.learner": "reinforce", "learn.gradient": "marginal", "learn.batch_episodes": LANES},
    "ppo": {"learn.learner": "ppo"},
}
MEANINGS = {
    "c_ns_per_step": "C: nanoseconds per step of training",
    "c_mean_length": "C: steps per episode",
    "reinforce_mean_length": "reinforce: steps per episode; the same as in C but for chance",
    **{f"{name}_ratio": f"{name}: steps per second, C = 1" for name in LOOPS},
    **{f"{name}_steps_per_second": f"{name}: training steps per second" for name in LOOPS},
    **{f"{name}_core_ratio": f"{name}: steps per second of processor time, C = 1" for name in LOOPS},
    "near_optimal_seconds": "one seed, default settings: from process start to the first near-optimal evaluation",
    "near_optimal_compile_seconds": "  of which was compiling",
    "near_optimal_process_seconds": "  the whole process, to the end of its budget",
    "near_optimal_reached": f"  processes that got there, of {SEEDS_ALONE} (seeds 0, 1, ...; the seconds are medians)",
    "twenty_seeds_seconds": f"{SEEDS_TOGETHER} seeds side by side, default settings, whole process",
    "twenty_seeds_compile_seconds": "  of which was compiling",
    "twenty_seeds_near_optimal": "  seeds that ended near-optimal",
}


class Turn(NamedTuple):
    """One timed stretch of training."""

    steps: int
    episodes: int
    seconds: float  # On the wall.
    busy_seconds: float  # Of the processor, over all threads.

    @property
    def speed(self) -> float:
        return self.steps / self.seconds

    @property
    def core_speed(self) -> float:
        return self.steps / self.busy_seconds


def main() -> None:
    options = parse()
    compiler = shutil.which("cc")
    if compiler is None:
        sys.exit("bench: no C compiler 'cc' on the path; install one (Debian: apt install gcc)")
    with tempfile.TemporaryDirectory(prefix="asap-bench-") as folder:
        program = compile_c(compiler, Path(folder))
        numbers = throughput(program, rounds=options.rounds or (3 if options.quick else 7))
        if not options.quick:
            numbers |= time_to_near_optimal(Path(folder)) | many_seeds(Path(folder))
    numbers = {name: rounded(value) for name, value in numbers.items()}
    print(json.dumps(numbers) if options.json else table(numbers))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="Numbers:\n" + "\n".join(f"  {name:<36}{meaning}" for name, meaning in MEANINGS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line, no table")
    parser.add_argument("--quick", action="store_true", help="throughput only, in few rounds (half a minute)")
    parser.add_argument("--rounds", type=positive, metavar="N", help="rounds of C and library (default: 7, quick: 3)")
    return parser.parse_args()


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be an integer >= 1 (got {text!r})")
    return int(text)


# ---- Throughput ---------------------------------------------------------------------------------------------------


def throughput(program: Path, rounds: int) -> dict[str, float]:
    """Steps per second of every loop, and its ratio to C."""
    with ThreadPoolExecutor() as pool:  # The compiler frees the interpreter.
        loops = dict(zip(LOOPS, pool.map(library_loop, LOOPS.values()), strict=True))
    pairs = {name: [(c_turn(program), loop()) for _ in range(rounds)] for name, loop in loops.items()}
    every_c = [c for turns in pairs.values() for c, _ in turns]
    sampled = [ours for _, ours in pairs["reinforce_sampled"]]
    numbers = {
        "c_ns_per_step": median(1e9 / c.speed for c in every_c),
        "c_mean_length": mean_length(every_c),
        "reinforce_mean_length": mean_length(sampled),
    }
    for name, turns in pairs.items():
        numbers[f"{name}_ratio"] = median(ours.speed / c.speed for c, ours in turns)
        numbers[f"{name}_core_ratio"] = median(ours.core_speed / c.core_speed for c, ours in turns)
        numbers[f"{name}_steps_per_second"] = median(ours.speed for _, ours in turns)
    return numbers


def mean_length(turns: list[Turn]) -> float:
    return sum(turn.steps for turn in turns) / sum(turn.episodes for turn in turns)


def compile_c(compiler: str, folder: Path) -> Path:
    program = folder / "rooms_loop"
    subprocess.run([compiler, "-O3", "-march=native", "-o", program, SOURCE, "-lm"], check=True)
    return program


def c_turn(program: Path) -> Turn:
    """The C program times itself, so that starting it does not count."""
    done = subprocess.run([program, str(LANES), str(UPDATES)], check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    return Turn(report["steps"], LANES * UPDATES, report["seconds"], report["busy_seconds"])


def library_loop(changes: dict[str, Any]) -> Callable[[], Turn]:
    """A function that trains one chunk further, by the program that training compiles."""
    config, tasks = compose([TASK], {"learn.lanes": LANES, **STANDING_STILL, **changes})
    loop = Loop(config, Compiled(config, tasks, catalog.task_set(((TASK, 1.0),))), InMemory())
    states = loop.start(blank_start(config, tasks))

    def turn() -> Turn:
        nonlocal states
        began, busy = time.perf_counter(), time.process_time()
        after, _ = jax.block_until_ready(loop._advance_chunk(states))
        seconds, busy = time.perf_counter() - began, time.process_time() - busy
        before, states = states, after
        steps = played(after.env_steps, before.env_steps)
        return Turn(steps, played(after.totals.episodes, before.totals.episodes), seconds, busy)

    turn()  # The first call compiles, and touches its memory for the first time.
    return turn


def played(after: jax.Array, before: jax.Array) -> int:
    return int(np.sum(after) - np.sum(before))


# ---- Whole processes ----------------------------------------------------------------------------------------------


def time_to_near_optimal(folder: Path) -> dict[str, float | None]:
    """One seed per process, from its start; the process is left to finish its budget."""
    reached, finished, compiling = [], [], []
    for seed in range(SEEDS_ALONE):
        out, began = folder / f"seed-{seed}", time.monotonic()
        process = start_training(out, "--seed", str(seed))
        if becomes_near_optimal(process, out / "events.jsonl"):
            reached.append(time.monotonic() - began)
        report = report_of(process)
        finished.append(time.monotonic() - began)
        compiling.append(report["compile_seconds"])
    return {
        "near_optimal_seconds": median(reached) if reached else None,
        "near_optimal_compile_seconds": median(compiling),
        "near_optimal_process_seconds": median(finished),
        "near_optimal_reached": len(reached),
    }


def many_seeds(folder: Path) -> dict[str, float]:
    began = time.monotonic()
    report = report_of(start_training(folder / "seeds", "--seeds", str(SEEDS_TOGETHER)))
    return {
        "twenty_seeds_seconds": time.monotonic() - began,
        "twenty_seeds_compile_seconds": report["compile_seconds"],
        "twenty_seeds_near_optimal": report["near_optimal_seeds"],
    }


def start_training(out: Path, *options: str) -> subprocess.Popen:
    command = [Path(sys.executable).with_name("asap"), "train", TASK, "--json", "--out", out, *options]
    # Compiling counts: what an earlier process left in JAX's cache is not used.
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def report_of(process: subprocess.Popen) -> dict:
    """The JSON object that the training printed at its end."""
    printed, _ = process.communicate()
    if process.returncode:
        sys.exit(f"bench: `{' '.join(map(str, process.args))}` failed with status {process.returncode}")
    return json.loads(printed.splitlines()[-1])


def becomes_near_optimal(process: subprocess.Popen, events: Path) -> bool:
    """Waits for the first near-optimal evaluation in the event log of one seed, or for the end of the process."""
    threshold, position, running = catalog.find(TASK).reference.near_optimal, 0, True
    while running:
        time.sleep(POLL_SECONDS)
        running = process.poll() is None
        lines = whole_lines(events, position)
        position += len(lines)
        updates = (event for event in map(json.loads, lines.splitlines()) if event["kind"] == "update")
        if any(event["returns"][0][0] >= threshold for event in updates):
            return True
    return False


def whole_lines(path: Path, position: int) -> bytes:
    """What was added to a file after a position, up to its last complete line."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        file.seek(position)
        added = file.read()
    return added[: added.rfind(b"\n") + 1]


# ---- Printing -----------------------------------------------------------------------------------------------------


def rounded(value: float | None) -> float | None:
    """Four significant digits."""
    return value if value is None else float(f"{value:.4g}")


def table(numbers: dict[str, float | None]) -> str:
    shown = {name: "never" if value is None else f"{value:,.10g}" for name, value in numbers.items()}
    return "\n".join(f"{value:>12}  {MEANINGS[name]}" for name, value in shown.items())


if __name__ == "__main__":
    main()
