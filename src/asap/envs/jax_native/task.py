"""JAX environments of others as tasks: looked at once, described like a Gymnasium environment, and compiled with the
learner like our own tasks."""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from asap.base.errors import UserError
from asap.base.spec import Spec
from asap.envs.gymnasium.checked_env import DEFAULT_LIMIT
from asap.envs.gymnasium.defaults import PLAY_SETTINGS
from asap.envs.gymnasium.family import Axis
from asap.envs.gymnasium.make import EnvLimits, EnvNotMade, EnvSource
from asap.envs.gymnasium.names import action_names, observation_names
from asap.envs.gymnasium.spaces import check_spaces
from asap.envs.gymnasium.task import DISCOUNT, EnvTask, require_fit, seen_from, spec_of_spaces
from asap.envs.jax_native.env import Dynamics, JaxEnv
from asap.envs.jax_native.interface import (
    GYMNAX,
    JaxSource,
    changed_fields,
    checked_fields,
    known_numbers,
    limit_of,
    space_of,
    with_fields,
)
from asap.envs.jax_native.probe import looked_at


@dataclass(frozen=True)
class JaxTask(EnvTask):
    """An environment with `reset_env` and `step_env`."""

    env: JaxEnv | None = None  # None: read from a file, and nobody has made it in this process.
    params: Mapping[str, float] | None = dataclasses.field(default_factory=dict)  # Not as by default; None: no numbers.
    # Of a family: the numbers that are not the same.
    task: Mapping[str, float] = dataclasses.field(default_factory=dict)
    axes: tuple[Axis, ...] = ()
    budget_settings: ClassVar[tuple[tuple[int, Mapping[str, Any]], ...]] = ()  # Steps are cheap here.
    play_settings: ClassVar[Mapping[str, Any]] = {
        **PLAY_SETTINGS,
        "learn.lanes": 16,
        "run.chunk": 10,
        "run.eval_episodes": 32,
    }

    def record(self) -> dict[str, Any]:
        return {**super().record(), "compiled": True, "params": None if self.params is None else dict(self.params)}


def describe(
    made: JaxSource, source: EnvSource, limits: EnvLimits, values: Mapping[str, float] | None = None
) -> JaxTask:
    """Looks at an environment; `values` are for fields of its parameters. UserError where it can't be learned."""
    env, params = made.env, with_fields(made.params, checked_fields(made.params, values or {}))
    observed, acted = (space_of(env, params, field) for field in ("observation_space", "action_space"))
    check_spaces(observed, acted)
    if not isinstance(observed, spaces.Box | spaces.Discrete) or not isinstance(acted, spaces.Box | spaces.Discrete):
        what, got = "only Box and Discrete can be compiled with the learner", f"{observed}, {acted}"
        raise UserError("env", what, got[:160], "flatten it")
    limit = limit_of(params)
    dynamics, notes = looked_at(
        Dynamics(env, params, observed, acted, reward_scale=limits.reward_scale), limit, source.name
    )
    own = DEFAULT_LIMIT if limit is None else limit[1]
    horizon = min(limits.max_steps or own, dynamics.limit or sys.maxsize)
    if source.named.parameters:
        which = ", ".join(one.name for one in source.named.parameters)
        notes.append(f"env: {which} set; parameters that were computed from them by default stay: set these too")
    known = _gymnasium_id(source.base, env)
    shown = SimpleNamespace(observation_space=observed, action_space=acted, unwrapped=env)
    shown.metadata, shown.spec = getattr(env, "metadata", {}), SimpleNamespace(id=known)
    spec = Spec(
        observation_names=observation_names(shown, notes.append),
        action_names=action_names(shown, notes.append),
        horizon=horizon,
        discount=DISCOUNT,
        **spec_of_spaces(observed, acted),
    )
    changed = changed_fields(params, JaxSource.of(env).params)
    threshold = _threshold(known, horizon) if changed == {} else None
    described = source.name, source, limits, spec, threshold, observed, acted, tuple(notes)
    own = {name: float(value) for name, value in known_numbers(params).items()}
    return JaxTask(*described, env=JaxEnv(spec, dynamics), params=changed, own_values=own)


def of_record(task: EnvTask, params: Any) -> JaxTask:
    """A task that was read from a file, whose numbers are a stranger's."""
    is_plain = isinstance(params, dict) and all(
        isinstance(name, str) and isinstance(value, int | float) and np.isfinite(value)
        for name, value in params.items()
    )
    if not is_plain and params is not None:
        raise UserError("task", "has parameters that are no numbers", repr(params)[:80], "save it again")
    return JaxTask(**{field.name: getattr(task, field.name) for field in dataclasses.fields(EnvTask)}, params=params)


def playable(task: Any, notice: Callable[[str], None]) -> Any:
    """The task with its environment, which is made where the task was read from a file: it must still be what it was."""
    if not isinstance(task, JaxTask) or task.env is not None:
        return task
    source, values = task.source, task.params
    if values is None:
        what = "was made with parameters that are no plain numbers, which no file keeps"
        raise EnvNotMade("env", what, task.name, "give it in the call: env=(environment, parameters)")

    def look(made: Any) -> JaxTask:
        found = JaxSource.of(made)
        if found is None:
            raise EnvNotMade("env", "has no reset_env and step_env any more", source.name, "give another one")
        return describe(found, source, task.limits, values)

    given = seen_from(source, look)
    require_fit(given, task, notice)
    env = JaxEnv(task.spec, given.env.dynamics, task.axes)
    return dataclasses.replace(task, env=env, notes=given.notes)


def _gymnasium_id(name: str, env: Any) -> str:
    """Under which Gymnasium has the same environment; empty where that is not known."""
    is_theirs = type(env).__module__.partition(".")[0] == GYMNAX[:-1]
    return name.removeprefix(GYMNAX) if name.startswith(GYMNAX) else str(getattr(env, "name", "")) if is_theirs else ""


def _threshold(gymnasium_id: str, horizon: int) -> float | None:
    """That of the same environment in Gymnasium, if episodes are as long."""
    known = gymnasium.registry.get(gymnasium_id)
    is_same = known is not None and known.max_episode_steps == horizon and known.reward_threshold is not None
    return float(known.reward_threshold) if is_same else None
