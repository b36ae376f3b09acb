"""Fuzzing target of rules: texts, damaged or made of the language's words, for several environments.

A text is refused in one line with a mark under the place; or it is read, its policy has finite numbers, and what is
written of it is read as the same.
"""

import re
from pathlib import Path
from random import Random

import numpy as np
from fuzz_mutations import changed_text
from fuzz_watch import Target, Wrong

from asap.base.errors import UserError
from asap.base.spec import ControlUnits, Unit
from asap.policy.rules.read import Rules, read_rules
from asap.policy.rules.rulebook import Vocabulary
from asap.policy.rules.source import RulesError, decoded
from asap.policy.rules.write import write_rules

SECONDS = 1.0  # For one text.
_SHORT = ("x", "y", "speed", "in use", "a-b")
VOCABULARIES = {
    "plain": Vocabulary(_SHORT, ("left", "right", "do nothing", "not moving")),
    "two": Vocabulary(("pole angle", "pole angular velocity", "X", "x"), ("push left", "push right")),
    "box": Vocabulary(
        _SHORT,
        ("torque", "lift"),
        action_bounds=ControlUnits.of_bounds([-2.0, 0.0], [2.0, np.inf]),
        descriptors=("m1",),
    ),
    "tasks": Vocabulary(
        ("x", "y"),
        ("left", "right", "up"),
        ("goal x", "goal y"),
        (Unit("m", 50.0, 40.0), Unit("m/s"), Unit("m", 0.5), Unit("")),
    ),
    "states": Vocabulary(
        tuple(f"row {s // 4} column {s % 4}" for s in range(12)), ("left", "right", "up"), numbered=True
    ),
}
SEEDS = [
    ("plain", "lean = x + 0.2*speed\nif lean > 0.01 within 0.1 then left (90 %)\notherwise right (60 %), left (20 %)"),
    (
        "plain",
        "if x > 1 and y < 2 then left\nif x < 1\n  if speed > 0 then right [keep]\n  otherwise left\nelse do nothing",
    ),
    ("plain", "slow: the largest of\n  left: 2*x - 3\n  right: -y\nif 0 < speed < 2 then slow\notherwise not moving"),
    ("plain", 'if sin(pi*(3*x - y + 0.5)) + 2*sin(pi*"a-b") > 0.2 then left\notherwise right (40 %) or left (20 %)'),
    ("plain", "if x^2 + 2*x*y - (y - 1)^2/4 > 1 then left if speed > 3 within 1, else right\notherwise right # no"),
    ("two", "if pole angle + 0.2*pole angular velocity > 0.01 then push right\notherwise push left"),
    ("two", "if obs[3] > 0.5 [keep] then action[0] (70 %)\nelse if X > 1e-3 then push left\nelse push right"),
    ("box", "if speed > 0 then torque = -2*x - 0.4*y (+- 0.3), lift = 1\notherwise\n  torque = 1.5\n  lift = m1*x"),
    ("box", "brake: torque = -0.4*speed (+- 0.1), lift = 0\nif x < 20 and speed > 5 then brake\notherwise brake"),
    ("tasks", "if x > 65 m within 5 m then left\nif x - goal x > 0 and y < 3 m/s then right\notherwise up (0 %)"),
    ("tasks", "far = x - 65 m\nif far > 0 and x*goal x > 1 then left\notherwise right"),
    ("states", "in row 0 columns 1, 3; row 2 column 1 then left\nnot in row 1 columns 0 to 3 then up\notherwise right"),
]
_WORDS = (
    "if then otherwise else and in not within keep or the largest of sin pi to ( ) [ ] [keep] , ; : = == > < >= <= + - * / ^ "
    '% (90 %) (+- 0.3) # " x y speed 2*x x^2 x*y sin(pi*x) sin(pi*(2*x+1)) m[0] obs[1] action[1] state[2] goal×x lean slow '
    "left right push×left torque lift torque×= lift×=×1 left:×x the×largest×of in×row×0×columns×1,×2 if×x×>×1×then×left "
    "otherwise×left 0 1 2.5 -1 1e30 1e31 1e-30 1e999 0.1e-300 99999999999 .5 1,5 m m/s deg 100×% 1_0 ∞ “x” − × \t"
).split(" ")
_WORDS = [word.replace("×", " ") for word in _WORDS] + ["×", "\n", "\n  ", "\n    ", "\r\n", "\ufeff", "\xa0", "\x00"]
_PIECES = re.compile(r"\s+|\w+|[^\w\s]")

Text = tuple[str, str]  # The name of a vocabulary, and rules for it.


class Refused(UserError):
    """Is told in one line, and marked."""


def _seeds(folder: Path) -> list[Text]:
    from scipy.optimize import linprog  # noqa: F401 - takes a second when it is first imported.

    return SEEDS


def _changed(rng: Random, text: Text) -> Text:
    name, rules = text
    if rng.random() < 0.05:
        name = rng.choice(list(VOCABULARIES))
    pieces = _PIECES.findall(rules)
    at = rng.randrange(len(pieces) + 1)
    end = min(len(pieces), at + rng.choice([1, 1, 2, 5, 20]))
    match rng.randrange(9):
        case 0 | 1:
            pieces[at:end] = [rng.choice(_WORDS)]
        case 2:
            pieces[at:at] = [" ", rng.choice(_WORDS), " "]
        case 3:
            del pieces[at:end]
        case 4:
            pieces[at:at] = pieces[at:end] * rng.choice([1, 1, 2, 30])
        case 5:
            moved = pieces[at:end]
            del pieces[at:end]
            place = rng.randrange(len(pieces) + 1)
            pieces[place:place] = moved
        case 6:
            return name, _changed_lines(rng, rules)
        case 7:
            return name, " ".join(rng.choice(_WORDS) for _ in range(rng.randrange(60)))
        case _:
            return name, changed_text(rng, rules)
    return name, "".join(pieces)


def _changed_lines(rng: Random, rules: str) -> str:
    """Of this text, or of two."""
    lines = rules.split("\n")
    if rng.random() < 0.4:
        lines += rng.choice(SEEDS)[1].split("\n")
    at, place = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            lines[at], lines[place] = lines[place], lines[at]
        case 1:
            lines[at] = " " * rng.randrange(5) + lines[at].lstrip()
        case 2:
            lines.insert(place, lines[at])
        case _:
            lines[at] = re.sub(r"[0-9.]+", lambda found: rng.choice(["0", "1", "1e9", "-3", found[0] * 2]), lines[at])
    return "\n".join(lines)


def _encoded(text: Text) -> bytes:
    return "\n".join(text).encode("utf-8", "replace")


def _read(data: bytes, folder: Path) -> None:
    name, _, rules = data.partition(b"\n")
    vocabulary = VOCABULARIES.get(name.decode("ascii", "replace"), VOCABULARIES["plain"])
    try:
        found = read_rules(decoded(rules, "rules"), vocabulary)
    except RulesError as error:
        raise Refused(*_marked(error)) from None
    _require_finite(found)
    written = "\n".join(write_rules(found.book))
    again = read_rules(written, vocabulary)  # What it refuses was written wrongly.
    if "\n".join(write_rules(again.book)) != written:
        raise Wrong(f"is written in another way once it was read: {written}")
    values = vocabulary.values(_states(vocabulary), np.zeros((50, len(vocabulary.descriptors))))
    if not np.array_equal(found.book.act(values)[1], again.book.act(values)[1]):
        raise Wrong(f"does something else once it was written and read: {written}")


def _marked(error: RulesError) -> tuple[str, str]:
    """Field and words of an error, if it has the form that it should have."""
    line, shown, mark = str(error).split("\n")
    field, _, what = line.partition(": ")
    if field != f"rules:{error.line}:{error.column}" or not what or mark.strip() != "^" or len(shown) > 150:
        raise Wrong(f"is refused without a mark: {error!s:.300}")
    if "; " not in what:
        raise Wrong(f"is refused without a cure: {what:.300}")
    return field, what


def _require_finite(rules: Rules) -> None:
    policy = rules.book.policy()
    spreads = getattr(policy.skills, "log_std", np.zeros(1))
    for numbers in (policy.partition.beta, policy.skills.theta, spreads):
        if not np.isfinite(numbers).all():
            raise Wrong("has a policy with infinite numbers")


def _states(vocabulary: Vocabulary) -> np.ndarray:
    count = len(vocabulary.observations)
    if vocabulary.numbered:
        return np.eye(count)[np.arange(50) % count]
    return 2 * np.random.default_rng(0).normal(size=(50, count))


TARGETS = (Target("rules", _seeds, _changed, _encoded, _read, refusals=(Refused,), raw=0.1, seconds=SECONDS),)
