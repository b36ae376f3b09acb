"""Rows of families.py: ten variants learned one after another, by one policy and with planes of each task under shared skills.

Both ways are commands, `asap train ... --sequence --scratch`, which run side by side in folders of their own. A command that was
stopped goes on where it was.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

KINDS = ("shared", "per-task")
HEAD = (
    "| sequence | planes | seeds | final performance | forgetting | forward transfer | solved at the end |\n"
    "|---|---|---|---|---|---|---|"
)


class SequenceRow(NamedTuple):
    name: str
    tasks: tuple[str, ...]
    options: tuple[str, ...]  # Of `asap train`.
    seeds: int = 20
    head: str = HEAD

    def results(self, seeds: range, folder: Path, tiny: bool) -> list[dict[str, Any]]:
        """One for each way, of all seeds together."""
        budget = ["--set", "sequence.look_episodes=4", self.options[0], "600" if self.options[0] == "--steps" else "6"]
        commands = {kind: self._command(kind, seeds, folder, budget if tiny else []) for kind in KINDS}
        running = {
            kind: subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for kind, command in commands.items()
        }
        told = {kind: process.communicate()[0] for kind, process in running.items()}
        if any(process.returncode for process in running.values()):
            raise SystemExit(f"{self.name}: a command failed; the same command goes on where it was")
        return [json.loads(text.splitlines()[-1]) for text in told.values()]

    def _command(self, kind: str, seeds: range, folder: Path, last: list[str]) -> list[str]:
        place = folder / f"{self.name}-{kind}-{seeds[0]}-{len(seeds)}{'-tiny' if last else ''}"
        of_seeds = ["--seed", str(seeds[0]), "--seeds", str(len(seeds)), "--out", str(place)]
        how = ["--sequence", "--planes", kind, "--scratch", *self.options, *of_seeds, *last, "--json"]
        return [sys.executable, "-m", "asap", "train", *self.tasks, *how]

    def summary(self, results: list[dict[str, Any]]) -> dict[str, Any]:
        keys = ("seeds", "budget", "final_performance", "forgetting", "forward_transfer", "per_task", "notes", "run")
        found = {one["planes"]: {key: one[key] for key in keys} for one in results}
        for kind in found:
            ends = [(each["return_at_end"], each["threshold"]) for each in found[kind]["per_task"]]
            found[kind]["solved"] = sum(value >= threshold for values, threshold in ends for value in values)
        return {"row": self.name, "tasks": list(self.tasks), **found}

    def lines(self, entry: dict[str, Any]) -> list[str]:
        rows = []
        for kind in KINDS:
            one = entry[kind]
            cells = [self.name, kind, str(one["seeds"])]
            cells += [_shown(one[key]) for key in ("final_performance", "forgetting", "forward_transfer")]
            cells += [f"{one['solved']} of {one['seeds'] * len(self.tasks)}"]
            rows.append(f"| {' | '.join(cells)} |")
        return rows


def _shown(measure: dict[str, Any] | None) -> str:
    if measure is None:
        return "-"
    interval = "" if measure["ci"] is None else " ({:.2f} to {:.2f})".format(*measure["ci"])
    return f"{measure['mean']:.2f}{interval}"


CARTPOLES = tuple(
    f"CartPole-v1?length={length:g}&force_mag={force:g}&gravity={gravity:g}"
    for length, force, gravity in (
        (0.5, 10, 9.8), (0.3, 5, 6), (1.0, 15, 14), (0.4, 12, 8), (0.8, 7, 12),
        (0.6, 15, 6), (0.3, 8, 14), (1.0, 10, 7), (0.7, 5, 10), (0.9, 13, 13),
    )
)  # fmt: skip
DOORS = (0.85, 0.5, 0.2, 0.7, 0.35, 0.6, 0.15, 0.8, 0.3, 0.45)  # Heights of the middle.

SEQUENCES = (
    SequenceRow(
        "sequences-cartpole",
        CARTPOLES,
        ("--steps", "50000", "-k", "1", "--set", "sequence.look_episodes=8"),
    ),
    SequenceRow(
        "sequences-rooms",
        tuple(f"two-rooms?door={door:g}" for door in DOORS),
        # 31.25 is near-optimal in two-rooms, whose door is at 0.85; the others are no harder.
        ("--episodes", "300", "--set", "sequence.thresholds=[31.25]"),
    ),
)
