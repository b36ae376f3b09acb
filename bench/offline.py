"""Learning from a log alone, beside the behaviour that wrote it.

    .venv/bin/python bench/offline.py                            # every row, ten seeds
    .venv/bin/python bench/offline.py --only pendulum --seeds 2

The behaviour is our own policy, half way from random play to solved. It trains as usual until its mean return, drawing its actions, is at
least half way; then the policy between that one and the one before is taken, by bisection, whose return over 40 episodes is nearest to half
way. Where the search for a start finds one above it at once, the one before is the same policy with all weights of its skills 0. It
logs 100,000 steps. From this file alone `asap train --offline` learns with its defaults: nothing that is played while it learns has a
part in it. Both then play 100 fresh episodes: the result by its most probable actions, as runs of environments are judged, and as it was
learned. The estimates of both from the log are kept beside them.

Goal: at least the behaviour's return in 8 of 10 seeds of each row, and in two of the three rows above it by a tenth of the way from
random to solved on average. Each finished seed is a line of the file of results and is not run again; remove it after a change of the library.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

STEPS = 100_000
BUDGET = 300_000  # Of the behaviour's training, at most.
NEAR, HALVINGS = 0.05, 6  # Of the way from random to solved; bisections.
EPISODES = 100


class Row(NamedTuple):
    name: str
    env: str
    random: float  # Mean return of random play.
    solved: float

    @property
    def way(self) -> float:
        return self.solved - self.random

    @property
    def half(self) -> float:
        return (self.random + self.solved) / 2


ROWS = (
    Row("cartpole", "CartPole-v1", 22, 475),
    Row("pendulum", "Pendulum-v1", -1230, -200),
    Row("mountain-car-continuous", "MountainCarContinuous-v0", -33, 90),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1000, help="first seed")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", action="append", choices=[row.name for row in ROWS], help="only this row")
    parser.add_argument("--out", type=Path, default=Path("bench-results/offline.jsonl"))
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    table = []
    for row in ROWS:
        if arguments.only and row.name not in arguments.only:
            continue
        seeds = range(arguments.seed, arguments.seed + arguments.seeds)
        table.append(summary(row, [finished(row, seed, arguments.out) for seed in seeds]))
    print(
        "| environment | behaviour | learned | at least the behaviour | mean gain, of the way | goal |\n|---|---|---|---|---|---|"
    )
    for entry in table:
        print(line(entry))
    if arguments.json:
        print(json.dumps({"rows": table}))


def finished(row: Row, seed: int, path: Path) -> dict[str, Any]:
    """As it was kept, or run now."""
    kept = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    for found in kept:
        if (found["row"], found["seed"]) == (row.name, seed):
            return found
    found = measured(row, seed)
    with path.open("a") as file:
        file.write(json.dumps(found) + "\n")
    print(f"{row.name} seed {seed}: {found['behaviour']:.1f}, learned {found['learned']:.1f}", file=sys.stderr)
    return found


def measured(row: Row, seed: int) -> dict[str, Any]:
    from asap import ASAP
    from asap.base.arrays import member
    from asap.data.dataset import Dataset
    from asap.data.layout import layout_of
    from asap.envs.resolve import resolve
    from asap.experience.behaviours import LoggedPolicy
    from asap.experience.collect import collect
    from asap.experience.off_policy import estimate

    began, spent = time.monotonic(), time.process_time()
    teacher = ASAP(row.env, seed=seed)
    policy, steps = half_way(row, teacher)
    task = resolve(row.env)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/log.npz"
        logged = collect(task, LoggedPolicy("half way", policy), 0.0, 10**7, seed, path, num_steps=STEPS)
        trained = time.process_time()
        student = ASAP(row.env, seed=seed, settings={"offline.data": path}).learn()
        learning = time.process_time() - trained
        dataset = Dataset(path, layout_of(task))
        estimates = [estimate(one, dataset, 1.0, seed) for one in (policy, member(student.policies, 0))]
    found = {"row": row.name, "seed": seed, "teacher_steps": steps, "behaviour": logged.meta.behaviour_return}
    for name, sure in (("learned", True), ("learned_drawn", False)):
        found[name] = float(student.play(student.policies, EPISODES, [seed], sure).returns.mean())
    found["behaviour_likeliest"] = played(teacher, policy, EPISODES, seed, True)
    offline, learn = student.config.offline, student.config.learn
    found |= {"learner": learn.learner, "weights": offline.weights, "sharpness": offline.sharpness}
    found |= {"episodes_read": student.num_episodes, "updates_steps": student.num_timesteps}
    for name, one in zip(("behaviour", "learned"), estimates):
        found |= {f"{name}_estimate": one.value.undiscounted, f"{name}_ess": one.ess}
    found |= {"learning_cpu_seconds": learning, "cpu_seconds": time.process_time() - spent}
    return found | {"seconds": time.monotonic() - began}


def half_way(row: Row, model: Any) -> tuple[Any, int]:
    """The policy half way, and after how many steps of training."""
    import jax

    from asap.base.arrays import member
    from asap.policy.score import parameters_of, with_parameters

    seen: list[Any] = [None, None]

    def look(report: Any) -> bool | None:
        seen[:] = [seen[1], jax.tree.map(np.asarray, member(report.policies, 0))]
        if float(np.nanmean(report.returns)) < row.half:
            return None
        return False if played(model, seen[1], 40, 1, False) >= row.half else None

    model.learn(BUDGET, callback=look)
    low, high = seen
    if high is None:
        return member(model.policies, 0), model.num_timesteps
    if (
        low is None
    ):  # The search for a start had found it: there is none before but one that does nothing in particular.
        low = with_parameters(high, parameters_of(high)._replace(theta=np.zeros_like(high.skills.theta)))
    best, least = high, abs(played(model, high, 40, 2, False) - row.half)
    for _ in range(HALVINGS):
        if least <= NEAR * row.way:
            break
        middle = jax.tree.map(lambda a, b: ((a + b) / 2).astype(a.dtype), low, high)
        value = played(model, middle, 40, 2, False)
        low, high = (middle, high) if value < row.half else (low, middle)
        if abs(value - row.half) < least:
            best, least = middle, abs(value - row.half)
    return best, model.num_timesteps


def played(model: Any, policy: Any, episodes: int, seed: int, sure: bool) -> float:
    from asap.base.arrays import stack

    return float(model.play(stack([policy]), episodes, [seed], sure).returns.mean())


def summary(row: Row, results: list[dict[str, Any]]) -> dict[str, Any]:
    behaviours, learned = (np.asarray([one[name] for one in results]) for name in ("behaviour", "learned"))
    entry: dict[str, Any] = {"row": row.name, "seeds": len(results), "behaviour": behaviours.tolist()}
    entry |= {"learned": learned.tolist(), "at_least": int((learned >= behaviours).sum())}
    entry["gain"] = float((learned - behaviours).mean() / row.way)
    entry["holds"] = entry["at_least"] >= 0.8 * len(results)
    return entry | {"above": entry["gain"] >= 0.1}


def line(entry: dict[str, Any]) -> str:
    means = [f"{np.mean(entry[name]):,.1f}" for name in ("behaviour", "learned")]
    cells = [entry["row"], *means, f"{entry['at_least']} of {entry['seeds']}", f"{entry['gain']:+.2f}"]
    return f"| {' | '.join([*cells, 'reached' if entry['holds'] else 'missed'])} |"


if __name__ == "__main__":
    main()
