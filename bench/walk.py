"""Counts the files of the package that a reader walks through from a call to the first checkpoint, here and in a
commit.

.venv/bin/python bench/walk.py COMMIT
.venv/bin/python bench/walk.py COMMIT --list

A file counts once a function in it has run; the bodies of modules and classes are no functions. A command counts until
a file `ckpt...` stands in the run's folder `checkpoints`. `learn()` need not write any, and counts to its end.
"""

import argparse
import inspect
import json
import os
import runpy
import sys
import threading
from pathlib import Path

from checkouts import Checkouts, Failed, checkouts

RUN = "run"
QUICK = [
    word for setting in ("run.chunk=1", "run.eval_episodes=2", "run.final_episodes=2") for word in ("--set", setting)
]
WALKS = {
    "asap train CartPole-v1": ["train", "CartPole-v1", "--steps", "600"],
    'ASAP("CartPole-v1").learn()': None,
    "asap train two-rooms": ["train", "two-rooms", "--episodes", "8"],
}


class Walk:
    """Notes the files whose functions run, until `is_over`."""

    def __init__(self, package: Path, checkpoints: Path | None):
        self.prefix, self.checkpoints = f"{package}{os.sep}", checkpoints
        self.files: set[str] = set()
        self.is_over = False

    def start(self) -> None:
        threading.setprofile(self.note)
        sys.setprofile(self.note)

    def stop(self) -> None:
        self.is_over = True
        threading.setprofile(None)
        sys.setprofile(None)

    def note(self, frame, event, argument) -> None:
        code = frame.f_code
        # Bodies of modules and classes are code too, but no functions.
        if self.is_over or event != "call" or not code.co_flags & inspect.CO_OPTIMIZED:
            return
        if not code.co_filename.startswith(self.prefix):
            return
        if self.checkpoints is not None and has_checkpoint(self.checkpoints):
            self.stop()
            return
        self.files.add(code.co_filename.removeprefix(self.prefix))


def has_checkpoint(folder: Path) -> bool:
    try:
        return any(entry.startswith("ckpt") for entry in os.listdir(folder))
    except FileNotFoundError:
        return False


def count(name: str, root: Path) -> None:
    """In a process of its own: walks, and prints the files as JSON on the last line."""
    arguments = WALKS[name]
    walk = Walk(root / "src" / "asap", None if arguments is None else Path(RUN, "checkpoints").resolve())
    walk.start()
    try:
        if arguments is None:
            learn()
        else:
            sys.argv = ["asap", *arguments, *QUICK, "--out", RUN, "--json"]
            runpy.run_module("asap", run_name="__main__", alter_sys=True)
    except SystemExit as left:
        if left.code:
            raise
    was_over = walk.is_over
    walk.stop()
    if arguments is not None and not was_over:
        sys.exit("error: no checkpoint was seen")
    print("\n" + json.dumps(sorted(walk.files)))


def learn() -> None:
    from asap import ASAP

    ASAP("CartPole-v1", settings=["run.chunk=1", "run.eval_episodes=2"]).learn(600)


def main() -> None:
    arguments = parsed()
    if arguments.count is not None:
        return count(arguments.count, Path(arguments.commit))
    try:
        with checkouts(arguments.commit) as both:
            walks = {name: {side: walked(both, name, root) for side, root in both.sides.items()} for name in WALKS}
    except Failed as error:
        sys.exit(f"error: walk: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    print_table(walks, arguments.list)
    if arguments.json:
        print(json.dumps({"commit": both.commit, "walks": [as_json(name, sides) for name, sides in walks.items()]}))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="what to compare this checkout with")
    parser.add_argument("--list", action="store_true", help="print the files too")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--count", choices=WALKS, help=argparse.SUPPRESS)
    return parser.parse_args()


def walked(both: Checkouts, name: str, root: Path) -> list[str]:
    print(f"{name}: {root.name}", file=sys.stderr, flush=True)
    both.clear_work()
    return json.loads(both.run(root, [os.path.abspath(__file__), "--count", name, str(root)]).splitlines()[-1])


def as_json(name: str, sides: dict[str, list[str]]) -> dict:
    before, after = sides.values()
    return {
        "name": name,
        "counts": [len(before), len(after)],
        "ratio": round(len(after) / len(before), 3),
        "files": [before, after],
    }


def print_table(walks: dict[str, dict[str, list[str]]], lists: bool) -> None:
    width = max(map(len, walks))
    for name, sides in walks.items():
        row = as_json(name, sides)
        counts = "   ".join(f"{side}: {len(files)} files" for side, files in sides.items())
        print(f"{name:{width}}   {counts}   ratio {row['ratio']:.2f}")
        for side, files in sides.items() if lists else ():
            print("\n".join([f"  {side}:", *(f"    {file}" for file in files)]))


if __name__ == "__main__":
    main()
