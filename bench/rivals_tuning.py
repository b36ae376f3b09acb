"""Six settings of each system, on tuning seeds: what their defaults were chosen by.

    .venv/bin/python bench/rivals_tuning.py                          # every system of the table
    .venv/bin/python bench/rivals_tuning.py flat-ppo flat-ppo-64     # these

Every system has the same number of tries, on two-rooms and three-rooms, 300,000 steps, seeds 100 to 102; results are of other
seeds. Printed is the interquartile mean of the return over seeds, and its mean over tasks on the scale from random play (0) to the
script (1). What is finished is kept in the folder of results and not run again; remove it after a change of the library.
"""

import argparse
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TASKS = ("two-rooms", "three-rooms")
SEEDS = (100, 101, 102)
STEPS = 300_000


def library(**settings: Any) -> dict[str, Any]:
    """Settings of systems that are the library itself, as of `asap settings`, with a double underscore for the dot."""
    return {"settings": tuple((name.replace("__", "."), value) for name, value in settings.items())}


# By name, six sets of fields in place of the defaults.
TABLE: Mapping[str, tuple[dict[str, Any], ...]] = {
    "flat-ppo": (
        library(learn__step_size_theta=0.05),
        library(learn__step_size_theta=0.02),
        library(learn__step_size_theta=0.1),
        library(learn__step_size_theta=0.05, learn__entropy=0.02),
        library(learn__step_size_theta=0.05, learn__lanes=32),
        library(learn__step_size_theta=0.05, policy__skills="linear"),
    ),
    "flat-ppo-64": (
        library(learn__step_size_theta=0.01),
        library(learn__step_size_theta=0.003),
        library(learn__step_size_theta=0.01, learn__entropy=0.2),
        library(learn__step_size_theta=0.003, learn__lanes=32),
        library(learn__step_size_theta=0.01, learn__entropy=0.02),
        library(learn__step_size_theta=0.001, learn__schedule="constant"),
    ),
    "flat-reinforce": (
        library(learn__step_size_theta=0.05),
        library(learn__step_size_theta=0.1, learn__batch_episodes=8),
        library(learn__step_size_theta=0.05, learn__batch_episodes=8),
        library(learn__step_size_theta=0.02, learn__batch_episodes=8),
        library(learn__step_size_theta=0.05, learn__batch_episodes=4),
        library(learn__step_size_theta=0.05, learn__batch_episodes=8, policy__skills="linear"),
    ),
    "flat-reinforce-64": (
        library(learn__step_size_theta=0.01, learn__batch_episodes=8),
        library(learn__step_size_theta=0.003, learn__batch_episodes=8),
        library(learn__step_size_theta=0.001, learn__batch_episodes=8),
        library(learn__step_size_theta=0.01, learn__batch_episodes=4),
        library(learn__step_size_theta=0.003, learn__batch_episodes=4),
        library(learn__step_size_theta=0.003, learn__batch_episodes=32),
    ),
    "skill-chaining": (
        {},
        {"choice_rate": 0.05, "option_rate": 0.05},
        {"choice_rate": 0.2, "option_rate": 0.2},
        {"tmax": 50},
        {"num_options": 3, "tmax": 30},
        {"gestation": 20, "epsilon": 0.1},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", default=list(TABLE), help="names of the table")
    parser.add_argument("--track", default="native", choices=("native", "equal"))
    parser.add_argument("--out", type=Path, default=Path("bench-results/rivals"))
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    print(f"| system | settings | {' | '.join(TASKS)} | scaled |\n|---|---|{'---|' * len(TASKS)}---|")
    rows = []
    for name in arguments.systems:
        for number, fields in enumerate(TABLE[name]):
            rows.append(measured(name, fields, arguments.track, arguments.out / f"{name}-{number}"))
            returns = " | ".join(f"{rows[-1]['return'][task]:.1f}" for task in TASKS)
            print(f"| {name} | {rows[-1]['settings']} | {returns} | {rows[-1]['scaled']:.3f} |", flush=True)
    if arguments.json:
        print(json.dumps({"rows": rows}))


def measured(name: str, fields: Mapping[str, Any], track: str, folder: Path) -> dict[str, Any]:
    """One set of settings on all tasks."""
    from asap.compose import compose
    from asap.rivals import registry
    from asap.rivals.comparison import Contest, Scale, compare, returns_of, summary
    from asap.runs.loggers import ProgressBar

    found, scaled, per_seed = {}, [], {}
    ends = [registry.find(end) for end in ("random", "scripted")]
    for task in TASKS:
        tasks = compose([task], {})[1]
        folder.mkdir(parents=True, exist_ok=True)
        system = dataclasses.replace(registry.find(name, track), **fields)
        results = compare(Contest(tasks, SEEDS, STEPS, folder), [system], ProgressBar)
        references = compare(Contest(tasks, SEEDS, STEPS, folder.parent), ends)
        row = summary(name, results[name], Scale.of(tasks, references))
        found[task], per_seed[task] = row["return"]["iqm"], returns_of(results[name]).round(1).tolist()
        scaled.append(row["scaled"]["iqm"])
    words = ", ".join(f"{field}={value}" for field, value in told(fields).items())
    return {"system": name, "settings": words, "return": found, "seeds": per_seed, "scaled": sum(scaled) / len(scaled)}


def told(fields: Mapping[str, Any]) -> dict[str, Any]:
    return dict(fields["settings"]) if "settings" in fields else dict(fields)


if __name__ == "__main__":
    main()
