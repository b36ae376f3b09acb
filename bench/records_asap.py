"""One training of ASAP, for records.py: a JSON object comes in as argument, one goes out as a line.

What is trained is the command `asap train` with the words of the job, in a run directory. A run that was stopped there is
resumed. The policy is then played as it was learned, and as `model.rules()` prints it.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
from records_numbers import numbers_in

import asap
from asap.base.arrays import stack
from asap.base.errors import UserError
from asap.cli.app import app
from asap.runs.directory import Run

POINTS = 100  # Of the learning curve.
STARTS_SEED = 0  # Of the episodes that are played: alike for all seeds of a row.


def main() -> None:
    job = json.loads(sys.argv[1])
    printed = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # What the command prints is no report.
    report, model = trained(job), asap.ASAP.load(job["run"])
    report |= {"steps": model.num_timesteps, **measured(model, job)}
    with open(printed, "w") as stdout:
        print(json.dumps(report), file=stdout)


def trained(job: dict[str, Any]) -> dict[str, Any]:
    """Processor seconds, which are not known of a run that was stopped before; and the learning curve."""
    was_there, began = Path(job["run"], "checkpoints").exists(), time.process_time()
    app([*job["command"], "--seed", str(job["seed"]), "--out", job["run"]], standalone_mode=False)  # Exits if stopped.
    seconds = None if was_there else round(time.process_time() - began, 1)
    events = [event for event in Run.open(job["run"]).events() if event.get("kind") == "update"]
    if not events:
        sys.exit(f"error: run: nothing was learned in {job['run']}")
    by_update = {event["update"]: event for event in events}  # A resumed run has some twice.
    points = [(event["env_steps"][0], event["returns"][0][0]) for _, event in sorted(by_update.items())]
    versions = {module.__name__: module.__version__ for module in (asap, jax, gymnasium)}
    return {"seconds": seconds, "curve": thinned(points), "versions": versions, "run": job["run"]}


def thinned(points: list[tuple[float, float | None]]) -> list[list[float]]:
    """Means over neighbours, of which there are at most POINTS; each stands at the end of its own."""
    known = [(steps, value) for steps, value in points if value is not None]
    parts = np.array_split(np.array(known, float).reshape(-1, 2), min(POINTS, max(len(known), 1)))
    return [[int(part[-1, 0]), round(float(part[:, 1].mean()), 2)] for part in parts if len(part)]


def measured(model: asap.ASAP, job: dict[str, Any]) -> dict[str, Any]:
    """Returns by the most probable actions, drawn, and by the printed rules; what they hold in numbers."""
    sure, drawn = played(model, job, True), played(model, job, False)
    report = {"return": mean(sure, job), "sampled": mean(drawn, job), "failed": failed(sure, job)}
    text = model.rules()
    report |= {"rules": text, "printed": None, "printed_failed": None, "numbers": None, "states": None}
    try:
        given = asap.load_rules(text, job["env"])
    except UserError as error:  # Such as too large a text: then it is not one that a person reads.
        return report | {"unread": str(error)}
    counts, said = numbers_in(given.given.book), played(given, job, True)
    report |= {"printed": mean(said, job), "printed_failed": failed(said, job)}
    return report | counts._asdict()


def played(model: asap.ASAP, job: dict[str, Any], deterministic: bool, seed: int = STARTS_SEED) -> np.ndarray:
    """The return of each start."""
    policy = model.policy if model.num_timesteps else model.given.policy()
    count = max(job["episodes"], job["starts"] if deterministic else 0)
    return model.play(stack([policy]), count, [seed], deterministic).returns[0, 0]


def mean(returns: np.ndarray, job: dict[str, Any]) -> float:
    return float(returns[: job["episodes"]].mean())


def failed(returns: np.ndarray, job: dict[str, Any]) -> float:
    return float(np.mean(returns[: job["starts"]] < job["threshold"]))


if __name__ == "__main__":
    main()
