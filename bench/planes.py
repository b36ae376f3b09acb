"""Throughput with one, two and three planes, beside an earlier commit.

    .venv/bin/python bench/planes.py COMMIT

Each side runs its own bench/rooms.py with its own package, in turns; every number is its steps per second of processor time over
those of the C program, so that only ratios on one machine are compared. Printed is the median of the paired ratios: this checkout
over the commit, 1 where they are equally fast.
"""

import argparse
import json
from pathlib import Path
from statistics import median

from checkouts import Checkouts, checkouts

PLANES = (1, 2, 3)
PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import rooms
rooms.STANDING_STILL["policy.hyperplanes"] = int(sys.argv.pop(1))
rooms.main()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="pairs for each number of planes")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    print("| planes | loop | commit, C = 1 | this checkout, C = 1 | ratio |\n|---|---|---|---|---|")
    with checkouts(arguments.commit) as both:
        for planes in PLANES:
            pairs = [[turn(both, root, planes) for root in both.sides.values()] for _ in range(arguments.rounds)]
            loops = {name for before, _ in pairs for name in before if name.endswith("_core_ratio")}
            for name in sorted(loops):
                before, here = (median(pair[side][name] for pair in pairs) for side in (0, 1))
                ratio = median(after[name] / first[name] for first, after in pairs)
                loop = name.removesuffix("_core_ratio")
                found.setdefault(f"K={planes}", {})[loop] = round(ratio, 3)
                print(f"| {planes} | {loop} | {before:.3f} | {here:.3f} | {ratio:.2f} |", flush=True)
    if arguments.json:
        print(json.dumps({"commit": both.commit, "ratios": found}))


def turn(both: Checkouts, root: Path, planes: int) -> dict[str, float]:
    """The numbers of one short run of a side's own benchmark."""
    printed = both.run(root, ["-c", PROGRAM, str(root / "bench"), str(planes), "--quick", "--json"])
    return json.loads(printed.splitlines()[-1])


if __name__ == "__main__":
    main()
