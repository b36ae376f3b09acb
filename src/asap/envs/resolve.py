"""Tasks by name: ours, and environments of Gymnasium or the user's own."""

import functools
import json
from collections.abc import Iterable
from typing import Any

from asap.base.errors import UserError
from asap.config.schema import Config, EnvConfig
from asap.config.settings import override
from asap.envs import catalog
from asap.envs.catalog import CompiledTask
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.envs.gymnasium.task import HostedTask, describe

Task = CompiledTask | HostedTask


def resolve(name: str, env: EnvConfig = EnvConfig()) -> Task:
    """A task of `asap tasks`, an id of Gymnasium, or what an importable 'module:function' makes."""
    if name in catalog.names() or (":" not in name and not _is_registered(name) and catalog.nearest(name)):
        return catalog.find(name)
    return _described(name, env)


@functools.lru_cache(maxsize=16)
def _described(name: str, env: EnvConfig) -> HostedTask:
    return describe(EnvSource(name, options_of(env)), rules_of(env))


def live_task(origin: Any, settings: Iterable[str]) -> HostedTask | None:
    """An environment of this process, or a function that makes one, held to what the settings say; None for a name."""
    if isinstance(origin, str):
        return None
    env = override(Config(), settings).env
    return describe(EnvSource.of(origin, options_of(env)), rules_of(env))


def rules_of(env: EnvConfig) -> EnvLimits:
    return EnvLimits(env.max_steps, env.strict_obs, env.reward_scale, env.env_retries)


def options_of(env: EnvConfig) -> dict:
    if env.options is None:
        return {}
    cure = """write --set env.options='{"gravity": 9.8}'"""
    try:
        options = json.loads(env.options)
    except ValueError:
        raise UserError("env.options", "is not JSON", env.options, cure) from None
    if not isinstance(options, dict):
        raise UserError("env.options", "must be a JSON object", env.options, cure)
    return options


def _is_registered(name: str) -> bool:
    import gymnasium

    return name in gymnasium.registry
