"""Damage for fuzzing: bytes, JSON trees and texts, changed a little or with values that programs trip over.

Every function takes a `random.Random` and returns a changed copy, so that a seed gives the same damage again.
"""

import copy
import json
import math
from random import Random
from typing import Any

DIGITS = "<5000 digits>"  # Stands for what Python refuses to print; `dumps` writes it out.
FEWER_DIGITS = "<4300 digits>"
DEEP = "<deep>"
_WRITTEN_OUT = {DIGITS: "9" * 5000, FEWER_DIGITS: "9" * 4300, DEEP: "[" * 100_000 + "]" * 100_000}

NUMBERS = [0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**18, 10**40]
NUMBERS += [0.5, -0.0, 1e-320, 1e30, 1e38, 3.5e38, 1e308, math.nan, math.inf, -math.inf]
TEXTS = [
    "",
    " ",
    "x",
    "0",
    "nan",
    "none",
    "true",
    "1e999",
    "\0",
    "\n",
    "a\nb",
    "\r\n\t",
    "\x1b[31m",
    "ü",
    "\u2028",
    "\x85",
]
TEXTS += [
    "\ufeff",
    "\U0001f600",
    "../../outside",
    "/",
    "/outside/x",
    "~",
    "%s %n {0}",
    "__class__",
    "a.b",
    "a:b",
    "json:loads",
    "x" * 3000,
]
VALUES = [
    *NUMBERS,
    *TEXTS,
    None,
    True,
    False,
    [],
    {},
    [[]],
    [1, [2]],
    {"": None},
    [None] * 40,
    DIGITS,
    FEWER_DIGITS,
    DEEP,
]
_BYTES = [
    b"",
    b"\0",
    b"\n",
    b"{",
    b"}",
    b"[",
    b'"',
    b",",
    b"=",
    b"\xff",
    b"\xc3\x28",
    b"PK\x03\x04",
    b"\0" * 64,
    b"\xff" * 8,
]


def dumps(tree: Any) -> str:
    """JSON, with the values written out that have no Python form; NaN as Python's reader takes it."""
    text = json.dumps(tree)
    for mark, written in _WRITTEN_OUT.items():
        text = text.replace(json.dumps(mark), written)
    return text


def changed_bytes(rng: Random, data: bytes) -> bytes:
    """Bits, bytes and slices: flipped, cut, doubled, moved or put in."""
    size = len(data)
    at, end = sorted((rng.randint(0, size), min(size, rng.randint(0, size) if rng.random() < 0.3 else 0) or size))
    end = min(end, at + rng.choice([1, 2, 8, 64, 4096, size]))
    here = data[at:end]
    match rng.randrange(9):
        case 0 | 1 | 2 if size:
            place = min(at, size - 1)
            return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
        case 3:
            return data[:at]
        case 4:
            return data[:at] + data[end:]
        case 5:
            return data[:end] + here + data[end:]
        case 6:
            rest = data[:at] + data[end:]
            place = rng.randint(0, len(rest))
            return rest[:place] + here + rest[place:]
        case 7:
            return data[:at] + rng.randbytes(rng.choice([1, 2, 8])) + data[min(size, at + rng.choice([0, 1, 8])) :]
        case _:
            return data[:at] + rng.choice(_BYTES) + data[min(size, at + rng.choice([0, 1, 4])) :]


def changed_tree(rng: Random, tree: Any, values: list[Any] = VALUES) -> Any:
    """One place of a JSON tree: replaced, nudged, left out, doubled, renamed, wrapped or put elsewhere."""
    tree = copy.deepcopy(tree)
    places = _places(tree)
    if not places:
        return rng.choice(values)
    inside, key = rng.choice(places)
    here = inside[key]
    match rng.randrange(10):
        case 0 | 1 | 2 | 3:
            inside[key] = copy.deepcopy(rng.choice(values))
        case 4 | 5:
            inside[key] = nudged(rng, here)
        case 6:
            del inside[key]
        case 7 if isinstance(inside, list):
            inside.insert(rng.randint(0, len(inside)), copy.deepcopy(here))
        case 7:
            inside[rng.choice(TEXTS) if rng.random() < 0.5 else f"{key}2"] = inside.pop(key)
        case 8:
            inside[key] = rng.choice([[here], {"x": here}, str(here), [here, here]])
        case _:
            other, place = rng.choice(places)
            inside[key] = copy.deepcopy(other[place])
    return tree


def nudged(rng: Random, value: Any) -> Any:
    """A value of the same kind that differs a little."""
    if isinstance(value, bool):
        return rng.choice([not value, int(value), str(value)])
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, -value, value * 2, float(value), str(value), value << 32])
    if isinstance(value, float):
        return rng.choice([-value, value * 2, value + 1, value * 1e30, str(value), [value]])
    if isinstance(value, str):
        return changed_text(rng, value)
    if isinstance(value, list) and value:
        return rng.choice([value[1:], value[:-1], value + value, value[::-1], [*value, None]])
    return rng.choice([None, [], {}, 0])


def changed_text(rng: Random, text: str) -> str:
    """Characters put in, left out or doubled."""
    at = rng.randint(0, len(text))
    end = min(len(text), at + rng.choice([1, 1, 3, 20]))
    match rng.randrange(4):
        case 0:
            return text[:at] + rng.choice(TEXTS) + text[at:]
        case 1:
            return text[:at] + text[end:]
        case 2:
            return text[:end] + text[at:end] + text[end:]
        case _:
            return text[:at] + rng.choice("\0\n\"'[]{}=#.,:\\-+e_ 9ü\u2028") + text[end:]


def toml_value(rng: Random) -> str:
    """A value as somebody may write it into a TOML file or behind `--set key=`; not always TOML."""
    value = rng.choice(VALUES)
    simple = ["inf", "-nan", "0x7f", "1_0", "1__0", "2024-01-01", "'x'", "'''x\ny'''", '"""x"""', '"\\u0000"', '"\\x"']
    simple += ["[1, 2", "{a = 1}", "[[1.0], [2.0]]", "[1.0, 'a']", "1.5", ".5", "1e3", "none", "None", "TRUE", "", "#"]
    return rng.choice(simple) if rng.random() < 0.3 else dumps(value)


def changed_toml(rng: Random, text: str) -> str:
    """One line of a TOML text: another value, left out, doubled, moved, or damaged."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    key = lines[at].partition("=")[0]
    match rng.randrange(7):
        case 0 | 1 | 2 if "=" in lines[at]:
            lines[at] = f"{key}= {toml_value(rng)}"
        case 3:
            del lines[at]
        case 4:
            lines.insert(rng.randint(0, len(lines)), lines[at])
        case 5:
            lines.insert(rng.randint(0, len(lines)), lines.pop(at))
        case _:
            lines[at] = changed_text(rng, lines[at])
    return "\n".join(lines)


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value in the tree."""
    found, waiting = [], [tree]
    while waiting:
        inside = waiting.pop()
        keys = inside if isinstance(inside, dict) else range(len(inside)) if isinstance(inside, list) else ()
        found += [(inside, key) for key in keys]
        waiting += [inside[key] for key in keys]
    return found
