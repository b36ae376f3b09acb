"""Families of environments: transfer to mirrored ones, one policy for many, and many one after another.

    .venv/bin/python bench/families.py                       # every row, with as many seeds as it asks for
    .venv/bin/python bench/families.py --only flipped-cartpole --seeds 2
    .venv/bin/python bench/families.py --only joint --tiny   # whether it runs at all

The rows `joint` and `needed` are told of in family_policies.py, `sequences-cartpole` and `sequences-rooms` in family_sequences.py.
The others are about a trained policy in a mirrored environment: steps to the solved threshold by transfer, beside those from scratch.
A source is trained once per seed on the environment as it is. Then its policy is transferred to the mirrored one with
--search-symmetries, and another policy learns that one from scratch. Both are evaluated while they learn, by deterministic play of
100 episodes: before the first update, and then at every hundredth of the budget. Where the mean reaches the threshold, 100 fresh
episodes must confirm it; the steps so far are what it took, with those of the search. A seed that never gets there counts with the
whole budget. Each finished seed is a file in the folder of results and is not run again; remove it after a change of the library.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from family_policies import POLICIES
from family_sequences import SEQUENCES
from gymnasium import spaces

LOOKS = 100  # Evaluations of a training.
GOAL = 7  # So many times fewer steps.


class Turned(gymnasium.ObservationWrapper):
    """One observation with the other sign."""

    def __init__(self, env: gymnasium.Env, index: int):
        super().__init__(env)
        self.signs = np.ones(env.observation_space.shape, np.float32)
        self.signs[index] = -1
        bounds = np.sort([self.signs * env.observation_space.low, self.signs * env.observation_space.high], axis=0)
        self.observation_space = spaces.Box(*bounds, dtype=np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return self.signs * observation


class Reordered(gymnasium.ActionWrapper):
    """Actions in the opposite order."""

    def action(self, action: Any) -> Any:
        return self.action_space.n - 1 - action


class Opposite(gymnasium.ActionWrapper):
    """Numbers to set with the other sign."""

    def action(self, action: Any) -> Any:
        return -action


def flipped_cartpole() -> gymnasium.Env:
    """The angle of the pole is told with the other sign."""
    return Turned(gymnasium.make("CartPole-v1"), 2)


def mirrored_acrobot() -> gymnasium.Env:
    """Torques are applied the other way round."""
    return Reordered(gymnasium.make("Acrobot-v1"))


def mirrored_mountain_car() -> gymnasium.Env:
    """The velocity is told with the other sign."""
    return Turned(gymnasium.make("MountainCar-v0"), 1)


def flipped_pendulum() -> gymnasium.Env:
    """The torque is applied the other way round."""
    return Opposite(gymnasium.make("Pendulum-v1"))


HEAD = "| environment | solved by transfer | median steps | from scratch | median steps | ratio |\n|---|---|---|---|---|---|"


class Row(NamedTuple):
    name: str
    env: str
    make: Any
    threshold: float
    source_budget: int  # Steps.
    budget: int
    seeds: int = 10
    head: str = HEAD

    def results(self, seeds: range, folder: Path, tiny: bool) -> list[dict[str, Any]]:
        row = self._replace(source_budget=2000, budget=2000) if tiny else self
        return [finished(row, seed, folder / "tiny" if tiny else folder) for seed in seeds]

    def summary(self, results: list[dict[str, Any]]) -> dict[str, Any]:
        return summary(self, results)

    def lines(self, entry: dict[str, Any]) -> list[str]:
        return [line(entry)]


TRANSFERS = (
    Row("flipped-cartpole", "CartPole-v1", flipped_cartpole, 475, 150_000, 150_000),
    Row("mirrored-acrobot", "Acrobot-v1", mirrored_acrobot, -100, 150_000, 150_000),
    Row("mirrored-mountain-car", "MountainCar-v0", mirrored_mountain_car, -110, 500_000, 500_000),
    Row("flipped-pendulum", "Pendulum-v1", flipped_pendulum, -200, 300_000, 300_000),
)
ROWS = (*TRANSFERS, *POLICIES, *SEQUENCES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1000, help="first seed")
    parser.add_argument("--seeds", type=int, help="default: as many as the row asks for")
    parser.add_argument("--only", action="append", choices=[row.name for row in ROWS], help="only this row")
    parser.add_argument("--tiny", action="store_true", help="with budgets that only show that it runs")
    parser.add_argument("--out", type=Path, default=Path("bench-results/families"))
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    (arguments.out / "tiny").mkdir(parents=True, exist_ok=True)
    head, table = "", []
    for row in ROWS:
        if arguments.only and row.name not in arguments.only:
            continue
        seeds = range(arguments.seed, arguments.seed + (arguments.seeds or row.seeds))
        table.append(row.summary(row.results(seeds, arguments.out, arguments.tiny)))
        if row.head != head:
            head = row.head
            print(head)
        print("\n".join(row.lines(table[-1])), flush=True)
    if arguments.json:
        print(json.dumps({"rows": table}))


def finished(row: Row, seed: int, folder: Path) -> dict[str, Any]:
    """As it was kept, or run now."""
    kept = folder / f"{row.name}-{seed}.json"
    if not kept.exists():
        found = trained(row, seed, folder)
        kept.write_text(json.dumps(found) + "\n")
        print(f"{row.name} seed {seed}: transfer {found['transfer']}, scratch {found['scratch']}", file=sys.stderr)
    return json.loads(kept.read_text())


def trained(row: Row, seed: int, folder: Path) -> dict[str, Any]:
    from asap import ASAP

    began, place = time.monotonic(), folder / f"{row.name}-{seed}.asap"
    if place.exists():
        source = ASAP.load(place)
    else:
        source = ASAP(row.env, seed=seed).learn(row.source_budget)
        source.save(place)
    transferred = steps_to_solve(row, source.transfer(row.make, search_symmetries=True))
    scratch = steps_to_solve(row, ASAP(row.make, seed=seed))
    own = measured(source, source.policies, 0)
    about = {"row": row.name, "seed": seed, "source_return": own, "seconds": time.monotonic() - began}
    return {**about, "transfer": transferred, "scratch": scratch}


def steps_to_solve(row: Row, model: Any) -> int | None:
    """None where the budget was used up before."""
    reached: list[int] = []
    looks = [0]

    def look(report: Any) -> bool | None:
        spent = int(report.env_steps[0])
        if spent < looks[0] * row.budget / LOOKS:
            return None
        looks[0] += 1
        if (
            measured(model, report.policies, 0) >= row.threshold
            and measured(model, report.policies, 1) >= row.threshold
        ):
            reached.append(spent)
            return False
        return None

    model.learn(row.budget, callback=look)
    if not reached and measured(model, model.policies, 1) >= row.threshold:
        reached.append(row.budget)
    return reached[0] if reached else None


def measured(model: Any, policies: Any, seed: int) -> float:
    return float(model.play(policies, 100, [seed], True).returns.mean())


def summary(row: Row, results: list[dict[str, Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {"row": row.name, "threshold": row.threshold, "seeds": len(results), "goal": GOAL}
    for way in ("transfer", "scratch"):
        steps = [result[way] for result in results]
        entry[way] = steps
        entry[f"{way}_solved"] = sum(each is not None for each in steps)
        entry[f"{way}_median"] = float(np.median([row.budget if each is None else each for each in steps]))
    entry["ratio"] = entry["scratch_median"] / entry["transfer_median"]
    return entry


def line(entry: dict[str, Any]) -> str:
    cells = [entry["row"]]
    for way in ("transfer", "scratch"):
        cells += [f"{entry[f'{way}_solved']} of {entry['seeds']}", f"{entry[f'{way}_median']:,.0f}"]
    return f"| {' | '.join(cells)} | {entry['ratio']:.1f} |"


if __name__ == "__main__":
    main()
