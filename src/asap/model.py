"""ASAP in Python, with the names that stable-baselines3 uses:

    from asap import ASAP

    model = ASAP("two-rooms", hyperplanes=1, seed=0).learn(episodes=2000)
    print(model.explain())                       # the rules, in words and numbers
    action, skill = model.predict(obs)           # and on the next step model.predict(obs, state=skill)
    model.evaluate(episodes=1000)                # {"return": ..., "success": ..., "usage": [...], "durations": [...]}
    model.plot().savefig("rooms.png")
    model.save("rooms.asap")
    model = ASAP.load("rooms.asap")
"""

import dataclasses
import functools
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
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from asap import checkpoints
from asap.config import Config, complete
from asap.configure import settings_of
from asap.envs import catalog
from asap.envs.catalog import NamedTask
from asap.errors import RunError, UserError
from asap.evaluate import Evaluation, evaluate
from asap.keys import Key, fold, root
from asap.learn.train import compiled, init
from asap.policy.build import require_memory
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.runs import Run
from asap.session import Session
from asap.settings import override, read_toml, to_toml
from asap.show.explain import explain
from asap.state_arrays import from_arrays, to_arrays
from asap.stopping import StopRequest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EVALUATE, _PREDICT = 5, 6  # Streams of the seed's key; 0 to 4 are the learner's.
_KIND = "asap model"  # Tells a saved model from a checkpoint of a run, which is sealed in the same way.
EPISODES_TO_READ = 200  # Played to tell how much each skill is used, for words and pictures.


class ASAP:
    """Skills and the regions where each applies, for one named task or several that share a policy.

    `task` is a name of `asap tasks`, or a list of names; `name:weight` makes a task more or less frequent. `preset` and
    `settings` (such as "learn.epochs=4", see `asap settings`) reach everything else. Until `learn`, the policy is the
    start. `config` holds all settings, `policy` what was learned, `episodes` from how many completed episodes.
    """

    def __init__(
        self,
        task: str | list[str] | tuple[str, ...],
        *,
        hyperplanes: int | None = None,
        seed: int | None = None,
        learner: str | None = None,
        gradient: str | None = None,
        preset: str | None = None,
        settings: Iterable[str] = (),
    ):
        options = {
            "policy.hyperplanes": hyperplanes,
            "run.seed": seed,
            "learn.learner": learner,
            "learn.gradient": gradient,
        }
        settings = [settings] if isinstance(settings, str) else list(settings)
        self._begin(settings_of(_task_names(task), options, preset, None, settings))

    def _begin(self, config: Config) -> None:
        """The policy at its start."""
        if config.run.seeds != 1:
            raise UserError("run.seeds", "a model has one seed", config.run.seeds, "make a model per seed, or use `asap train`")
        self._named = tuple(catalog.find(name) for name in config.run.tasks)
        require_memory(config, self._named)
        self._tasks = catalog.task_set(tuple(zip(config.run.tasks, config.run.weights, strict=True)))
        self._descriptors = {named.name: jnp.asarray(named.env.descriptor(named.task)) for named in self._named}
        self._hold(config, init(config, self._named, self._tasks, config.run.seed)[0], 0)

    def _hold(self, config: Config, policy: ASAPPolicy, episodes: int) -> None:
        self.config, self.policy, self.episodes = config, jax.tree.map(jnp.asarray, policy), episodes
        self._key, self._num_draws = jax.tree.map(jnp.asarray, root(config.run.seed)), 0

    def learn(self, episodes: int | None = None, run: str | os.PathLike | None = None) -> "ASAP":
        """Learns from the start, whatever was learned before, and returns the model.

        `run` is a directory to record the run in: learning curve, checkpoints. If there is one with these settings, it
        is gone on with, up to `episodes` in all. Ctrl-C keeps what was learned so far and raises KeyboardInterrupt.
        """
        folder = tempfile.mkdtemp(prefix="asap-") if run is None else os.fspath(run)
        is_litter = run is None
        try:
            recorded, config = self._recorded(Path(folder), episodes)
            with StopRequest() as stop:
                result = Session(config, recorded).train(stop)
        except RunError:
            is_litter = False  # The error tells how to go on from there.
            raise
        finally:
            if is_litter:
                shutil.rmtree(folder, ignore_errors=True)
        num_episodes = int(result.curve.episodes[-1, 0]) if len(result.curve.episodes) else 0
        self._hold(config, jax.tree.map(lambda leaf: leaf[0], result.policy), num_episodes)
        if stop.requested:
            raise KeyboardInterrupt if stop.requested == signal.SIGINT else SystemExit(stop.exit_code)
        return self

    def _recorded(self, folder: Path, episodes: int | None) -> tuple[Run, Config]:
        """The run in this directory, new or gone on with, and its settings."""
        config = self.config if episodes is None else override(self.config, [f"run.episodes={episodes}"])
        if not (folder / "config.toml").exists():
            return Run.create(folder, to_toml(config)), config
        run = Run.open(folder)
        recorded = complete(read_toml(Config, run.path / "config.toml"))
        budget = recorded.run.episodes if episodes is None else config.run.episodes
        config, recorded = (dataclasses.replace(c, run=dataclasses.replace(c.run, episodes=budget)) for c in (config, recorded))
        if config != recorded:
            raise UserError("run", "was made with other settings", folder, "choose another directory, or use its settings")
        return run, config

    def predict(
        self,
        obs: ArrayLike,
        state: ArrayLike | None = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = False,
        task: str | None = None,
    ) -> tuple[Any, Any]:
        """Action and skill for an observation (O,), as NumPy integers, or for n of them (n, O), as arrays (n,).

        `state` is the skill that the last call returned; only a policy that commits to its skill (policy.termination)
        looks at it. None, -1, or `episode_start` stand for the first step of an episode. Deterministic is the most
        probable skill, and then its most probable action. Otherwise both are drawn: the t-th drawing call since
        learning or loading draws the same for the same seed. `task` tells which of several tasks is played.
        """
        x = _checked_observation(obs, self._named[0])
        previous = _checked_state(state, episode_start, x.shape[:-1], self.policy.num_skills)
        call = np.uint32(self._num_draws & 0xFFFFFFFF)
        self._num_draws += not deterministic
        m = self._descriptors[self._played(task).name]
        action, skill = np.asarray(_choose(self.policy, m, self._key, call, x, previous, bool(deterministic))).astype(np.int64)
        return action, skill

    def evaluate(self, episodes: int = 1000, task: str | None = None, seed: int = 0) -> dict[str, Any]:
        """Means over fresh episodes: return, success; per skill, usage (share of the steps) and durations (steps at a time).

        Of several tasks each plays `episodes`; the means weigh them as in training, and `per_task` has them apart.
        """
        for field, value, low in (("episodes", episodes, 1), ("seed", seed, 0)):
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or not low <= value < 2**31:
                raise UserError(field, f"must be an integer from {low} to 2^31 - 1", repr(value), "the default will do")
        chosen = self._chosen(task)
        parts = {}
        for named in chosen:
            key = fold(root(seed), _EVALUATE, self._named.index(named))
            played = _play(self.policy, self._tasks.only(named.name), key, int(episodes))
            parts[named.name] = jax.tree.map(lambda leaf: np.asarray(leaf, float), played)
        weights = [weight for name, weight in zip(self.config.run.tasks, self.config.run.weights) if name in parts]
        report = _report(list(parts.values()), weights)
        if len(parts) > 1:
            report["per_task"] = {name: _report([part], [1.0]) for name, part in parts.items()}
        return report

    def explain(self, task: str | None = None) -> str:
        """The policy in words and numbers: which inequality cuts where, what each skill does, how often and how long."""
        played = self.evaluate(EPISODES_TO_READ, task)
        return explain(self.policy, self._chosen(task), played["usage"], played["durations"]).text

    def plot(self, task: str | None = None) -> "Figure":
        """The map of the partition with the skills in it; of several tasks, the first unless `task` names another."""
        from asap.show.figures import partition_map

        named = self._named[0] if task is None else self._played(task)
        title = f"{named.name}, seed {self.config.run.seed}"
        usage = self.evaluate(EPISODES_TO_READ, named.name)["usage"]
        return partition_map(self.policy, named, self._descriptors[named.name], title=title, usage=usage)

    def save(self, path: str | os.PathLike) -> None:
        """One sealed file with policy and settings, put in place at once: whole, or not at all."""
        path = Path(path)
        if not path.parent.is_dir():
            raise UserError("model", "no such directory", path.parent, "create it first")
        meta = {"kind": _KIND, "config": to_toml(self.config)}
        checkpoints.replace(path, checkpoints.seal(self.episodes, to_arrays(self.policy), meta), "model")

    @classmethod
    def load(cls, path: str | os.PathLike) -> "ASAP":
        """The model in a file, proven whole. Nothing in the file is ever executed."""
        saved = _unsealed(path)
        model = cls.__new__(cls)
        try:
            model._begin(settings_of([], {}, None, None, _overrides(saved.meta["config"])))
            policy = from_arrays(model.policy, saved.arrays)
        except UserError as error:
            raise RunError("model", f"cannot be used by this release: {error}", path, "save it anew") from None
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(policy)):
            raise RunError("model", "has parameters that are not finite", path, "use another file")
        model._hold(model.config, policy, saved.step)
        return model

    def _chosen(self, task: str | None) -> tuple[NamedTask, ...]:
        return self._named if task is None else (self._played(task),)

    def _played(self, task: str | None) -> NamedTask:
        """The task of that name; it need not be named where the policy does not look at it."""
        if task is None and (len(self._named) == 1 or self.policy.psi.task == "none"):
            return self._named[0]
        for named in self._named:
            if named.name == task:
                return named
        what = "which one is played?" if task is None else "the model was not made for it"
        raise UserError("task", what, repr(task), f"choose from {', '.join(self.config.run.tasks)}")


@functools.partial(jax.jit, static_argnames="deterministic")
def _choose(
    policy: ASAPPolicy,
    m: Float[Array, "Z"],
    key: Key,
    call: Int[Array, ""],
    x: Float[Array, "*n O"],
    previous: Int[Array, "*n"],
    deterministic: bool,
) -> Int[Array, "2 *n"]:
    """Action and skill, in one array: each array that crosses to the host costs microseconds."""
    x = x.T  # The policy has batch axes last.
    m = jnp.broadcast_to(m.reshape(-1, *[1] * previous.ndim), (*m.shape, *previous.shape))
    if deterministic:
        skill = jnp.argmax(policy.skill_log_probs(x, m, previous), axis=0)
        action = jnp.argmax(policy.skills.log_probs_of_skill(skill, policy.phi(x, m)), axis=0)
    else:
        rows = jnp.arange(previous.size).reshape(previous.shape)
        skill, action = policy.choose(policy.draws(fold(fold(key, _PREDICT, call), rows)), x, m, previous)
    return jnp.stack([action, skill])


_play = compiled(evaluate, static_argnames="num_episodes")


def _report(parts: list[Evaluation], weights: list[float]) -> dict[str, Any]:
    """Each part is one task; all have equally many episodes, so that weights of tasks are weights of steps, too."""
    shares = np.asarray(weights) / np.sum(weights)
    steps, starts = (sum(w * getattr(part, name) for w, part in zip(shares, parts)) for name in ("skill_steps", "skill_starts"))
    return {
        "return": float(shares @ [part.returns.mean() for part in parts]),
        "success": float(shares @ [part.success.mean() for part in parts]),
        "usage": (steps / steps.sum()).tolist(),
        "durations": (steps / np.where(starts > 0, starts, 1)).tolist(),
    }


def _task_names(task: Any) -> list[str]:
    names = list(task) if isinstance(task, list | tuple) else [task]
    if not all(isinstance(name, str) for name in names):
        raise UserError("task", "must be a name or a list of names", repr(task)[:80], f"choose from {', '.join(catalog.names())}")
    return names


def _checked_observation(obs: ArrayLike, named: NamedTask) -> Float[np.ndarray, "*n O"]:
    names = named.env.spec.observation_names
    cure = f"give {', '.join(names)}, or rows of them"
    try:
        given = np.asarray(obs)
    except ValueError:  # Rows of different lengths.
        raise UserError("obs", "must be an array of numbers", f"a {type(obs).__name__}", cure) from None
    if given.dtype.kind not in "biuf":
        raise UserError("obs", "must be an array of numbers", f"a {type(obs).__name__}", cure)
    if given.ndim not in (1, 2) or given.shape[-1] != len(names):
        raise UserError("obs", f"must have shape ({len(names)},) or (n, {len(names)})", given.shape, cure)
    if given.dtype != np.float32:
        with np.errstate(over="ignore"):  # It becomes infinite, and is refused as such.
            given = given.astype(np.float32)
    finite = np.isfinite(given)
    if not finite.all():
        raise UserError("obs", "must be finite in 32 bits", given[~finite][0], cure)
    return given


def _checked_state(
    state: ArrayLike | None, episode_start: ArrayLike | None, shape: tuple[int, ...], num_skills: int
) -> Int[np.ndarray, "*n"]:
    """The previous skills, NO_SKILL where an episode starts."""
    if state is None:
        return np.full(shape, NO_SKILL, np.int32)
    skills = np.asarray(state)
    if skills.dtype.kind not in "iu" or skills.shape != shape:
        got = f"{skills.dtype}{list(skills.shape)}"
        raise UserError("state", f"must hold integers of shape {shape}", got, "give back what predict returned, or None")
    if (skills < NO_SKILL).any() or (skills >= num_skills).any():
        raise UserError("state", f"must be skills below {num_skills}, or -1 for none", skills.tolist(), "give what predict returned")
    skills = skills.astype(np.int32)
    if episode_start is None:
        return skills
    starts = np.asarray(episode_start, bool)
    if starts.size != skills.size:  # stable-baselines3 gives (1,) with a single observation, too.
        raise UserError("episode_start", f"must have shape {shape}", starts.shape, "give one flag per observation")
    return np.where(starts.reshape(shape), np.int32(NO_SKILL), skills)


def _unsealed(path: str | os.PathLike) -> checkpoints.Checkpoint:
    cure = "give a file that model.save has written, or a whole copy of it"
    try:
        with checkpoints.open_regular(Path(os.path.realpath(path))) as file:
            saved = checkpoints.unseal(file.read())
    except (checkpoints.Refused, OSError, ValueError, MemoryError) as error:  # ValueError: a NUL in the path.
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
