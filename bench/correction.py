"""Rules that are wrong or half right, corrected by learning, beside learning from scratch: seeds that reach the threshold,
and steps to it.

    .venv/bin/python bench/correction.py                     # every row, ten seeds
    .venv/bin/python bench/correction.py --only CartPole-v1 --seeds 3 --seed 100

A row starts from wrong rules, from half-right ones, from scratch with as many planes as the rules have, and from scratch with the
defaults. While it learns, the policy is evaluated 40 times: deterministic play of 100 episodes on Gymnasium environments, on our own
tasks drawn play of 200. Where the mean reaches the threshold, 100 (or 1,000) fresh episodes must confirm it; the steps so far are
what it took, and the seed stops. A seed that never gets there counts with the whole budget. What is finished is kept in the folder
of results, one file per seed, and not run again; remove it after a change of the library.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LOOKS = 40  # Evaluations of a training.
STARTS = ("wrong", "half-right", "scratch, same K", "scratch, defaults")


class Row(NamedTuple):
    env: str
    threshold: float
    budget: int  # Steps; episodes of our own tasks.
    wrong: str
    half_right: str
    planes: int
    counts: str = "steps"  # What a budget counts.
    measure: str = "return"

    @property
    def is_ours(self) -> bool:
        return self.counts == "episodes"


ROWS = (
    Row(
        "CartPole-v1",
        475,
        150_000,
        "if pole angle > 0 then push left (90 %)\notherwise push right (90 %)",
        "if pole angle > 0 then push right (80 %)\notherwise push left (80 %)",
        1,
    ),
    Row(
        "Acrobot-v1",
        -100,
        150_000,
        "if angular velocity 1 > 0 then torque 1 (90 %)\notherwise torque -1 (90 %)",
        "if angular velocity 1 > 0.5 then torque -1 (70 %)\notherwise torque 0 (70 %)",
        1,
    ),
    Row(
        "MountainCar-v0",
        -110,
        500_000,
        "if velocity > 0 then accelerate left (90 %)\notherwise accelerate right (90 %)",
        "if velocity > 0.01 then accelerate right (80 %)\notherwise accelerate left (80 %)",
        1,
    ),
    Row(
        "Pendulum-v1",
        -200,
        300_000,
        "torque = 2*sin angle + angular velocity (+- 0.5)",
        "if cos angle > 0.5 then torque = -4*sin angle - angular velocity (+- 0.5)\n"
        "otherwise torque = angular velocity (+- 0.5)",
        1,
    ),
    Row("MountainCarContinuous-v0", 90, 50_000, "force = -20*velocity (+- 0.5)", "force = 3*velocity (+- 0.5)", 0),
    Row(
        "two-rooms",
        31.3,
        2_000,
        "if y > 0.5 then left (80 %)\notherwise down (80 %)",
        "if x > 0.5 then down (60 %)\notherwise right (60 %)",
        1,
        "episodes",
    ),
    Row(
        "striker-r1",
        0.90,
        20_000,
        "if ball x > 20 m then Move\notherwise Shoot",
        "if ball x > 30 m then Shoot (60 %)\notherwise Dribble (60 %)",
        1,
        "episodes",
        "success",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1000, help="first seed")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", action="append", help="rows of this environment")
    parser.add_argument("--start", action="append", choices=STARTS, help="only this start")
    parser.add_argument("--out", type=Path, default=Path("bench-results/correction"))
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    print("| environment | start | reach it | median | every seed |\n|---|---|---|---|---|")
    table = []
    for row in ROWS:
        if arguments.only and row.env not in arguments.only:
            continue
        for start in arguments.start or STARTS:
            seeds = range(arguments.seed, arguments.seed + arguments.seeds)
            table.append(summary(row, start, finished(row, start, seeds, arguments.out)))
            print(line(table[-1]), flush=True)
    if arguments.json:
        print(json.dumps({"rows": table}))


def finished(row: Row, start: str, seeds: range, folder: Path) -> list[dict[str, Any]]:
    """Of each seed: as it was kept, or trained now. Seeds of our own tasks learn side by side in one program."""
    names = {seed: folder / f"{row.env}-{start.replace(', ', '-').replace(' ', '-')}-{seed}.json" for seed in seeds}
    missing = [seed for seed in seeds if not names[seed].exists()]
    groups = [range(missing[0], missing[-1] + 1)] if row.is_ours and missing else [range(s, s + 1) for s in missing]
    for group in groups:
        for result in trained(row, start, group):
            names[result["seed"]].write_text(json.dumps(result) + "\n")
    return [json.loads(kept.read_text()) for kept in names.values()]


def trained(row: Row, start: str, seeds: range) -> list[dict[str, Any]]:
    from asap import ASAP

    options: dict[str, Any] = {"seed": seeds[0], "settings": {"run.seeds": len(seeds)}}
    if start in ("wrong", "half-right"):
        options["rules"] = row.wrong if start == "wrong" else row.half_right
    elif start == "scratch, same K":
        options["hyperplanes"] = row.planes
    model, began = ASAP(row.env, **options), time.monotonic()
    budget = {"episodes": row.budget} if row.is_ours else {"total_timesteps": row.budget}
    reached: list[int | None] = [None for _ in seeds]
    spent, looks = [0 for _ in seeds], []

    def look(report: Any) -> bool | None:
        spent[:] = np.asarray(report.episodes if row.is_ours else report.env_steps).tolist()
        if max(spent) < len(looks) * row.budget / LOOKS:
            return None
        found = measured(row, model, report.policies, 200 if row.is_ours else 100)
        looks.append([list(spent), found.tolist()])
        hopeful = [s for s in range(len(seeds)) if reached[s] is None and found[s] >= row.threshold]
        if hopeful:
            again = measured(row, model, report.policies, 1000 if row.is_ours else 100, 1)
            for s in hopeful:
                reached[s] = spent[s] if again[s] >= row.threshold else None
        return False if None not in reached else None

    model.learn(**budget, callback=look)
    final = measured(row, model, model.policies, 1000 if row.is_ours else 100, 1)
    seconds = (time.monotonic() - began) / len(seeds)
    return [
        {
            **{"env": row.env, "start": start, "seed": seed, "seconds": seconds, "final": float(final[s])},
            "steps": row.budget if reached[s] is None and final[s] >= row.threshold else reached[s],
            "looks": [[at[s], values[s]] for at, values in looks],
        }
        for s, seed in enumerate(seeds)
    ]


def measured(row: Row, model: Any, policies: Any, episodes: int, seed: int = 0) -> np.ndarray:
    """Of each policy; all play the same episodes."""
    seeds = [seed for _ in model.seeds]
    played = model.play(policies, episodes, seeds, not row.is_ours)
    return (played.success if row.measure == "success" else played.returns).mean((1, 2))


def summary(row: Row, start: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    steps = [row.budget if result["steps"] is None else result["steps"] for result in results]
    return {
        "env": row.env,
        "start": start,
        "threshold": row.threshold,
        "counts": row.counts,
        "reached": sum(result["steps"] is not None for result in results),
        "seeds": len(results),
        "median": float(np.median(steps)),
        "steps": [result["steps"] for result in results],
        "final": [result["final"] for result in results],
        "seconds": sum(result["seconds"] for result in results),
    }


def line(entry: dict[str, Any]) -> str:
    each = " ".join("-" if steps is None else f"{steps:,}" for steps in entry["steps"])
    reach = f"{entry['reached']} of {entry['seeds']}"
    return f"| {entry['env']} | {entry['start']} | {reach} | {entry['median']:,.0f} {entry['counts']} | {each} |"


if __name__ == "__main__":
    main()
