"""Trains short commands with this checkout and with another commit, and tells whether the parameters have the same
bits.

.venv/bin/python bench/same_bits.py COMMIT
.venv/bin/python bench/same_bits.py COMMIT --only ppo --only transfer --strict

Each budget is just large enough for some updates. A case of several commands is compared by its last one.
"""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import NamedTuple

from checkouts import Checkouts, Failed, checkouts

DATA = "collect two-rooms --controller doors --epsilon 0.3 --episodes 50 --out 'logged data.npz'"
CASES = {
    "reinforce": ["train two-rooms --learner reinforce --episodes 100"],
    "whole-return": ["train two-rooms --learner reinforce --set learn.baseline=mean --episodes 100"],
    "algorithm-1": ["train two-rooms --learner reinforce --gradient sampled --set learn.baseline=none --episodes 100"],
    "actor-critic": ["train two-rooms --learner actor-critic --episodes 100 --seeds 2"],
    "natural": ["train two-rooms --learner natural --episodes 100 --seed 7"],
    "ppo": ["train two-rooms --learner ppo --episodes 100 --seeds 3"],
    "sampled": ["train two-rooms --gradient sampled --episodes 100 --hyperplanes 2"],
    "paper": ["train two-rooms --preset paper --episodes 100"],
    "three-rooms": ["train three-rooms --episodes 60 --hyperplanes 2"],
    "joint": ["train two-rooms flipped-two-rooms:2 --episodes 60 --seeds 2"],
    "transfer": [
        "train two-rooms --episodes 100 --seeds 2 --out 'a source'",
        "transfer 'a source' flipped-two-rooms --search-symmetries --episodes 60 --set run.search_episodes=8",
    ],
    "importance": [DATA, "train --offline 'logged data.npz' --learner importance --episodes 100"],
    "likelihood": [DATA, "train --offline 'logged data.npz' --learner likelihood --episodes 100"],
    "striker": ["train striker-r1 --learner reinforce --episodes 40"],
    "cartpole": ["train CartPole-v1 --steps 3000 --seeds 2"],
    "cartpole-workers": ["train CartPole-v1 --steps 3000 --workers 2"],
    "cartpole-termination": ["train CartPole-v1 --steps 3000 --hyperplanes 2 --set policy.termination=0.1"],
    "pendulum": ["train Pendulum-v1 --steps 12000"],
    "frozen-lake": ["train FrozenLake-v1 --steps 2000"],
    "mountain-car-network": ["train MountainCar-v0 --features network --steps 12000"],
    "resumed": [
        "train CartPole-v1 --steps 2000 --seed 3 --out 'a run'",
        "train --resume 'a run' --steps 3500",
    ],
}
SETTINGS = ["run.chunk=2", "run.eval_episodes=4", "run.final_episodes=8"]


class Row(NamedTuple):
    name: str
    commands: list[str]
    digests: list[str | None]  # Of the commit, of this checkout; None where a command failed.
    errors: list[str]
    seconds: list[float]

    @property
    def verdict(self) -> str:
        if None in self.digests:
            return "FAILED"
        return "same" if self.digests[0] == self.digests[1] else "DIFFERENT"


def main() -> None:
    arguments = parsed()
    began = time.monotonic()
    try:
        with checkouts(arguments.commit) as both:
            rows = [compare(both, name) for name in arguments.only or CASES]
    except KeyboardInterrupt:
        sys.exit(130)
    print_table(rows)
    verdicts = [row.verdict for row in rows]
    if arguments.json:
        report = {
            "commit": both.commit,
            **{verdict.lower(): verdicts.count(verdict) for verdict in ("same", "DIFFERENT", "FAILED")},
            "rows": [{**row._asdict(), "verdict": row.verdict} for row in rows],
            "wall_seconds": round(time.monotonic() - began, 1),
        }
        print(json.dumps(report))
    sys.exit(1 if "FAILED" in verdicts or (arguments.strict and "DIFFERENT" in verdicts) else 0)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="what to compare this checkout with")
    parser.add_argument("--only", action="append", choices=CASES, metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--strict", action="store_true", help="exit 1 also where bits differ")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    return parser.parse_args()


def compare(both: Checkouts, name: str) -> Row:
    row = Row(name, CASES[name], [], [], [])
    for side, root in both.sides.items():
        began = time.monotonic()
        try:
            digest = last_digest(both, root, name)
        except Failed as error:
            digest = None
            row.errors.append(f"{side}: {error}")
        row.digests.append(digest)
        row.seconds.append(round(time.monotonic() - began, 1))
    print(f"{name}: {row.verdict}, {row.seconds[0]} s and {row.seconds[1]} s", file=sys.stderr, flush=True)
    return row


def last_digest(both: Checkouts, root: Path, name: str) -> str:
    """The digest that the last command of a case prints. Both sides start in the same empty folder."""
    both.clear_work()
    for command in CASES[name]:
        words = shlex.split(command)
        has_settings = words[0] != "collect" and "--resume" not in words
        settings = [word for setting in SETTINGS for word in ("--set", setting)] if has_settings else []
        output = both.run(root, ["-m", "asap", *words, *settings, "--json"])
    try:
        return json.loads(output.splitlines()[-1])["parameters_sha256"]
    except (IndexError, KeyError, ValueError):
        raise Failed("printed no parameters_sha256") from None


def print_table(rows: list[Row]) -> None:
    width = max(len(row.name) for row in rows)
    for row in rows:
        short = "  ".join(f"{'-' if digest is None else digest[:12]:12}" for digest in row.digests)
        commands = " && ".join(f"asap {command}" for command in row.commands)
        print(f"{row.name:{width}}  {row.verdict:9}  {short}  {commands}")
        for error in row.errors:
            print(f"{'':{width}}  {error}")
    print(f"All but collect and --resume also have: {' '.join(f'--set {setting}' for setting in SETTINGS)}")


if __name__ == "__main__":
    main()
