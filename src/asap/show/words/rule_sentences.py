"""The sentences of rules."""

import itertools
import re

from asap.base.numbers import actions_in_words, exact, listed, number, percent, sum_in_full
from asap.show.words.plane_sentences import choice, habits, idle, sizes
from asap.show.words.readings import ControlRule, Losses, MeanReturn, PlaneRule, RulesReading, SkillRule, Sum

MOST_TERMS, NUM_SHOWN = 8, 6  # Of a longer sum only the first so many terms are written.
MOST_STATES = 24
NINETY_OF_TWO = 1.1  # Half of log 9: the score of the other action is the negative.
WORTH_A_RULE = 0.1  # Actions below are left for the list of skills.
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
CELL = re.compile(r"row (\d+) column (\d+)")


def rules_in_words(reading: RulesReading) -> str:
    blocks = [
        [f"{reading.task}: {sizes(reading)}"],
        [f"  {line}" for line in _rules(reading)],
        _remarks(reading),
        [f"What {'each' if reading.planes else 'the'} skill does:", *_skills(reading)],
        _losses(reading.losses),
    ]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def _rules(reading: RulesReading) -> list[str]:
    used = sorted(
        (skill for skill in reading.skills if skill.used), key=lambda skill: tuple(-side for side in skill.sides)
    )
    is_table = _is_table(reading)
    if not reading.planes and not is_table:
        return [line for skill in used for line in _then("everywhere:", skill)]
    if used and used[0].states is not None:
        return [line for skill in used for line in _in_its_states(skill, is_table)]
    if len(reading.planes) == 1:
        return [line for skill in used for line in _then(_if_one(reading.planes[0], skill, len(used)), skill)]
    named = [f"{letter(plane.plane)} = {_written(plane.value)}" for plane in reading.planes]
    return named + [line for skill in used for line in _then(f"if {_sides(reading.planes, skill)} then", skill)]


def _is_table(reading: RulesReading) -> bool:
    """Whether skills weigh each state by itself, so that scores are best told by the action that wins there."""
    states = {name for skill in reading.skills for name in skill.states or ()}
    scores = [score for skill in reading.skills for score in (skill.scores or {}).values()]
    return bool(states and scores) and all(set(score.terms) <= states for score in scores)


def _in_its_states(skill: SkillRule, is_table: bool) -> list[str]:
    if not is_table:
        return _then(f"in {_states(skill.states)}:", skill)
    if not skill.states:
        return [f"skill {skill.skill}: nowhere the likeliest"]
    likeliest = {state: max(skill.scores, key=lambda name: _score(skill.scores[name], state)) for state in skill.states}
    chosen = [(name, tuple(state for state in skill.states if likeliest[state] == name)) for name in skill.scores]
    return [f"skill {skill.skill}:", *(f"  {name} in {_states(states)}" for name, states in chosen if states)]


def _score(score: Sum, state: str) -> float:
    return score.constant + score.terms.get(state, 0.0)


def _if_one(plane: PlaneRule, skill: SkillRule, num_rules: int) -> str:
    if skill.sides[0] < 0 and num_rules > 1:
        return "otherwise"
    return f"if {_compared(plane.value, '>' if skill.sides[0] > 0 else '<')} then"


def _sides(planes: tuple[PlaneRule, ...], skill: SkillRule) -> str:
    return " and ".join(
        f"{letter(plane.plane)} {'>' if side > 0 else '<'} 0" for plane, side in zip(planes, skill.sides)
    )


def letter(plane: int) -> str:
    """What a plane is called where there are several; counted from 1."""
    return LETTERS[plane - 1] if plane <= len(LETTERS) else f"P{plane}"


def _written(value: Sum) -> str:
    return sum_in_full(_shown(value), value.constant, len(value.terms) - len(_shown(value)))


def _compared(value: Sum, sign: str) -> str:
    """`pole angle + 0.3*pole angular velocity > 0.02`."""
    return f"{_written(Sum(value.terms, 0.0))} {sign} {exact(-value.constant)}"


def _shown(value: Sum) -> list[tuple[str, float]]:
    return list(value.terms.items())[: len(value.terms) if len(value.terms) <= MOST_TERMS else NUM_SHOWN]


def _then(condition: str, skill: SkillRule) -> list[str]:
    does = _does(skill)
    return [f"{condition} {does[0]}"] if len(does) == 1 else [condition, *(f"  {line}" for line in does)]


def _does(skill: SkillRule) -> list[str]:
    if skill.actions is not None:
        likely = sorted(
            ((p, name) for name, p in skill.actions.items() if p >= WORTH_A_RULE), key=lambda pair: -pair[0]
        )
        return [" or ".join(f"{name} ({percent(p)})" for p, name in likely) or "any action"]
    if skill.controls is not None:
        return [_set(name, control) for name, control in skill.controls.items()]
    if len(skill.scores) == 2:
        name, other = sorted(skill.scores, key=lambda name: -_first(skill.scores[name]))
        return [f"{name} if {_compared(skill.scores[name], '>')}, else {other}"]
    return [f"the action with the largest score of skill {skill.skill}, below"]


def _first(score: Sum) -> float:
    return next(iter(score.terms.values()), 0.0)


def _set(name: str, control: ControlRule) -> str:
    """`torque = -1.2*sin angle - 0.4*angular velocity, within -2 to 2 (give or take 0.3)`."""
    return f"{name} = {_written(control.mean)}{_within(control)} (give or take {exact(control.deviation)})"


def _within(control: ControlRule) -> str:
    match control.low, control.high:
        case None, None:
            return ""
        case None, high:
            return f", at most {exact(high)}"
        case low, None:
            return f", at least {exact(low)}"
        case low, high:
            return f", within {exact(low)} to {exact(high)}"


def _states(names: tuple[str, ...]) -> str:
    if not names:
        return "no state"
    cells = [CELL.fullmatch(name) for name in names]
    if all(cells):
        rows = itertools.groupby((cell.groups() for cell in cells), key=lambda cell: cell[0])
        return "; ".join(_row(row, [column for _, column in columns]) for row, columns in rows)
    more = len(names) - MOST_STATES
    return ", ".join(names[:MOST_STATES]) + (f" and {more} more" if more > 0 else "")


def _row(row: str, columns: list[str]) -> str:
    return f"row {row} column{'s' if len(columns) > 1 else ''} {listed(columns)}"


def _remarks(reading: RulesReading) -> list[str]:
    drifting = "in the units of NormalizeObservation, which drift"
    where = drifting if reading.normalized else "in the environment's own units"
    numbers = f"Numbers have two digits, {where}."
    if reading.scaled:
        numbers = f"Numbers have two digits{f', {drifting}' if reading.normalized else ''}."
        numbers += " Inside waves and units an input counts in deviations from its mean:"
    scaled = (
        f"  ({sum_in_full([(name, 1.0)], -mean)}) / {exact(size)}" for name, (mean, size) in reading.scaled.items()
    )
    lines = [] if _is_table(reading) or not _sums(reading) else [numbers, *scaled]
    units = [(name, weights) for name, weights in reading.units.items() if name in _terms(reading)]
    if units:
        lines.append("Units are learned, from -1 to 1; they are played as learned, and weigh most (times so much):")
        lines += [
            f"  {name}: {', '.join(f'{each} ({exact(w)})' for each, w in weights.items())}" for name, weights in units
        ]
    if not reading.planes:
        return lines
    return [*lines, choice(reading.termination), *_borders(reading)]


def _sums(reading: RulesReading) -> list[Sum]:
    sums = [plane.value for plane in reading.planes]
    for skill in reading.skills:
        sums += (skill.scores or {}).values()
        sums += (control.mean for control in (skill.controls or {}).values())
    return sums


def _terms(reading: RulesReading) -> set[str]:
    """All that is written anywhere."""
    return {name for value in _sums(reading) for name, _ in _shown(value)}


def _borders(reading: RulesReading) -> list[str]:
    """How decided a plane is."""
    if reading.skills[0].states is not None:
        return ["A state is listed with its likeliest skill, which need not be the only one there."]
    if len(reading.planes) == 1:
        return [
            f"At the boundary both sides are equally likely; {exact(reading.planes[0].reach)} beyond it, the side has 90 %."
        ]
    reaches = [f"{exact(plane.reach)} of {letter(plane.plane)}" for plane in reading.planes]
    return [f"At a boundary both sides are equally likely; beyond {listed(reaches)}, the side has 90 %."]


def _skills(reading: RulesReading) -> list[str]:
    is_table = _is_table(reading)
    lines = [f"  {line}" for skill in reading.skills if skill.used for line in _skill(skill, is_table)]
    return lines + idle(reading.skills)


def _skill(skill: SkillRule, is_table: bool) -> list[str]:
    if skill.actions is not None:
        does = actions_in_words(tuple(skill.actions), tuple(skill.actions.values()))
        return [f"skill {skill.skill}: " + "; ".join([does, *habits(skill)])]
    if skill.controls is not None:
        return [f"skill {skill.skill}: " + "; ".join([f"sets {listed(list(skill.controls))}", *habits(skill)])]
    if is_table:
        return [
            f"skill {skill.skill}: "
            + "; ".join(["chooses state by state, its likeliest actions are above", *habits(skill)])
        ]
    if len(skill.scores) == 2:
        border = f"at its boundary both actions are equally likely, {exact(NINETY_OF_TWO)} beyond it one has 90 %"
        return [f"skill {skill.skill}: " + "; ".join([border, *habits(skill)])]
    head = "; ".join(["an action's chance is proportional to exp(score)", *habits(skill)])
    return [
        f"skill {skill.skill}: {head}",
        *(f"  score of {name}: {_written(score)}" for name, score in skill.scores.items()),
    ]


def _losses(losses: Losses | None) -> list[str]:
    if losses is None:
        return []
    return [
        f"Mean return of {losses.episodes} episodes each, +- its standard error:",
        f"  {_mean(losses.stochastic)} as learned, skills and actions sampled",
        f"  {_mean(losses.deterministic)} with the most probable skill and action: {_lost(losses, losses.deterministic)}",
        f"  {_mean(losses.rounded)} with the rounded numbers above, most probable skill and action: {_lost(losses, losses.rounded)}",
    ]


def _mean(value: MeanReturn) -> str:
    return f"{number(value.mean)} +- {number(value.error)}"


def _lost(losses: Losses, after: MeanReturn) -> str:
    """Where the difference is within twice its standard error, it may as well be chance."""
    before = losses.stochastic
    change = after.mean - before.mean
    if abs(change) <= 2 * (after.error**2 + before.error**2) ** 0.5:
        return "nothing lost" if change == 0 else f"{number(abs(change))} {_less(change)}, which may be chance"
    are_positive = before.mean > 0 and after.mean >= 0  # A share of a negative return says nothing.
    share = f" ({percent(abs(change / before.mean))})" if are_positive else ""
    return f"{number(abs(change))}{share} {_less(change)}"


def _less(change: float) -> str:
    return "less" if change < 0 else "more"
