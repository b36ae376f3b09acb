"""Deterministic returns of presets on Gymnasium environments, every seed: one setting for all of them.

    .venv/bin/python bench/presets.py --preset defaults --preset steady --seeds 5
    .venv/bin/python bench/presets.py --preset steady --only LunarLander-v3 --steps 1000000 --set learn.epochs=5

Presets take turns, environment by environment and seed by seed, in one process. `defaults` is no preset at all. A return
is the mean over 100 episodes that nobody has learned from, every action the most probable one. Finished seeds are kept,
one JSON object in a line, and are not run again; remove the file after a change of the library.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import asap

EPISODES = 100
BUDGETS = {
    "LunarLander-v3": 300_000,
    "LunarLanderContinuous-v3": 300_000,
    "CartPole-v1": 150_000,
    "Acrobot-v1": 150_000,
    "MountainCar-v0": 500_000,
    "Pendulum-v1": 300_000,
    "MountainCarContinuous-v0": 50_000,
    "FrozenLake-v1": 300_000,
}
DEFAULTS = "defaults"


class Training(NamedTuple):
    """What decides a seed's result."""

    env: str
    preset: str
    settings: tuple[str, ...]
    steps: int
    seed: int

    def run(self) -> dict[str, Any]:
        model = asap.ASAP(
            made(self.env),
            seed=self.seed,
            preset=None if self.preset == DEFAULTS else self.preset,
            settings=[*self.settings, *options(self.env)],
        )
        began = time.perf_counter()
        model.learn(total_timesteps=self.steps)
        seconds = time.perf_counter() - began
        returns = [model.evaluate(episodes=EPISODES, deterministic=one)["return"] for one in (True, False)]
        return self._asdict() | {"return": returns[0], "sampled": returns[1], "seconds": round(seconds, 1)}


def made(env: str) -> str:
    return "LunarLander-v3" if env == "LunarLanderContinuous-v3" else env


def options(env: str) -> list[str]:
    return ['env.options={"continuous": true}'] if env == "LunarLanderContinuous-v3" else []


def main() -> None:
    asked = parse()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    kept = finished(asked.out)
    for training in planned(asked):
        if training not in kept:
            report = training.run()
            with asked.out.open("a") as file:
                file.write(json.dumps(report) + "\n")
            print(json.dumps(report), flush=True)
    print("\n".join(table(finished(asked.out), set(planned(asked)))))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", action="append", metavar="NAME", help="this preset, or `defaults`; may be repeated")
    parser.add_argument(
        "--only", action="append", choices=BUDGETS, metavar="ENV", help="this environment; may be repeated"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="on top of every preset")
    parser.add_argument("--steps", type=int, metavar="N", help="in place of each environment's budget")
    parser.add_argument("--seeds", type=int, default=5, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="FIRST")
    parser.add_argument("--out", type=Path, default=Path("bench-results/presets.jsonl"), metavar="FILE")
    return parser.parse_args()


def planned(asked: argparse.Namespace) -> Iterator[Training]:
    for env in asked.only or BUDGETS:
        for seed in range(asked.seed, asked.seed + asked.seeds):
            for preset in asked.preset or [DEFAULTS, "steady"]:
                yield Training(env, preset, tuple(asked.set), asked.steps or BUDGETS[env], seed)


def finished(file: Path) -> dict[Training, dict[str, Any]]:
    lines = file.read_text().splitlines() if file.exists() else []
    reports = [json.loads(line) | {"settings": tuple(json.loads(line)["settings"])} for line in lines]
    return {Training(*(report[name] for name in Training._fields)): report for report in reports}


def table(kept: dict[Training, dict[str, Any]], wanted: set[Training]) -> Iterator[str]:
    """A line for each environment and preset, with every seed."""
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for training, report in kept.items():
        if training in wanted:
            groups.setdefault(training[:4], []).append(report)
    for (env, preset, settings, steps), reports in sorted(groups.items()):
        reports.sort(key=lambda report: report["seed"])
        returns = [report["return"] for report in reports]
        each = " ".join(f"{value:.4g}" for value in returns)
        said = " ".join([preset, *settings])
        seconds = np.mean([report["seconds"] for report in reports])
        yield f"{env}, {steps:,}, {said}: {each} (mean {np.mean(returns):.4g}, {seconds:.0f} s each)"


if __name__ == "__main__":
    main()
