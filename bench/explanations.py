"""What `asap explain` prints, for ten tasks of every kind, and how a person acts by it: writes docs/explanations.md.

    .venv/bin/python bench/explanations.py
    .venv/bin/python bench/explanations.py --only CartPole-v1      # this row; the others as they were

A row is one `asap train` command with a fixed seed and `asap explain` on its run. Runs that are finished are kept in the
folder of results and not trained again; remove it after a change of the learner. What is printed is asked for anew.
The sentences about each policy are ours. They were written for the rules that these commands print: read them again when
a row has changed, which `--check` tells.
"""

import argparse
import json
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parent.parent / "docs" / "explanations.md"
HEAD = """# Explanations: what learned policies look like

Each block is the whole output of `asap explain`, for a policy that the command above it has trained. The sentences below say
what the rules do, and how to act by them. `python bench/explanations.py` makes this page; budgets are short.

How to read a rule: cases are read from the top, and the first that holds decides. Numbers are in the units of the
environment. `within 0.07` tells how sharp a boundary is. Comments behind `#` tell how much a case was used. All of it is a
file that loads again: `asap explain RUN --rules`. The language is described in [method.md](method.md#rules).
"""


class Row(NamedTuple):
    name: str
    words: str  # Of `asap train`.
    meaning: str


ROWS = (
    Row(
        "two-rooms",
        "two-rooms --seed 1 --episodes 2000",
        "Left of x = 0.77 go right, with one step in four upwards: that leads along the wall to the door at "
        "the top and through it. Beyond x = 0.77, go down to the goal. Draw the actions. Whoever always goes "
        "right stays at the wall.",
    ),
    Row(
        "three-rooms",
        "three-rooms --seed 1 --episodes 2000",
        "The wave is negative for x from 1/3 to 2/3, which is the middle room. There go right or down, as "
        "often one as the other, to the door at the bottom. In the rooms to the left and to the right go up "
        "and right. Draw the actions: each room needs both of them.",
    ),
    Row(
        "joint-rooms",
        "two-rooms flipped-two-rooms --seed 1 --episodes 4000",
        "One policy for both tasks. Act by the last lines, which have the heights of goal and door put in. In "
        "Two Rooms go up and right in the left half, to the door, and down and right in the right half, to "
        "the goal. In the flipped rooms the halves are exchanged: the sign of x changes with goal height - "
        "door height.",
    ),
    Row(
        "striker-r1",
        "striker-r1 --seed 1",
        "Places are in metres, with the goal line at x = 52.5. Dribble until the ball is near enough, then "
        "shoot. In front of the goal (ball y = 0) A exceeds 3.856 from ball x = 41 on. Ten metres to the side "
        "it takes 43 or 44. Percentages have two decimals because the return needs them: with whole percents "
        "it falls from 0.95 to 0.89.",
    ),
    Row(
        "CartPole-v1",
        "CartPole-v1 --seed 1 -k 1 --steps 100000",
        "A is where the pole is about to be: its angle, and a part of how fast it turns and the cart drives. "
        "If A is above -0.042, push right, else push left. Near the limit either will do.",
    ),
    Row(
        "Acrobot-v1",
        "Acrobot-v1 --seed 1 -k 1 --steps 100000",
        "At rest A is close to its limit, and the angular velocity of the lower link (2) decides: torque 1 "
        "while it is positive, torque -1 while it is negative. This swings the links higher each time. The "
        "sine of the angle of the upper link shifts the moment of the change.",
    ),
    Row(
        "Pendulum-v1",
        "Pendulum-v1 --seed 1 -k 1 --steps 200000 --set learn.discount=0.95",
        "Upright is cos angle = 1. While the pendulum hangs (cos angle clearly below 0), the torque has the "
        "sign of the angular velocity, which swings it up. Everywhere else the torque works against angle and "
        "angular velocity: at the top, where the last two terms cancel, it is -1.2*angular velocity - 5.6*sin "
        "angle, a common PD controller. Values beyond 2 are cut off.",
    ),
    Row(
        "LunarLander-v3",
        "LunarLander-v3 --seed 2 -k 1 --skills linear --steps 500000",
        "A tells whether the lander leans or turns to its positive side; each case has a list of scores. To "
        "act, work out the sums and take the action of the largest. The action with 0 is what the others are "
        'compared with. In the second list, "fire main engine" gains 13.8 for each unit of sinking speed, and '
        "5.6 for each unit of height less. So it brakes when it is fast and low. A person can act by the "
        "rules with a calculator, but no sentence sums them up: they have more than sixty numbers. A return "
        "of 138 is short of the 200 that count as solved.",
    ),
    Row(
        "FrozenLake-v1",
        "FrozenLake-v1 --seed 1 -k 1 --skills linear --steps 200000",
        "Find the cell, and do what its line says. The ice is slippery: a move goes aside in two of three "
        "cases. So the rules push away from holes rather than to the goal, such as left against the wall in "
        "the first column. Holes and goal are in the lists, too; nothing is done there.",
    ),
    Row(
        "MountainCar-v0",
        "MountainCar-v0 --seed 1 -k 1 --features network --steps 300000 --set learn.batch_steps=1024",
        "Units of a network can be worked out with the formulas, but not in the head. Evaluated over the "
        "valley, they come to this: accelerate in the direction of the velocity, which swings the car up. On "
        "the right slope (position -0.3 to 0) it must drive faster than about 0.015 to go on to the right; "
        "else it goes back for another swing. To be read, linear or `poly2` features serve better.",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[row.name for row in ROWS], help="this row; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("bench-results/explanations"))
    parser.add_argument("--check", action="store_true", help="write nothing; tell which rows print something else now")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    before = sections(PAGE.read_text() if PAGE.exists() else "")
    found = dict(before)
    for row in ROWS:
        if not arguments.only or row.name in arguments.only:
            found[row.name] = section(row, arguments.out)
            print(f"{row.name}: {'as it was' if found[row.name] == before.get(row.name) else 'changed'}", flush=True)
    changed = [name for name in found if found[name] != before.get(name)]
    if not arguments.check:
        PAGE.write_text("\n".join([HEAD, *(found[row.name] for row in ROWS if row.name in found)]))
    if arguments.json:
        print(json.dumps({"changed": changed}))
    if arguments.check and changed:
        raise SystemExit(f"error: {', '.join(changed)}: the page says something else; run without --check and read it")


def sections(page: str) -> dict[str, str]:
    """By the name in the heading."""
    _, *parts = page.split("\n## ")
    return {part.split("\n", 1)[0]: f"## {part.rstrip()}\n" for part in parts}


def section(row: Row, out: Path) -> str:
    run = trained(row, out)
    text = asap("explain", str(run))
    commands = f"```sh\nasap train {row.words} --out RUN\nasap explain RUN\n```"
    meaning = "\n".join(textwrap.wrap(row.meaning, 125))
    return f"## {row.name}\n\n{commands}\n\n```\n{text.rstrip()}\n```\n\n{meaning}\n"


def trained(row: Row, out: Path) -> Path:
    folder = out / row.name
    done = folder / "done"
    if not done.exists() or done.read_text() != row.words:
        asap("train", *shlex.split(row.words), "--out", str(folder / "run"), "--json")
        done.write_text(row.words)
    return folder / "run"


def asap(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "asap", *words], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"error: {shlex.join(['asap', *words])} ended with exit code {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    main()
