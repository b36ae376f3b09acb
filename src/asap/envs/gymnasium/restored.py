"""A task of an environment from its record in a file, which a stranger may have written: every part is checked."""

from typing import Any

from asap.base.errors import UserError
from asap.base.spec import Spec
from asap.envs.gymnasium import spaces as space_records
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.envs.gymnasium.names import is_name
from asap.envs.gymnasium.parameters import MOST, Parameter
from asap.envs.gymnasium.spaces import check_spaces, num_actions, num_numbers
from asap.envs.gymnasium.task import HostedTask, is_threshold, spec_of_spaces


def _checked_spec(spec: Spec, name: str) -> Spec:
    """A stranger may have written it: names must be fit to be printed, and numbers be numbers."""
    if not (isinstance(spec.observation_names, tuple) and isinstance(spec.action_names, tuple)):
        raise ValueError("names are lists")
    for text in (name, *spec.observation_names, *spec.action_names):
        if not is_name(text):
            raise ValueError(f"{text!r} is no name")
    if (type(spec.horizon), type(spec.discount)) != (int, float) or spec.horizon < 1 or not 0 <= spec.discount <= 1:
        raise ValueError("no horizon or discount")
    if type(spec.normalized) is not bool:
        raise ValueError("normalized is true or false")
    if spec.units or spec.place or spec.descriptor_names or spec.descriptor_units:
        raise ValueError("units and places are of our own tasks")
    return spec


def _checked_values(values: Any) -> dict[str, float]:
    """A stranger may have written them."""
    if not isinstance(values, dict) or len(values) > MOST:
        raise ValueError("own values are a few numbers by their names")
    return {Parameter.of(name, value).name: float(value) for name, value in values.items()}


def restore(record: dict[str, Any]) -> HostedTask:
    """The task of a record, checked: its numbers decide shapes."""
    try:
        spaces_ = [space_records.restore(record[name]) for name in ("observation_space", "action_space")]
        check_spaces(*spaces_)
        spec = {name: tuple(value) if isinstance(value, list) else value for name, value in record["spec"].items()}
        if spec.pop("unit", ""):  # Earlier releases had one, empty for environments.
            raise ValueError("units are of our own tasks")
        spec = _checked_spec(Spec(**{**spec, **spec_of_spaces(*spaces_)}), str(record["name"]))
        source, limits = EnvSource(str(record["name"]), dict(record["options"])), EnvLimits.checked(*record["rules"])
        own_values = _checked_values(record.get("own_values", {}))
        _ = source.named  # Refused where it is no name.
        sizes = [num_numbers(spaces_[0]), num_actions(spaces_[1])]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, AssertionError, RecursionError) as error:
        raise UserError("task", "cannot be read from the file", type(error).__name__, "save it again") from None
    if sizes != [len(spec.observation_names), spec.num_actions]:
        raise UserError("task", "names and spaces in the file do not fit", sizes, "save it again")
    threshold = record.get("reward_threshold")
    if not is_threshold(threshold):
        raise UserError("task", "has a reward threshold that is no number", repr(threshold)[:80], "save it again")
    return HostedTask(
        source.name,
        source,
        limits,
        spec,
        threshold,
        *spaces_,
        is_recorded=True,
        own_values=own_values,
        recorded_values=own_values,
    )
