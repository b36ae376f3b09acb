"""What the numbers and actions of an environment are called: by itself, by what we know of it, or by their place."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gymnasium import Space, spaces

from asap.base.errors import UserError
from asap.envs.gymnasium.known_names import GRID_COLUMNS, KNOWN, KnownNames
from asap.envs.gymnasium.spaces import choices, combinations, num_actions, num_numbers

LONGEST_NAME = 200  # Characters.
MOST_KEYS = 4  # Of a Dict, shown where the user must give names by key.
MOST_COUNTED = 9999  # Names that an environment gives.

Notice = Callable[[str], None]


def observation_names(env: Any, notice: Notice) -> tuple[str, ...]:
    """One per number of the vector that stands for an observation; `notice` hears of names that are not used."""
    space, count = env.observation_space, num_numbers(env.observation_space)
    if isinstance(space, spaces.Dict):
        return _names_of_parts(space, next(iter(_attributes(env, "observation_names")), None), notice)
    told = _told(env, "observation_names", count)
    if not told:
        _tell_misfit(env, "observation_names", count, notice)
        told = _fitting(_known(env).observations, count)
    if told:
        return told
    if isinstance(space, spaces.Discrete):
        columns = GRID_COLUMNS[_stem(env)](env.unwrapped) if _stem(env) in GRID_COLUMNS else None
        states = range(int(space.start), int(space.start + space.n))
        return tuple(f"state {s}" if columns is None else f"row {s // columns} column {s % columns}" for s in states)
    numbers = _numbered("obs", space.shape)
    return _values(numbers, space) if isinstance(space, spaces.MultiDiscrete) else numbers


def _names_of_parts(space: spaces.Dict, told: Any, notice: Notice) -> tuple[str, ...]:
    """By their keys, or by what the environment calls them: `tank`, `arm.joint[0]`, `mode is 2`."""
    names = tuple(_by_key(space, "", told, "observation_names", notice))
    cure = "rename a key, or give the environment observation_names by key"
    for name, count in Counter(names).items():
        if count > 1:
            raise UserError("observation_space", "two parts of Dict have the same name", name, cure)
        if not is_name(name):
            raise UserError(
                "observation_space", f"a part has a name of more than {LONGEST_NAME} characters", name, cure
            )
    return names


def _by_key(space: Space, name: str, told: Any, field: str, notice: Notice) -> Iterator[str]:
    """`told` is what the environment calls this part: one name, a name for each of its numbers, or None."""
    if isinstance(space, spaces.Dict):
        if told is not None and not isinstance(told, Mapping):
            cure = f"give them by key: {_form(space)}"
            notice(f"env: {field}: not used, because they do not say which part of Dict each belongs to; {cure}")
            told = None
        told = told or {}
        for key in itertools.islice((key for key in told if key not in space.spaces), 1):
            notice(
                f"env: {field}: {ascii(key)[:80]} is no key of the observations; their keys are {', '.join(space.spaces)}"
            )
        for key, part in space.spaces.items():
            yield from _by_key(part, f"{name}.{key}" if name else key, told.get(key), f"{field}[{key!r}]", notice)
        return
    is_told = isinstance(told, str) and is_name(told) and bool(told.strip())
    name = " ".join(told.split()) if is_told else name
    places = itertools.product(*map(range, space.shape))
    names = [name] if space.shape in ((), (1,)) else [f"{name}[{', '.join(map(str, place))}]" for place in places]
    is_listed = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
    if told is not None and not is_told:
        each = _checked(told, num_numbers(space))
        if each:
            yield from each
            return
        given = _checked(told, len(names)) if is_listed else ()
        if not given:
            notice(_misfit(told, num_numbers(space), field))
        names = given or names
    yield from _values(names, space) if is_listed else names


def _form(space: spaces.Dict) -> str:
    """How names of the parts are written."""
    parts = [f"{key!r}: {_form_of_part(part)}" for key, part in itertools.islice(space.spaces.items(), MOST_KEYS)]
    return f"{{{', '.join(parts)}{', ...' if len(space.spaces) > MOST_KEYS else ''}}}"


def _form_of_part(part: Space) -> str:
    if isinstance(part, spaces.Dict):
        return _form(part)
    is_one = isinstance(part, spaces.Discrete) or math.prod(part.shape) == 1
    return "'NAME'" if is_one else "['NAME', ...]"


def _values(names: Sequence[str], space: spaces.Discrete | spaces.MultiDiscrete) -> tuple[str, ...]:
    """A name for each value of each number."""
    return tuple(f"{name} is {value}" for name, values in zip(names, choices(space), strict=True) for value in values)


def action_names(env: Any, notice: Notice) -> tuple[str, ...]:
    """One per action to choose from, or per number to set; `notice` hears of names that are not used."""
    space, known, count = env.action_space, _known(env), num_actions(env.action_space)
    is_combined = isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary)
    told = _told(env, "action_names", count) or (_told_combinations(env, space) if is_combined else ())
    if not told:
        _tell_misfit(env, "action_names", count, notice)
    named = told or _fitting(known.controls if isinstance(space, spaces.Box) else known.actions, count)
    if named:
        return named
    if is_combined:
        return tuple(f"action ({', '.join(map(str, values))})" for values in combinations(space))
    if isinstance(space, spaces.Discrete):
        return tuple(f"action {value}" for value in choices(space)[0])
    return _numbered("action", space.shape or (1,))


def _told_combinations(env: Any, space: spaces.MultiDiscrete | spaces.MultiBinary) -> tuple[str, ...]:
    """`left + fire`, where the environment has a list of names for each part; of switches with a name each, those that
    are on."""
    parts, count = choices(space), num_actions(space)
    for told in _attributes(env, "action_names"):
        values = [_checked(each, len(part)) for each, part in zip(_items(told, len(parts)), parts)]
        if len(values) == len(parts) and all(values):
            return _checked(map(" + ".join, itertools.product(*values)), count)
    names = _told(env, "action_names", len(parts))
    if not names:
        return ()
    if isinstance(space, spaces.MultiBinary):
        on = ([name for name, is_on in zip(names, switches) if is_on] for switches in combinations(space))
        return _checked((" + ".join(each) or "nothing" for each in on), count)
    pairs = (zip(names, values) for values in combinations(space))
    return _checked((" + ".join(f"{name} {value}" for name, value in each) for each in pairs), count)


def _told(env: Any, field: str, count: int) -> tuple[str, ...]:
    """Names that the environment itself gives; empty if they do not fit."""
    return next(filter(None, (_checked(told, count) for told in _attributes(env, field))), ())


def _tell_misfit(env: Any, field: str, count: int, notice: Notice) -> None:
    for told in _attributes(env, field)[:1]:
        notice(_misfit(told, count, field))


def _misfit(told: Any, count: int, field: str) -> str:
    """Why names are not used."""
    number, what = len(_items(told, MOST_COUNTED)), field.partition("_")[0]
    if number in (0, count):
        return f"env: {field}: must be {'1 name' if count == 1 else f'{count} different names'}; not used"
    return f"env: {field}: {number} name{'s' * (number != 1)} for {count} {what}{'s' * (count != 1)}; not used"


def _attributes(env: Any, name: str) -> list[Any]:
    """What the environment has by that name, as an attribute or in its metadata."""
    found = []
    for look in (lambda: getattr(env.unwrapped, name), lambda: env.metadata[name]):
        try:
            found.append(look())
        except Exception:  # There may be anything by that name, or nothing.
            continue
    return found


def _checked(names: Any, count: int) -> tuple[str, ...]:
    """So many different names, each fit to be printed; empty otherwise."""
    items = _items(names, count)
    told = tuple(" ".join(str(each).split()) for each in items if not isinstance(each, list | tuple))
    return told if _fitting(told, count) and all(told) and all(map(is_name, told)) else ()


def _items(names: Any, count: int) -> list[Any]:
    """The first of them, and one more than there should be at most."""
    if isinstance(names, str):
        return [names]
    try:
        return list(itertools.islice(names, count + 1))
    except Exception:
        return []


def _fitting(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    return names if len(names) == len(set(names)) == count else ()


def is_name(text: Any) -> bool:
    """Fit to be printed, and short enough to be read."""
    return isinstance(text, str) and text.isprintable() and len(text) <= LONGEST_NAME


def _known(env: Any) -> KnownNames:
    return KNOWN.get(_stem(env), KnownNames())


def _stem(env: Any) -> str:
    """The environment's id without its version."""
    return env.spec.id.partition("-v")[0] if env.spec is not None else ""


def _numbered(name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    places = itertools.product(*(range(size) for size in shape))
    return tuple(f"{name} {','.join(str(i) for i in place)}" for place in places)
