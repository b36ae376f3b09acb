"""Kills a training run with SIGKILL at random moments, resumes it each time, and compares the bits with an undisturbed
run.

.venv/bin/python bench/kills.py --kills 20
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ASAP = [sys.executable, "-m", "asap"]
# Long enough that it is not over before the last kill.
TRAIN = [*ASAP, "train", "two-rooms", "--seeds", "4", "--set", "run.chunk=1", "--set", "learn.convergence_tolerance=0"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="of the moments and of the training")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    train = [*TRAIN, "--seed", str(arguments.seed), "--episodes", str(arguments.episodes)]
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        whole = finish([*train, "--out", f"{folder}/whole"])
        # Half of the moments fall into the start of the program and compilation, half into learning.
        longest = 2 * (time.monotonic() - began - whole["wall_seconds"] + whole["compile_seconds"])
        run, moments = Path(folder) / "killed", random.Random(arguments.seed)
        killed_at = [kill_once(run, train, moments.uniform(0.5, longest)) for _ in range(arguments.kills)]
        command = ["train", "--resume", str(run)] if (run / "config.toml").exists() else [*train[3:], "--out", str(run)]
        resumed = finish([*ASAP, *command])
    report = {
        "kills": sum(update is not None for update in killed_at),
        "updates_logged_at_each_kill": killed_at,
        "identical": resumed["parameters_sha256"] == whole["parameters_sha256"]
        and resumed["return"] == whole["return"],
        "parameters_sha256": [whole["parameters_sha256"], resumed["parameters_sha256"]],
        "wall_seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(report) if arguments.json else "\n".join(f"{key}: {value}" for key, value in report.items()))
    sys.exit(0 if report["identical"] else 1)


def kill_once(run: Path, train: list[str], after: float) -> int | None:
    """Starts or resumes the run and kills it; the number of updates logged by then, or None if it had ended before."""
    command = [*ASAP, "train", "--resume", str(run)] if (run / "config.toml").exists() else [*train, "--out", str(run)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(after)
            return None
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
    events = run / "events.jsonl"
    return events.read_bytes().count(b'"kind": "update"') if events.exists() else 0


def finish(command: list[str]) -> dict:
    done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
