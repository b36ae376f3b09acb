"""What a case does, as it is written: actions with percentages, one of two by a sum, the largest of some, numbers to set."""

import re
from collections.abc import Sequence

from asap.base.numbers import exact
from asap.policy.rules.cursor import NUMBER, Cursor
from asap.policy.rules.read_sums import read_sum
from asap.policy.rules.read_tests import CLOSE, read_chain, read_keep
from asap.policy.rules.rulebook import Choice, Controls, Either, Scores, Skill
from asap.policy.rules.sums import Sum

NARROWEST, WIDEST = 1e-9, 1e9  # Of spreads, relative to the action's range.
ASSIGNMENT = re.compile(r"[\w ]*=(?!=)")
MORE = re.compile(r",|&|(or|and)\b", re.IGNORECASE)


def read_skill(cursor: Cursor, below: Sequence[Cursor], named: Sequence[str]) -> Skill:
    """From here to the end of the line, and of the lines below; `named` are skills that could have been meant."""
    vocabulary = cursor.names.vocabulary
    is_action = cursor.names.actions.at(cursor.text, cursor.offset) is not None
    if not is_action and cursor.take("the"):
        return _scores(cursor, below)
    if vocabulary.action_bounds is not None:
        return read_controls(cursor, below, named)
    if below and cursor.is_at_end:
        below[0].fail("did not expect an action on a line of its own", "put it behind `then` or `otherwise`")
    if below:
        below[0].fail("did not expect a list here", "indent only what belongs to the line above")
    return _choice(cursor, named)


def _choice(cursor: Cursor, named: Sequence[str]) -> Choice | Either:
    actions, start = cursor.names.vocabulary.actions, cursor.offset
    action = None if cursor.sees(ASSIGNMENT) else cursor.needed_action(*named)
    if action is None or cursor.sees(ASSIGNMENT):
        what = "an action is chosen by its name here, not set to a number"
        cursor.fail(what, f"choose from {', '.join(actions[:6])}{', ...' * (len(actions) > 6)}", start)
    if cursor.take("if"):
        return _either(cursor, action)
    shares: dict[int, float] = {}
    while True:
        share = _percent(cursor)
        if action in shares:
            cursor.fail(f"{actions[action]} is named twice", "once is enough", start)
        if share is None and (shares or cursor.sees(MORE)):
            cursor.fail("of several actions each needs a percentage", "as in `a (70 %), b (30 %)`", start)
        shares[action] = 1.0 if share is None else share
        if cursor.take(",", "or") is None:
            break
        start, action = cursor.offset, cursor.needed_action()
    keep = read_keep(cursor)
    cursor.end()
    total = sum(shares.values())
    if total > 1 + CLOSE:
        cursor.fail(f"percentages add up to {_hundreds(total)}", "they may add up to 100", start)
    if len(shares) == len(actions) and total < 1 - CLOSE:
        if total < 0.99:  # Less than what rounding may have lost.
            what = f"percentages of all actions add up to {_hundreds(total)}"
            cursor.fail(what, "make it 100, or leave one action out: it gets the rest", start)
        shares = {each: share / total for each, share in shares.items()}
    return Choice(tuple(sorted(shares.items(), key=lambda pair: -pair[1])), keep)  # Of the same share, as written.


def _hundreds(share: float) -> str:
    return f"{exact(round(100 * share, 9))} %"


def _percent(cursor: Cursor) -> float | None:
    start = cursor.offset
    if not cursor.take("("):
        return None
    share = cursor.needed_number("a percentage", "as in `(90 %)`")
    cursor.expect("%", "as in `(90 %)`")
    cursor.expect(")", "as in `(90 %)`")
    if not 0 <= share <= 100:
        cursor.fail(f"{_hundreds(share / 100)} is no percentage", "write one from 0 to 100", start)
    return share / 100


def _either(cursor: Cursor, action: int) -> Either:
    start, tests = cursor.offset, read_chain(cursor)
    if len(tests) > 1 or cursor.take("and"):
        cursor.fail("a choice of two actions has one comparison", "write cases for several", start)
    cursor.take(",")
    cursor.expect("else", "as in `a if SUM > 0, else b`")
    at, other = cursor.offset, cursor.needed_action()
    if other == action:
        cursor.fail("both actions are the same", "name two", at)
    keep = read_keep(cursor)
    cursor.end()
    return Either(action, other, tests[0]._replace(keep=False), keep or tests[0].keep)


def _scores(cursor: Cursor, below: Sequence[Cursor]) -> Scores:
    actions = cursor.names.vocabulary.actions
    if not (cursor.take("largest") and cursor.take("of")):
        cursor.fail("expected `the largest of`", "below it, indented, `ACTION: SUM` for each action")
    keep = read_keep(cursor)
    cursor.end()
    if cursor.names.vocabulary.action_bounds is not None:
        cursor.fail("here actions are numbers to set", f"as in `{actions[0]} = 1`", 0)
    sums: dict[int, Sum] = {}
    for row in below:
        action = row.needed_action()
        if action in sums:
            row.fail(f"{actions[action]} is named twice", "once is enough", 0)
        row.expect(":", "as in `ACTION: SUM`")
        sums[action] = _plain_sum(row)
        row.end()
    if not sums:
        cursor.fail("the largest of nothing", "indent `ACTION: SUM` below, for each action", 0)
    return Scores.of(sums, len(actions), keep)


def _plain_sum(cursor: Cursor) -> Sum:
    """Of a skill: its units are those of actions, which have no names."""
    first, value = len(cursor.units), read_sum(cursor)
    for name, place in cursor.units[first:]:
        cursor.fail(f"did not expect the unit {name} here", "leave it out: units are for tests", place)
    return value


def read_controls(cursor: Cursor, below: Sequence[Cursor], named: Sequence[str]) -> Controls:
    """One or several on a line, joined by commas, and one on each line below."""
    actions = cursor.names.vocabulary.actions
    found: dict[int, tuple[Sum, float | None]] = {}
    keep = False
    for row in ([] if cursor.is_at_end else [cursor]) + list(below):
        while True:
            if row.sees(NUMBER) and not row.habit():
                row.fail("expected the name of an action to set", f"as in `{actions[0]} = 1`")
            start, action = row.offset, row.needed_action(*named)
            if action in found:
                row.fail(f"{actions[action]} is set twice", "once is enough", start)
            row.expect("=", f"as in `{actions[action]} = 1`")
            found[action] = _plain_sum(row), _spread(row, action)
            if row.take(",") is None:
                break
        keep = read_keep(row) or keep
        row.end()
    missing = [name for a, name in enumerate(actions) if a not in found]
    if missing:
        cursor.fail(f"{missing[0]} is left unset", f"add `{missing[0]} = 0`", 0)
    means, deviations = zip(*(found[a] for a in range(len(actions))))
    return Controls(means, deviations, keep)


def _spread(cursor: Cursor, action: int) -> float | None:
    start = cursor.offset
    if not cursor.take("("):
        return None
    if cursor.take("+-", "±") is None:
        cursor.fail("expected a spread", "as in `(+- 0.3)`", start)
    spread = cursor.needed_number("a spread", "as in `(+- 0.3)`")
    cursor.expect(")", "as in `(+- 0.3)`")
    if spread <= 0:
        cursor.fail("a spread must be positive", "leave it out for none", start)
    if not NARROWEST < spread / cursor.names.vocabulary.action_bounds.scale[action] < WIDEST:
        cursor.fail(f"a spread of {exact(spread)} does not fit the action's range", "leave it out for none", start)
    return spread
