"""Tasks by name: ours, environments of Gymnasium, or the user's own; and which of them can share a policy."""

import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from asap.base.errors import UserError
from asap.base.spec import Task, TaskSet, base_of
from asap.config.schema import Config, EnvConfig
from asap.config.settings import Values, override
from asap.envs import catalog
from asap.envs.gymnasium.family import axes_of, joined, outside, placed, require_alike
from asap.envs.gymnasium.make import EnvLimits, EnvSource, require_env
from asap.envs.gymnasium.parameters import named, parse, split_weight
from asap.envs.gymnasium.registration import is_defined_here
from asap.envs.gymnasium.task import EnvTask, HostedTask, describe, described_env, seen_from, with_own_values
from asap.envs.jax_native import family as jax_family
from asap.envs.jax_native import task as jax_native
from asap.envs.jax_native.interface import JaxSource, require_stepping
from asap.envs.jax_native.task import JaxTask

IDS_CURE = "asap/TwoRooms-v0 (see `asap tasks`)"


def resolve(name: str, env: EnvConfig = EnvConfig()) -> Task:
    """A task of `asap tasks`, an id of Gymnasium, 'gymnax:NAME', or what an importable 'module:function' makes."""
    return catalog.find(name) if is_ours(name) else _described(name, env)


def resolve_all(names: Sequence[str], env: EnvConfig = EnvConfig()) -> tuple[Task, ...]:
    """Those that one policy is for, each with the numbers that tell it from the others."""
    return family(tuple(resolve(name, env) for name in names))


def family(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """Tasks that can share a policy, whatever their kind; others are refused."""
    hosted = tuple(task for task in tasks if isinstance(task, HostedTask))
    in_jax = tuple(task for task in tasks if isinstance(task, JaxTask))
    if len(tasks) > 1 and in_jax:
        if len(in_jax) == len(tasks):
            return jax_family.joined(in_jax)
        names = " ".join(task.name for task in tasks)
        what = "a JAX environment shares a program with others of its kind alone"
        raise UserError("tasks", what, names, "train them apart")
    if not hosted:
        catalog.require_alike([task for task in tasks if isinstance(task, catalog.CompiledTask)])
        return tasks
    if len(hosted) < len(tasks):
        ours = next(task.name for task in tasks if not isinstance(task, HostedTask))
        what = f"'{ours}' is a compiled task of ours and '{hosted[0].name}' a Gymnasium environment: train them apart"
        raise UserError("tasks", what, f"{ours} {hosted[0].name}", f"or take ours as an environment: {IDS_CURE}")
    return joined(hosted)


def canonical(name: str) -> str:
    """A name as it stands in a run: numbers in short."""
    return parse(name).text


def another(tasks: TaskSet, name: str) -> tuple[Task, list[str]]:
    """A task that is not of the family but has a base of it, with its numbers on the family's scale; and what to note."""
    like = next((task for task in tasks.tasks if base_of(task.name) == base_of(name)), None)
    if like is None or (base_of(name) == name and name not in tasks.names and not tasks.tasks[0].descriptor):
        cure = f"choose from {', '.join(tasks.names)}, or their bases with parameters: {base_of(tasks.names[0])}?NAME=NUMBER"
        raise UserError("task", "the model was not made for it", repr(name), cure)
    if isinstance(like, JaxTask):
        found = described(like.source._replace(name=name), like.limits)
        require_alike(like, found)
        task = jax_family.in_family(found, [each for each in tasks.tasks if isinstance(each, JaxTask)])
        return task, [*found.notes, *outside(task)]
    if not isinstance(like, HostedTask):
        task = catalog.find(name)
        catalog.require_alike([like, task])
        return task, []
    members = [task for task in tasks.tasks if isinstance(task, HostedTask)]
    found = with_own_values(describe(like.source._replace(name=name), like.limits))
    require_alike(like, found)
    task = placed(found, axes_of(members), members)
    return task, [*found.notes, *outside(task)]


def is_ours(name: str) -> bool:
    """One of our names, or more likely a slip in one than anything else; parameters may follow."""
    import gymnasium

    name = base_of(name)
    if name in catalog.NAMES:
        return True
    is_other = ":" in name or name in gymnasium.registry or is_defined_here(name)
    return not is_other and bool(catalog.nearest(name))


@functools.lru_cache(maxsize=16)
def _described(name: str, env: EnvConfig) -> EnvTask:
    return described(EnvSource(name, options_of(env)), limits_of(env))


def described(source: EnvSource, limits: EnvLimits) -> EnvTask:
    """Makes the environment once, to look at it: what it is decides who plays it."""

    notes: list[str] = []

    def look(made: Any) -> EnvTask:
        found = JaxSource.of(made)
        if found is not None:
            return jax_native.describe(found, source, limits)
        return described_env(require_env(made, source.name), source, limits, notes)

    return seen_from(source, look, notes.append)


def live_task(origin: Any, settings: Values) -> EnvTask | None:
    """An environment of this process, or a function that makes one, held to what the settings say; None for a name."""
    if isinstance(origin, str):
        return None
    env = override(Config(), settings).env
    return described(EnvSource.of(origin, options_of(env)), limits_of(env))


class Member(NamedTuple):
    """A task as a program gives it: a name, an environment or a function that makes one, and its parameters. Of a JAX environment
    also the pair of environment and parameters."""

    origin: Any
    values: Mapping[str, Any]

    @classmethod
    def of(cls, given: Any) -> "Member":
        """Also {"id": origin, parameter: value, ...}, and (origin, {parameter: value, ...})."""
        if isinstance(given, Mapping):
            if "id" not in given:
                cure = 'write {"id": "CartPole-v1", "length": 0.3}'
                raise UserError("task", "has no id", ascii(given)[:80], cure)
            return cls(given["id"], {name: value for name, value in given.items() if name != "id"})
        if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping):
            return cls(*given)
        return cls(given, {})

    @property
    def name(self) -> str:
        return named(self.origin, self.values) if self.values else self.origin


def given_tasks(env: Any, settings: Values, params: Any = None) -> tuple[list[str], tuple[Task, ...] | None]:
    """What a user's program names or gives: names for `compose`, or tasks some of which live in this process alone.
    `params` are those of a JAX environment."""
    if params is not None:
        if JaxSource.of((env, params)) is None:
            what = "are for a JAX environment with reset_env and step_env"
            raise UserError("params", what, repr(env)[:80], "set options of others by settings: env.options")
        env = env, params
    require_stepping(env, type(env).__name__)
    if JaxSource.of(env) is not None:
        task = live_task(env, settings)
        return [task.name], (task,)
    is_one = isinstance(env, tuple) and len(env) == 2 and isinstance(env[1], Mapping)
    given = list(env) if isinstance(env, list | tuple) and not is_one else [env]
    members = list(map(Member.of, given))
    if not all(isinstance(one.origin, str) or _makes_env(one.origin) for one in members) and len(given) != 1:
        choices = (
            f"choose from {', '.join(catalog.NAMES)}; or give ids of Gymnasium, or functions that make environments"
        )
        raise UserError("task", "must be a name or a list of names", repr(env)[:80], choices)
    if all(isinstance(one.origin, str) for one in members):
        return [one.name for one in members], None
    config = override(Config(), settings).env
    tasks = family(tuple(_of_member(one, settings, config) for one in members))
    return [task.name for task in tasks], tasks


def _makes_env(origin: Any) -> bool:
    import gymnasium

    return callable(origin) or isinstance(origin, gymnasium.Env) or JaxSource.of(origin) is not None


def _of_member(member: Member, settings: Values, env: EnvConfig) -> Task:
    if isinstance(member.origin, str):
        return resolve(member.name, env)
    source = EnvSource.of(member.origin, options_of(env))
    source = source._replace(name=named(source.name, member.values)) if member.values else source
    return described(source, limits_of(env))


def hosted_task(origin: Any, settings: Values, values: Mapping[str, Any] = MappingProxyType({})) -> HostedTask:
    """As an environment of Gymnasium, whatever it is: our own tasks are registered there."""
    env = override(Config(), settings).env
    if isinstance(origin, str) and is_ours(origin):
        origin = catalog.find(origin).gymnasium_id
    source = EnvSource.of(origin, options_of(env))
    return describe(source._replace(name=named(source.name, values)) if values else source, limits_of(env))


def task_set(config: Config, tasks: tuple[Task, ...]) -> TaskSet:
    """mu over the tasks of a config, as `resolve_all` finds them."""
    return TaskSet(tasks, config.run.weights)


def notes_on(tasks: Iterable[Task]) -> list[str]:
    """What the user should know about environments before they are learned."""
    return [note for task in tasks if isinstance(task, EnvTask) for note in task.notes]


def limits_of(env: EnvConfig) -> EnvLimits:
    return EnvLimits(env.max_steps, env.strict_obs, env.reward_scale, env.retries, env.vector)


def options_of(env: EnvConfig) -> dict:
    if env.options is None:
        return {}
    cure = """write --set env.options='{"gravity": 9.8}'"""
    try:
        options = json.loads(env.options)
    except (ValueError, RecursionError):
        raise UserError("env.options", "is not JSON", env.options[:80], cure) from None
    if not isinstance(options, dict):
        raise UserError("env.options", "must be a JSON object", env.options[:80], cure)
    return options


def parse_tasks(texts: list[str]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """NAME or NAME:WEIGHT; a name may have parameters, and of an environment a colon in it."""
    names, weights = [], []
    for text in texts:
        name, colon, weight = text.partition(":")
        if base_of(name) not in catalog.NAMES:
            name, weight = split_weight(text)
            colon, weight = weight[:1], weight[1:]
        name = parse(name).text
        try:
            weights.append(float(weight) if colon else 1.0)
        except ValueError:
            raise UserError("task", "a weight must be a number", text, f"write {name}:0.5") from None
        if not 0 < weights[-1] < math.inf:
            raise UserError("task", "a weight must be finite and > 0", text, f"write {name}:0.5")
        if name in names:
            raise UserError("task", "is given twice", name, "name each task once")
        names.append(name)
    return tuple(names), tuple(weights)
