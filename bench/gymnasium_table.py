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
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from gymnasium_contests import CONTESTS
from gymnasium_speed import play_speed
from trainings import TORCH, Finished, Processes, positive, rival_python, tell

from asap.base.stats import bootstrap_interval, iqm

EPISODES = 100
PACKAGES = (TORCH, "stable-baselines3")  # Of the rival's environment, installed one after the other.


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
    def job(self) -> dict[str, Any]:
        return {
            "env": self.env,
            "seed": self.seed,
            "steps": self.steps,
            "episodes": EPISODES,
            "settings": self.settings,
        }


def main() -> None:
    options, processes = parse(), Processes()
    with processes.ended_with_this():
        measure(options, processes)


def measure(options: argparse.Namespace, processes: Processes) -> None:
    systems = [system for system in ("sb3", "asap") if system != options.left_out]
    pythons = {"asap": Path(sys.executable)}
    if "sb3" in systems:
        pythons["sb3"] = rival_python(options.rival_env, PACKAGES)
    results = Finished(options.out / "gymnasium.jsonl")
    trainings = list(planned(options.only or list(CONTESTS), systems, options.seed, options.seeds, options.steps))
    for number, training in enumerate(trainings, 1):
        if training.key not in results.kept:
            tell(f"{number}/{len(trainings)} {training.env} {training.system} seed {training.seed}: started")
            report = processes.run(pythons[training.system], f"gymnasium_{training.system}.py", training.job)
            results.keep(training.key, report, training.settings)
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


# ---- Trainings ----------------------------------------------------------------------------------------------------


def planned(names: list[str], systems: list[str], first: int, seeds: int, steps: int | None) -> Iterator[Training]:
    """Seed by seed, the systems in turns: what slows the machine down for a while slows both."""
    for name in names:
        contest = CONTESTS[name]
        for seed in range(first, first + seeds):
            for system in systems:
                yield Training(name, system, seed, steps or contest.steps, getattr(contest, system))


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
