"""ASAP in Python, with the names that stable-baselines3 uses:

from asap.base import files
from asap import ASAP

model = ASAP("CartPole-v1", hyperplanes=1, seed=0).learn(150_000)
print(model.explain())                       # the rules, in words and numbers
action, skill = model.predict(obs)           # and on the next step model.predict(obs, state=skill)
model.evaluate(episodes=100)                 # {"return": ..., "usage": [...], "durations": [...], ...}
model.plot().savefig("cartpole.png")
model.save("cartpole.asap")
model = ASAP.load("cartpole.asap")
"""

import dataclasses
import json
import os
import shutil
import signal
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from asap.base import files
from asap.base.errors import RunError, UserError
from asap.compose import feature_settings, settings_of, tasks_of
from asap.config.schema import Config, complete
from asap.config.settings import override, read_toml, to_toml
from asap.envs import catalog
from asap.envs.gymnasium import task as foreign
from asap.envs.gymnasium.make import EnvSource
from asap.envs.gymnasium.task import HostedTask
from asap.envs.resolve import Task, live_task
from asap.play_foreign import ForeignPlay
from asap.play_named import NamedPlay
from asap.policy.build import require_memory
from asap.policy.policy import ASAPPolicy
from asap.policy.score import parameters_of
from asap.runs import checkpoints
from asap.runs.directory import Run
from asap.runs.loggers import loggers
from asap.runs.signals import StopRequest
from asap.session import Callback, Session
from asap.state_arrays import from_arrays, to_arrays
from asap.workers.hire import IN_PROCESS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KIND = "asap model"  # Tells a saved model from a checkpoint of a run, which is sealed in the same way.


class ASAP:
    """Skills and the regions where each applies, for an environment or for tasks of our own.

    `env` is an id of Gymnasium ("CartPole-v1"), an importable "module:function" that makes an environment, such a
    function itself, or an environment; or a name of `asap tasks`, or a list of names that share a policy ("name:weight"
    makes one more or less frequent).

    `skills`: "constant" (one distribution over actions each), "linear", "gaussian" (Box actions, one mean each), "network".
    `features` under the hyperplanes: "linear", "poly2", "fourier", "rbf", "network". `preset` and `settings` (such as
    "learn.epochs=4", see `asap settings`) reach everything else. `workers` play an environment: "0" is this process, "4"
    four others, "ray" those of Ray; the result is the same.

    Until `learn`, the policy is the start. `config` holds all settings, `policy` what was learned, `num_episodes` and
    `num_timesteps` from how many completed episodes and steps.
    """

    def __init__(
        self,
        env: Any,
        *,
        hyperplanes: int | None = None,
        skills: str | None = None,
        features: str | None = None,
        seed: int | None = None,
        learner: str | None = None,
        gradient: str | None = None,
        preset: str | None = None,
        settings: Iterable[str] = (),
        workers: int | str = IN_PROCESS,
    ):
        options = {
            "policy.hyperplanes": hyperplanes,
            "policy.skills": skills,
            **feature_settings(features),
            "run.seed": seed,
            "learn.learner": learner,
            "learn.gradient": gradient,
        }
        settings = [settings] if isinstance(settings, str) else list(settings)
        names, live = _told(env, settings)
        config = settings_of(names, options, preset, None, settings, live)
        self._begin(config, tasks_of(config) if live is None else (live,), str(workers))

    def _begin(self, config: Config, tasks: tuple[Task, ...], workers: str = IN_PROCESS) -> None:
        """The policy at its start."""
        if config.run.seeds != 1:
            raise UserError(
                "run.seeds", "a model has one seed", config.run.seeds, "make a model per seed, or use `asap train`"
            )
        require_memory(config, tasks)
        self._tasks, self._workers = tasks, workers
        self._play = (
            ForeignPlay(config, tasks[0], workers) if isinstance(tasks[0], HostedTask) else NamedPlay(config, tasks)
        )
        self._hold(config, self._play.first_policy(), 0, 0)

    def _hold(self, config: Config, policy: ASAPPolicy, num_episodes: int, num_timesteps: int) -> None:
        self.config, self.policy = config, jax.tree.map(jnp.asarray, policy)
        self.num_episodes, self.num_timesteps = num_episodes, num_timesteps
        self._play.config = config
        self._play.restart()

    @classmethod
    def of(cls, config: Config, task: Task, policy: ASAPPolicy, num_episodes: int, num_timesteps: int) -> "ASAP":
        """A model with a policy that was found in some other way."""
        model = cls.__new__(cls)
        model._begin(config, (task,))
        model._hold(config, policy, num_episodes, num_timesteps)
        return model

    @property
    def num_parameters(self) -> int:
        """Of the policy: what was learned, and the scaling of observations apart."""
        return sum(np.size(leaf) for leaf in jax.tree.leaves(parameters_of(self.policy)))

    def learn(
        self,
        total_timesteps: int | None = None,
        callback: Callback | Iterable[Callback] | None = None,
        *,
        episodes: int | None = None,
        run: str | os.PathLike | None = None,
        tensorboard_log: str | os.PathLike | None = None,
        wandb_project: str | None = None,
        progress_bar: bool = False,
    ) -> "ASAP":
        """Learns from the start, whatever was learned before, and returns the model.

        The budget is in steps of the environment or in completed `episodes`, whichever is reached first. `callback` is
        called between updates with a `Report`; False stops. `run` is a directory to record the run in: learning curve,
        checkpoints. If there is one with these settings, it is gone on with, up to the budget in all. Ctrl-C keeps what was
        learned so far and raises KeyboardInterrupt.
        """
        folder = tempfile.mkdtemp(prefix="asap-") if run is None else os.fspath(run)
        is_litter = run is None
        callbacks = [callback] if callable(callback) else list(callback or ())
        try:
            recorded, config = self._recorded(Path(folder), episodes, total_timesteps)
            with StopRequest() as stop, loggers(config, tensorboard_log, wandb_project, progress_bar) as told:
                live = self._tasks[0] if isinstance(self._tasks[0], HostedTask) else None
                result = Session(config, recorded, [*told, *callbacks], self._workers, live).train(
                    stop, evaluates=False
                )
        except RunError:
            is_litter = False  # The error tells how to go on from there.
            raise
        finally:
            if is_litter:
                shutil.rmtree(folder, ignore_errors=True)
        num_episodes = int(result.curve.episodes[-1, 0]) if len(result.curve.episodes) else 0
        self._hold(config, jax.tree.map(lambda leaf: leaf[0], result.policy), num_episodes, result.env_steps)
        if stop.requested:
            raise KeyboardInterrupt if stop.requested == signal.SIGINT else SystemExit(stop.exit_code)
        return self

    def _recorded(self, folder: Path, episodes: int | None, steps: int | None) -> tuple[Run, Config]:
        """The run in this directory, new or gone on with, and its settings."""
        config = _with_budget(self.config, episodes, steps)
        if not (folder / "config.toml").exists():
            return Run.create(folder, to_toml(config)), config
        run = Run.open(folder)
        recorded = complete(read_toml(Config, run.path / "config.toml"))
        budget = recorded.run if episodes is None and steps is None else config.run
        config, recorded = (
            dataclasses.replace(c, run=dataclasses.replace(c.run, episodes=budget.episodes, steps=budget.steps))
            for c in (config, recorded)
        )
        if config != recorded:
            raise UserError(
                "run", "was made with other settings", folder, "choose another directory, or use its settings"
            )
        return run, config

    def predict(
        self,
        obs: ArrayLike,
        state: ArrayLike | None = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = False,
        task: str | None = None,
    ) -> tuple[Any, Any]:
        """Action and skill for an observation, or for n of them, stacked on a first axis.

        `state` is the skill that the last call returned; only a policy that commits to its skill (policy.termination)
        looks at it. None, -1, or `episode_start` stand for the first step of an episode. Deterministic is the most
        probable skill, and then its most probable action. Otherwise both are drawn: the t-th drawing call since
        learning or loading draws the same for the same seed. `task` tells which of several tasks is played.
        """
        return self._play.predict(self.policy, obs, state, episode_start, deterministic, task)

    def evaluate(
        self, episodes: int | None = None, task: str | None = None, seed: int = 0, deterministic: bool | None = None
    ) -> dict[str, Any]:
        """Means over fresh episodes: return, success; per skill, usage (share of the steps) and durations (steps at a time).

        Of several tasks each plays `episodes`; the means weigh them as in training, and `per_task` has them apart. By
        default 1000 episodes of our own tasks, as learned, and 100 of an environment, deterministic.
        """
        for field, value, low in (("episodes", 1 if episodes is None else episodes, 1), ("seed", seed, 0)):
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or not low <= value < 2**31:
                raise UserError(field, f"must be an integer from {low} to 2^31 - 1", repr(value), "the default will do")
        return self._play.evaluate(self.policy, episodes, task, seed, deterministic)

    def explain(self, task: str | None = None) -> str:
        """The policy in words and numbers: which inequality cuts where, what each skill does, how often and how long."""
        return self._play.explain(self.policy, task).text

    def plot(self, task: str | None = None) -> "Figure":
        """The map of the partition with the skills in it; of several tasks, the first unless `task` names another."""
        return self._play.plot(self.policy, task)

    def save(self, path: str | os.PathLike) -> None:
        """One sealed file with policy and settings, put in place at once: whole, or not at all."""
        path = Path(path)
        if not path.parent.is_dir():
            raise UserError("model", "no such directory", path.parent, "create it first")
        meta = {"kind": _KIND, "config": to_toml(self.config), "steps": self.num_timesteps}
        if isinstance(self._tasks[0], HostedTask):
            meta["task"] = foreign.record(self._tasks[0])
        files.replace(path, checkpoints.seal(self.num_episodes, to_arrays(self.policy), meta), "model")

    @classmethod
    def load(cls, path: str | os.PathLike, env: Any = None, workers: int | str = IN_PROCESS) -> "ASAP":
        """The model in a file, proven whole. Nothing in the file is ever executed.

        `env` is needed only to play an environment that has no name to be made by; it must have the same spaces.
        """
        saved = _unsealed(path)
        model = cls.__new__(cls)
        try:
            task = _saved_task(saved.meta, env)
            names = [] if task is None else [task.name]
            config = settings_of(names, {}, None, None, _overrides(saved.meta["config"]), task)
            model._begin(config, tasks_of(config) if task is None else (task,), str(workers))
            policy = from_arrays(model.policy, saved.arrays)
        except UserError as error:
            raise RunError("model", f"cannot be used by this release: {error}", path, "save it anew") from None
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(policy)):
            raise RunError("model", "has parameters that are not finite", path, "use another file")
        steps = saved.meta.get("steps", 0)
        model._hold(model.config, policy, saved.step, steps if isinstance(steps, int) else 0)
        return model


def _told(env: Any, settings: list[str]) -> tuple[list[str], HostedTask | None]:
    """Names for `settings_of`, or a task that lives in this process."""
    if isinstance(env, list | tuple):
        if not all(isinstance(name, str) for name in env):
            raise UserError(
                "task", "must be a name or a list of names", repr(env)[:80], f"choose from {', '.join(catalog.names())}"
            )
        return list(env), None
    task = live_task(env, settings)
    return [env if task is None else task.name], task


def _saved_task(meta: dict[str, Any], env: Any) -> HostedTask | None:
    """The environment that a saved model was made for, or a given one in its place."""
    if "task" not in meta:
        if env is not None:
            raise UserError("env", "the model was made for tasks of our own", repr(env)[:80], "leave it out")
        return None
    task = foreign.restore(meta["task"])
    if env is None:
        return task
    given = foreign.describe(EnvSource.of(env), task.rules)
    for name in ("observation_space", "action_space"):
        if getattr(given, name) != getattr(task, name):
            raise UserError(
                "env",
                f"{name} is {getattr(given, name)}, the model was made for",
                getattr(task, name),
                "give such an environment",
            )
    return given


def _with_budget(config: Config, episodes: int | None, steps: int | None) -> Config:
    """One that is said takes the place of those that were not."""
    if episodes is None and steps is None:
        return config
    budgets = {"run.episodes": 2**31 - 1 if episodes is None else episodes, "run.steps": steps}
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, steps=None))
    return override(config, [f"{name}={budget}" for name, budget in budgets.items() if budget is not None])


def _unsealed(path: str | os.PathLike) -> checkpoints.Checkpoint:
    cure = "give a file that model.save has written, or a whole copy of it"
    try:
        with files.open_regular(Path(os.path.realpath(path))) as file:
            saved = checkpoints.unseal(file.read())
    except (files.BadFile, OSError, ValueError, MemoryError) as error:  # ValueError: a NUL in the path.
        reason = "too large for the memory" if isinstance(error, MemoryError) else str(error)
        raise RunError("model", reason.replace("an ASAP checkpoint", "a saved ASAP model"), path, cure) from None
    if saved.meta.get("kind") != _KIND or not isinstance(saved.meta.get("config"), str):
        raise RunError("model", "is a checkpoint of a run, not a saved model", path, cure)
    return saved


def _overrides(text: str) -> list[str]:
    """The settings in a TOML text, one by one, as `override` takes and checks them."""
    try:
        sections = tomllib.loads(text)
        pairs = [(f"{section}.{key}", value) for section, keys in sections.items() for key, value in keys.items()]
    except (ValueError, AttributeError, RecursionError):
        raise UserError("config", "is not TOML in sections", ascii(text[:40])) from None
    return [f"{key}={json.dumps(value, default=str)}" for key, value in pairs]
