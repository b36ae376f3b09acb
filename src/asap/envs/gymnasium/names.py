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
    names = _given(env, "observation_names", count, notice) or _fitting(_known(env).observations, count)
    if names:
        return names
    if isinstance(space, spaces.Discrete):
        columns = GRID_COLUMNS[_stem(env)](env.unwrapped) if _stem(env) in GRID_COLUMNS else None
        states = range(int(space.start), int(space.start + space.n))
        return tuple(f"state {s}" if columns is None else f"row {s // columns} column {s % columns}" for s in states)
    numbers = _numbered("obs", space.shape)
    return _values(numbers, space) if isinstance(space, spaces.MultiDiscrete) else numbers


def _names_of_parts(space: spaces.Dict, given: Any, notice: Notice) -> tuple[str, ...]:
    """By their keys, or by what the environment calls them: `tank`, `arm.joint[0]`, `mode is 2`."""
    names = tuple(_by_key(space, "", given, "observation_names", notice))
    cure = "rename a key, or give the environment observation_names by key"
    for name, count in Counter(names).items():
        if count > 1:
            raise UserError("observation_space", "two parts of Dict have the same name", name, cure)
        if not is_name(name):
            what = f"a part has a name of more than {LONGEST_NAME} characters"
            raise UserError("observation_space", what, name, cure)
    return names


def _by_key(space: Space, name: str, given: Any, field: str, notice: Notice) -> Iterator[str]:
    """`given` is what the environment calls this part: one name, a name for each of its numbers, or None."""
    if isinstance(space, spaces.Dict):
        if given is not None and not isinstance(given, Mapping):
            cure = f"give them by key: {_form(space)}"
            notice(f"env: {field}: not used, because they do not say which part of Dict each belongs to; {cure}")
            given = None
        given = given or {}
        for key in itertools.islice((key for key in given if key not in space.spaces), 1):
            keys = ", ".join(space.spaces)
            notice(f"env: {field}: {ascii(key)[:80]} is no key of the observations; their keys are {keys}")
        for key, part in space.spaces.items():
            yield from _by_key(part, f"{name}.{key}" if name else key, given.get(key), f"{field}[{key!r}]", notice)
        return
    is_named = isinstance(given, str) and is_name(given) and bool(given.strip())
    name = " ".join(given.split()) if is_named else name
    places = itertools.product(*map(range, space.shape))
    names = [name] if space.shape in ((), (1,)) else [f"{name}[{', '.join(map(str, place))}]" for place in places]
    is_listed = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
    if given is not None and not is_named:
        each = _checked(given, num_numbers(space))
        if each:
            yield from each
            return
        own = _checked(given, len(names)) if is_listed else ()
        if not own:
            notice(_misfit(given, num_numbers(space), field))
        names = own or names
    yield from _values(names, space) if is_listed else names


def _form(space: Space) -> str:
    """How names of the parts are written."""
    if not isinstance(space, spaces.Dict):
        is_one = isinstance(space, spaces.Discrete) or math.prod(space.shape) == 1
        return "'NAME'" if is_one else "['NAME', ...]"
    parts = [f"{key!r}: {_form(part)}" for key, part in itertools.islice(space.spaces.items(), MOST_KEYS)]
    return f"{{{', '.join(parts)}{', ...' if len(space.spaces) > MOST_KEYS else ''}}}"


def _values(names: Sequence[str], space: spaces.Discrete | spaces.MultiDiscrete) -> tuple[str, ...]:
    """A name for each value of each number."""
    return tuple(f"{name} is {value}" for name, values in zip(names, choices(space), strict=True) for value in values)


def action_names(env: Any, notice: Notice) -> tuple[str, ...]:
    """One per action to choose from, or per number to set; `notice` hears of names that are not used."""
    space, known, count = env.action_space, _known(env), num_actions(env.action_space)
    is_combined = isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary)
    by_parts = _given_combinations(env, space) if is_combined else ()
    names = by_parts or _given(env, "action_names", count, notice)
    names = names or _fitting(known.controls if isinstance(space, spaces.Box) else known.actions, count)
    if names:
        return names
    if is_combined:
        return tuple(f"action ({', '.join(map(str, values))})" for values in combinations(space))
    if isinstance(space, spaces.Discrete):
        return tuple(f"action {value}" for value in choices(space)[0])
    return _numbered("action", space.shape or (1,))


def _given_combinations(env: Any, space: spaces.MultiDiscrete | spaces.MultiBinary) -> tuple[str, ...]:
    """`left + fire`, where the environment has names for each part; of switches with a name each, those that are on."""
    parts, count = choices(space), num_actions(space)
    if _given(env, "action_names", count):  # All combinations have a name.
        return ()
    for given in _attributes(env, "action_names"):
        values = [_checked(each, len(part)) for each, part in zip(_items(given, len(parts)), parts)]
        if len(values) == len(parts) and all(values):
            return _checked(map(" + ".join, itertools.product(*values)), count)
    names = _given(env, "action_names", len(parts))
    if not names:
        return ()
    if isinstance(space, spaces.MultiBinary):
        on = ([name for name, is_on in zip(names, switches) if is_on] for switches in combinations(space))
        return _checked((" + ".join(each) or "nothing" for each in on), count)
    pairs = (zip(names, values) for values in combinations(space))
    return _checked((" + ".join(f"{name} {value}" for name, value in each) for each in pairs), count)


def _given(env: Any, field: str, count: int, notice: Notice | None = None) -> tuple[str, ...]:
    """Names that the environment itself gives; empty, with a notice, if they do not fit."""
    attributes = _attributes(env, field)
    names = next(filter(None, (_checked(given, count) for given in attributes)), ())
    if attributes and not names and notice is not None:
        notice(_misfit(attributes[0], count, field))
    return names


def _misfit(given: Any, count: int, field: str) -> str:
    """Why names are not used."""
    number, what = len(_items(given, MOST_COUNTED)), field.partition("_")[0]
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
    given = tuple(" ".join(str(each).split()) for each in items if not isinstance(each, list | tuple))
    return given if _fitting(given, count) and all(given) and all(map(is_name, given)) else ()


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
