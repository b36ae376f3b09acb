"""The learners side by side on hosted environments: every seed, IQM and interval, after equal numbers of steps.

    .venv/bin/python bench/learners.py --seeds 10

Each row is one `asap train` command, which is printed beside it. Returns are means over 100 episodes, every action the
most probable one. Finished rows are kept in the folder of results and not run again; remove it after a change of the
library.
"""

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

ROWS = (
    ("CartPole-v1", "ppo", 150_000, ("-k", "1")),
    ("CartPole-v1", "natural", 150_000, ("-k", "1")),
    ("CartPole-v1", "reinforce", 150_000, ("-k", "1")),
    ("Pendulum-v1", "ppo", 300_000, ("--set", "learn.discount=0.95")),
    ("Pendulum-v1", "natural", 300_000, ("--set", "learn.discount=0.95")),
)
HEAD = "| environment | learner | steps | IQM (95 % interval) | every seed | command |\n|---|---|---|---|---|---|"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", action="append", help="rows whose environment or learner has this name")
    parser.add_argument("--out", type=Path, default=Path("bench-results/learners"))
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = [row for row in ROWS if not arguments.only or {row[0], row[1]} & set(arguments.only)]
    print(HEAD)
    reports = []
    for row in rows:
        reports.append(report := measured(row, arguments))
        low, high = report["return"]["ci"] or (float("nan"), float("nan"))  # None of one seed.
        seeds = " ".join(f"{value:.0f}" for value in report["return"]["all"])
        print(
            f"| {row[0]} | {row[1]} | {row[2]:,} | {report['return']['iqm']:.1f} ({low:.1f} to {high:.1f}) | {seeds} "
            f"| `{report['command']}` |",
            flush=True,
        )
    if arguments.json:
        print(json.dumps({"rows": reports}))


def measured(row: tuple, arguments: argparse.Namespace) -> dict:
    env, learner, steps, options = row
    words = ["train", env, "--learner", learner, "--steps", str(steps), *options]
    words += ["--seed", str(arguments.seed), "--seeds", str(arguments.seeds)]
    kept = arguments.out / f"{env}-{learner}-{arguments.seed}-{arguments.seeds}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    folder = arguments.out / f"{kept.stem}-run"
    done = subprocess.run(
        [sys.executable, "-m", "asap", *words, "--json", "--out", str(folder)], stdout=subprocess.PIPE
    )
    if done.returncode:
        raise SystemExit(f"error: {shlex.join(['asap', *words])} ended with exit code {done.returncode}")
    report = json.loads(done.stdout.splitlines()[-1]) | {"command": shlex.join(["asap", *words])}
    kept.write_text(json.dumps(report))
    return report


if __name__ == "__main__":
    main()
