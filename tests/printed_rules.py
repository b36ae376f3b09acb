"""Printed rules followed by hand: an evaluator of the text that knows nothing of how the package writes or reads it.

Sums are given to Python's own `eval`. A text is followed for many states at once.
"""

import itertools
import re

import numpy as np

SHARP = 1e-6  # What stands for no `within`, relative to the largest coefficient.
FUNCTIONS = {"sin": np.sin, "tanh": np.tanh, "pi": np.pi}
SURE = re.compile(r"(.*?) \(([\d.e-]+) %\)")


def rules_of(text):
    """The lines of the rules in a whole explanation."""
    return [line.removeprefix("  ") for line in text.split("\n\n")[1].splitlines()]


def statements(lines):
    """Lines without comments, those that go on joined, each with its indentation."""
    found = []
    for line in lines:
        line = re.sub(r'("[^"]*")|#.*', lambda m: m[1] or "", line).rstrip()
        words = line.strip()
        if not words:
            continue
        if found and (words.startswith(("+ ", "- ", "and ")) or found[-1][1].endswith((",", ";"))):
            found[-1] = (found[-1][0], f"{found[-1][1]} {words}")
        else:
            found.append((len(line) - len(line.lstrip()), words))
    return found


class Printed:
    """`values` are those of all variables by name, arrays of N; `units` those of a network."""

    def __init__(self, lines, values, actions, unit="", units=None):
        self.values, self.actions, self.unit = {**values, **(units or {})}, list(actions), unit
        self.count = len(next(iter(values.values())))
        self.skills, self.cases, self.tests, self.within = {}, [], {}, {}
        rows = statements(lines)
        for place, (indent, words) in enumerate(rows):
            below = [w for _, w in itertools.takewhile(lambda row: row[0] > 0, rows[place + 1 :])]
            if indent:
                continue
            if named := re.fullmatch(r"([A-Z]|sum \d+) = (.*)", words):
                self.values[named[1]] = self.sum(named[2])
            elif named := re.fullmatch(r"(skill \d+|behaviour \d+):\s*(.*)", words):
                self.skills[named[1]] = self.skill(named[2], below)
            elif words.startswith("otherwise"):
                self.cases.append(([], self.skill(words.removeprefix("otherwise").strip(), below)))
            elif case := re.fullmatch(r"(if|in|not in) (.*?) then\s*(.*)", words):
                condition = case[2] if case[1] == "if" else f"{case[1]} {case[2]}"
                tests = [self.test(each) for each in condition.split(" and ")]
                self.cases.append((tests, self.skill(case[3], below)))
            elif not self.cases:
                self.cases.append(([], self.skill(words, [w for i, w in rows[place + 1 :] if not i] or below)))

    def sum(self, words):
        for place, name in enumerate(ordered := sorted(self.values, key=len, reverse=True)):
            words = re.sub(rf'"?(?<![\w\[]){re.escape(name)}(?![\w\]])"?', f"v[{place}]", words)
        if self.unit:
            words = re.sub(rf"(?<=[\d.]) {self.unit}(?=\s|$)", "", words)
        value = eval(words.replace("^", "**"), {"v": [self.values[name] for name in ordered], **FUNCTIONS})
        return np.broadcast_to(np.asarray(value, float), (self.count,))

    def test(self, words):
        """A plane and its side; which plane it is, its sum and its number tell."""
        if listed := re.fullmatch(r"(not )?in (.*)", words):
            key, is_positive = listed[2], not listed[1]
            self.tests[key], self.within[key] = self.is_in(listed[2]) - 0.5, SHARP
            return key, is_positive
        left, sign, number, within = re.fullmatch(
            r"(.*) ([<>]) (\S+)(?: \w+)??(?: within (\S+)(?: \w+)?)?", words
        ).groups()
        key = f"{left} {number}"
        self.tests.setdefault(key, self.sum(left) - float(number))
        if within is not None:
            self.within[key] = float(within)
        return key, sign == ">"

    def is_in(self, words):
        """`row 0 columns 1, 2 to 4; row 1 column 0`."""
        names = []
        for group in words.split("; "):
            stem, numbers = re.fullmatch(r"(.*?)s? ([\d, to]+)", group).groups()
            for part in numbers.split(", "):
                first, *last = map(int, part.split(" to "))
                names += [f"{stem} {number}" for number in range(first, (last or [first])[0] + 1)]
        return sum(self.values[name] for name in names)

    def skill(self, words, below):
        """(A, N) chances of actions, or (A, N) numbers to set."""
        if words in self.skills:
            return self.skills[words]
        if words == "the largest of":
            scores = np.full((len(self.actions), self.count), -30.0)
            for row in below:
                action, score = row.split(": ", 1)
                scores[self.actions.index(action)] = self.sum(score)
            return np.exp(scores - np.logaddexp.reduce(scores))
        if either := re.fullmatch(r"(.*?) if (.*), else (.*)", words):
            key, is_positive = self.test(either[2])
            margin = self.margin(key) * (1 if is_positive else -1)
            self.tests.pop(key)
            chances = np.full((len(self.actions), self.count), 1e-13)
            chances[self.actions.index(either[1])] = np.exp(-np.logaddexp(0, -margin))
            chances[self.actions.index(either[3])] = np.exp(-np.logaddexp(0, margin))
            return chances
        if " = " in words or (not words and below):
            return self.controls(f"{words}, {', '.join(below)}".strip(", "))
        shares = {
            self.actions.index(SURE.fullmatch(each)[1]): float(SURE.fullmatch(each)[2]) / 100
            for each in words.split(", ")
        }
        rest = (1 - sum(shares.values())) / max(1, len(self.actions) - len(shares))
        return np.array([np.full(self.count, shares.get(a, rest)) for a in range(len(self.actions))])

    def controls(self, words):
        found = dict(re.findall(rf"({'|'.join(map(re.escape, self.actions))}) = (.*?) \(\+- [^)]*\)(?:, |$)", words))
        return np.array([self.sum(found[action]) for action in self.actions])

    def margin(self, key):
        return np.log(9) * self.tests[key] / self.within[key]

    def followed(self):
        """(A, N) of the case that holds, in each state."""
        sides = {key: value > 0 for key, value in self.tests.items()}
        return self.first_case(sides)

    def first_case(self, sides):
        found = np.full_like(np.asarray(self.cases[0][1], float), np.nan)
        left = np.ones(self.count, bool)
        for tests, what in self.cases:
            holds = np.all([left, *(sides[key] == side for key, side in tests)], axis=0)
            found[:, holds], left = what[:, holds], left & ~holds
        assert not left.any(), "no rule applies"
        return found

    def drawn(self):
        """(A, N): the chance of every action when sides are drawn, each for itself."""
        total = 0.0
        for pattern in itertools.product((False, True), repeat=len(self.tests)):
            margins = [self.margin(key) * (1 if side else -1) for key, side in zip(self.tests, pattern)]
            chance = np.exp(-sum((np.logaddexp(0, -each) for each in margins), np.zeros(self.count)))
            sides = {key: np.full(self.count, side) for key, side in zip(self.tests, pattern)}
            total = total + chance * self.first_case(sides)
        return total
