"""What the numbers and actions of an environment are called: by itself, by what we know of it, or by their place."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from gymnasium import Space, spaces

from asap.base.errors import UserError
from asap.envs.gymnasium.known_names import GRID_COLUMNS, KNOWN, Names
from asap.envs.gymnasium.spaces import choices, combinations, num_actions, num_numbers

LONGEST_NAME = 200  # Characters.


def observation_names(env: Any) -> tuple[str, ...]:
    """One per number of the vector that stands for an observation."""
    space, count = env.observation_space, num_numbers(env.observation_space)
    told = _told(env, "observation_names", count) or _fitting(_known(env).observations, count)
    if told:
        return told
    if isinstance(space, spaces.Dict):
        return _names_of_parts(space)
    if isinstance(space, spaces.Discrete):
        columns = GRID_COLUMNS[_stem(env)](env.unwrapped) if _stem(env) in GRID_COLUMNS else None
        states = range(int(space.start), int(space.start + space.n))
        return tuple(f"state {s}" if columns is None else f"row {s // columns} column {s % columns}" for s in states)
    numbers = _numbered("obs", space.shape)
    return _values(numbers, space) if isinstance(space, spaces.MultiDiscrete) else numbers


def _names_of_parts(space: spaces.Dict) -> tuple[str, ...]:
    """By their keys: `tank`, `arm.joint[0]`, `mode is 2`."""
    names, cure = tuple(_by_key(space, "")), "rename a key, or give the environment observation_names"
    for name, count in Counter(names).items():
        if count > 1:
            raise UserError("observation_space", "two parts of Dict have the same name", name, cure)
        if not is_name(name):
            raise UserError(
                "observation_space", f"a part has a name of more than {LONGEST_NAME} characters", name, cure
            )
    return names


def _by_key(space: Space, key: str) -> Iterator[str]:
    if isinstance(space, spaces.Dict):
        for name, part in space.spaces.items():
            yield from _by_key(part, f"{key}.{name}" if key else name)
        return
    is_one = space.shape in ((), (1,))
    places = itertools.product(*map(range, space.shape))
    names = [key] if is_one else [f"{key}[{', '.join(map(str, place))}]" for place in places]
    yield from _values(names, space) if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else names


def _values(names: Sequence[str], space: spaces.Discrete | spaces.MultiDiscrete) -> tuple[str, ...]:
    """A name for each value of each number."""
    return tuple(f"{name} is {value}" for name, values in zip(names, choices(space), strict=True) for value in values)


def action_names(env: Any) -> tuple[str, ...]:
    """One per action to choose from, or per number to set."""
    space, known, count = env.action_space, _known(env), num_actions(env.action_space)
    is_combined = isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary)
    told = _told(env, "action_names", count) or (_told_combinations(env, space) if is_combined else ())
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


def _told(env: Any, name: str, count: int) -> tuple[str, ...]:
    """Names that the environment itself gives; empty if they do not fit."""
    return next(filter(None, (_checked(told, count) for told in _attributes(env, name))), ())


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
    return told if _fitting(told, count) and all(map(is_name, told)) else ()


def _items(names: Any, count: int) -> list[Any]:
    """The first of them, and one more than there should be at most."""
    try:
        return list(itertools.islice(names, count + 1))
    except Exception:
        return []


def _fitting(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    return names if len(names) == len(set(names)) == count else ()


def is_name(text: Any) -> bool:
    """Fit to be printed, and short enough to be read."""
    return isinstance(text, str) and text.isprintable() and len(text) <= LONGEST_NAME


def _known(env: Any) -> Names:
    return KNOWN.get(_stem(env), Names())


def _stem(env: Any) -> str:
    """The environment's id without its version."""
    return env.spec.id.partition("-v")[0] if env.spec is not None else ""


def _numbered(name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    places = itertools.product(*(range(size) for size in shape))
    return tuple(f"{name} {','.join(str(i) for i in place)}" for place in places)
