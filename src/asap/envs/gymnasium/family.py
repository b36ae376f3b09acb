"""Environments that share a policy: which can, and the numbers m that tell one from another.

m has a number for each parameter that is not the same everywhere, scaled to [-1, 1] over the family, and one for each
further base where names differ in more than parameters. A task that does not set a parameter has the environment's own
value. Whoever sees a task that is not of the family, `placed` puts it on the same scale.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from asap.base.errors import UserError
from asap.base.spec import Drawn, Unit, base_of
from asap.envs.gymnasium.parameters import FIELD, Parameter
from asap.envs.gymnasium.task import HostedTask, kind_of_space, with_own_values


class Axis(NamedTuple):
    """A number of m: of a parameter from its lowest to its highest value, or of a base: 0 or 1."""

    name: str
    low: float
    high: float
    base: str = ""  # For which the number is 1.

    @property
    def unit(self) -> Unit:
        return Unit("", (self.high - self.low) / 2, (self.high + self.low) / 2)

    def scaled(self, value: float) -> float:
        return 2 * (value - self.low) / (self.high - self.low) - 1

    def within(self, task: HostedTask) -> Parameter:
        if self.base:
            return Parameter(self.name, 0, 0).at(float(base_of(task.name) == self.base))
        return value_in(task, self.name)


def joined(tasks: Sequence[HostedTask]) -> tuple[HostedTask, ...]:
    """The tasks of a run, each with its numbers; those that can't share a policy are refused."""
    for task in tasks[1:]:
        require_alike(tasks[0], task)
    if any(task.source.named.parameters for task in tasks):
        tasks = tuple(map(with_own_values, tasks))
    axes = axes_of(tasks)
    return tuple(placed(task, axes, tasks) for task in tasks)


def axes_of(tasks: Sequence[HostedTask]) -> tuple[Axis, ...]:
    names = dict.fromkeys(one.name for task in tasks for one in task.source.named.parameters)
    axes = []
    for name in names:
        values = [value_in(task, name) for task in tasks]
        low, high = min(one.low for one in values), max(one.high for one in values)
        if low < high:
            axes.append(Axis(name, low, high))
    bases = list(dict.fromkeys(base_of(task.name) for task in tasks))
    return (*axes, *(Axis(f"is {base}", 0.0, 1.0, base) for base in bases[1:]))


def value_in(task: HostedTask, name: str) -> Parameter:
    """What a task sets, or what its environment has where it sets nothing."""
    for one in task.source.named.parameters:
        if one.name == name:
            return one
    if name not in task.own_values:
        what = f"{task.name} says no '{name}', by which the tasks differ, and has none of its own"
        raise UserError(FIELD, what, task.name, f"write {base_of(task.name)}?{name}=NUMBER")
    return Parameter(name, 0, 0).at(task.own_values[name])


def placed(task: HostedTask, axes: Sequence[Axis], family: Sequence[HostedTask]) -> HostedTask:
    """The task with its numbers on the scale of a family, and with the widest bounds and the longest limit in it."""
    values = [axis.within(task) for axis in axes]
    spreads = [(one.high - one.low) / (axis.high - axis.low) for axis, one in zip(axes, values)]
    drawn = tuple(Drawn(axis.name, spread) for axis, spread in zip(axes, spreads)) if any(spreads) else ()
    specs = [each.spec for each in (*family, task)]
    observed = [_displayed(axis.name, task.spec.observation_names) for axis in axes]
    spec = dataclasses.replace(
        task.spec,
        observation_low=tuple(np.min([each.observation_low for each in specs], axis=0).tolist()),
        observation_high=tuple(np.max([each.observation_high for each in specs], axis=0).tolist()),
        horizon=max(each.horizon for each in specs),
        descriptor_names=tuple(observed),
        descriptor_units=tuple(axis.unit for axis in axes),
    )
    middle = tuple(axis.scaled(one.middle) for axis, one in zip(axes, values))
    own = {axis.name: task.own_values[axis.name] for axis in axes if axis.name in task.own_values}
    return dataclasses.replace(task, spec=spec, descriptor=middle, drawn=drawn, recorded_values=own)


def _displayed(name: str, observations: Sequence[str]) -> str:
    """An observation may have the name of a parameter: rules must tell them apart."""
    return f"{name} of the task" if name in observations else name


def outside(task: HostedTask) -> list[str]:
    """Numbers beyond those that the family was trained on, in words."""
    units = zip(task.spec.descriptor_names, task.spec.descriptor_units, task.descriptor)
    return [
        f"{name} = {unit.read(value):.6g} is outside of what was trained on, {unit.read(-1):.6g} to {unit.read(1):.6g}"
        for name, unit, value in units
        if abs(value) > 1 + 1e-9
    ]


def require_alike(first: HostedTask, other: HostedTask) -> None:
    """One policy sees the same observations in all, and has the same actions."""
    for what, parts in {
        "observations": [kind_of_space(task.observation_space) for task in (first, other)],
        "actions": [kind_of_space(task.action_space) for task in (first, other)],
        "names of observations": [task.spec.observation_names for task in (first, other)],
        "names of actions": [task.spec.action_names for task in (first, other)],
        "bounds of actions": [(task.spec.action_low, task.spec.action_high) for task in (first, other)],
    }.items():
        if parts[0] != parts[1]:
            said = f"'{first.name}' and '{other.name}' cannot share one policy: they have other {what}"
            raise UserError("tasks", said, f"{first.name} {other.name}", "train them apart")
