"""Models on disk: one sealed file with the whole learner's state, or the checkpoint of a run directory."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from asap.base.arrays import from_arrays, to_arrays
from asap.base.errors import RunError, UserError
from asap.base.files import BadFile, replace
from asap.base.spec import TaskSet
from asap.compose import read_run, recorded_in, same_but_for_budget, saved_settings, without_source
from asap.config.defaults import complete
from asap.config.schema import Config
from asap.config.sequence import PER_TASK
from asap.config.toml import from_toml, read_toml, to_toml
from asap.envs.recorded import SaidEnv, is_own_file, task_records
from asap.learn.state import restored_outcome, with_given_rules
from asap.model.training import blank_start, holds_run
from asap.model.verdict import Verdict
from asap.policy.policy import ASAPPolicy
from asap.policy.score import parameters_of
from asap.policy.surgery import Planes, planes_of
from asap.runs import checkpoints
from asap.runs.directory import Run

_KIND = "asap model"  # Tells a saved model from a checkpoint of a run, which is sealed in the same way.
_PLANES = "planes."  # What the names of arrays of a task's own planes begin with.
MOST_LOG_STD = 80.0  # Of a Gaussian skill, whose deviation would be infinite in float32 soon after.
CURE = "give a run directory, or a whole file that model.save has written"


class Saved(NamedTuple):
    """What a model is made of again."""

    config: Config
    tasks: TaskSet
    seed: int  # The one that is looked at.
    arrays: dict[str, np.ndarray]
    whole: bool  # The learner's state; otherwise policies alone.
    counted: tuple[int, int] | None = None  # Episodes and steps, where the arrays do not tell.
    drawn: bool = False  # Nobody has learned or given the policies: learning draws and searches anew.
    is_own: bool = True  # The user made the file, or there is none: what the settings name may be opened.
    verdict: Verdict | Path | None = None  # Of the training, or the run that may tell it.

    @property
    def state(self) -> dict[str, np.ndarray] | None:
        return self.arrays if self.whole else None

    def index(self, seed: int | None) -> int:
        """Of a seed that was trained; by default the one that was looked at."""
        first, last = self.config.run.seed, self.config.run.seed + self.config.run.seeds - 1
        if seed is not None and not first <= seed <= last:
            cure = f"choose {first}, the only one" if first == last else f"choose from {first} to {last}"
            raise UserError("seed", "was not trained", seed, cure)
        return (self.seed if seed is None else seed) - first

    def counts(self, index: int) -> tuple[int, int]:
        """Completed episodes and steps of a seed."""
        if self.counted is not None:
            return self.counted
        return int(self.arrays["totals.episodes"][index].sum()), int(self.arrays["env_steps"][index])


def policies_in(saved: Saved, to_learn: bool = False) -> ASAPPolicy:
    """What was learned, stacked over seeds; given rules that nothing was learned from are as they are, or `to_learn` from."""
    blank = blank_start(saved.config, saved.tasks).policy
    if not saved.whole:
        return from_arrays(blank, saved.arrays)
    policies = restored_outcome(blank, saved.arrays, saved.config)
    if to_learn or "iteration" not in saved.arrays:
        return policies
    return with_given_rules(saved.config, saved.tasks, policies, saved.arrays["iteration"])


def planes_in(saved: Saved, policies: ASAPPolicy) -> tuple[Planes, ...]:
    """Of tasks that were learned one after another with planes of their own: those of each task that was learned so far."""
    if saved.config.sequence.planes != PER_TASK:
        return ()
    count = len({name.split(".")[1] for name in saved.arrays if name.startswith(_PLANES)})
    prefixes = [f"{_PLANES}{index}." for index in range(count)]
    own = ({name.removeprefix(p): a for name, a in saved.arrays.items() if name.startswith(p)} for p in prefixes)
    return tuple(from_arrays(planes_of(policies), arrays) for arrays in own)


def with_planes_in(arrays: dict[str, np.ndarray], planes: Sequence[Planes]) -> dict[str, np.ndarray]:
    """The arrays of a policy, and those of the planes of each task."""
    each = (
        {f"{_PLANES}{index}.{name}": array for name, array in to_arrays(own).items()}
        for index, own in enumerate(planes)
    )
    return arrays | {name: array for own in each for name, array in own.items()}


def are_equal(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def saved_to_join(folder: Path, config: Config, state: dict[str, np.ndarray] | None) -> Saved | None:
    """What a run that is there has learned, for a model that has not: it must have the same settings."""
    if not holds_run(folder) or Run.open(folder).latest() is None:
        return None
    saved = read_saved(folder)
    if not same_but_for_budget(config, saved.config):
        cure = "choose another directory, or use its settings"
        raise UserError("run", "was made with other settings", folder, cure)
    if state is not None and saved.state is not None and not are_equal(state, saved.state):
        raise UserError("run", "holds what another model has learned", folder, "choose another directory")
    return saved if state is None and saved.state is not None else None


def settings_in(source: str) -> tuple[Config, bool]:
    """The settings of a run or a saved model, and whether the user made it; nothing that they name is opened."""
    if os.path.isfile(source):
        meta = _unsealed(Path(source)).meta
        config = from_toml(Config, meta["config"], "config")
        records = meta.get("tasks", [meta["task"]] if "task" in meta else None)
        return complete(config), is_own_file({"tasks": records, "tag": meta.get("tag")}, config)
    run = Run.open(source)
    if run.latest() is None:
        raise UserError("run", "has learned nothing yet", source, "let `asap train` save a checkpoint first")
    config = complete(read_toml(Config, run.path / "config.toml"))
    return config, is_own_file(recorded_in(run), config)


def write_saved(path: Path, saved: Saved) -> None:
    if not os.path.isdir(path.parent):
        raise UserError("model", "no such directory", path.parent, "create it first")
    if saved.tasks.is_part_of_family:
        raise UserError("model", "is on one task of a family", saved.tasks.names[0], "save the model of the family")
    meta: dict[str, Any] = {"kind": _KIND, "config": to_toml(saved.config), "steps": saved.counted[1]}
    meta |= {"seed": saved.seed, "whole": saved.whole, "drawn": saved.drawn}
    meta |= task_records(saved.config, saved.tasks)
    if isinstance(saved.verdict, Verdict):
        meta["verdict"] = saved.verdict.as_dict()
    if not saved.is_own and (saved.config.offline.data or saved.config.run.source):
        meta["tag"] = None  # A stranger's names do not become the user's by being saved again.
    replace(path, checkpoints.seal(saved.counted[0], saved.arrays, meta), "model")


def read_saved(path: Path, said: SaidEnv = SaidEnv(), best: bool = False) -> Saved:
    """From a file or a run directory, proven whole. An environment that is named in the call is the one to play."""
    # Unlike a Path's own, this takes a name that is too long or has a NUL in it.
    if os.path.isdir(path):
        return _from_run(path, said, best)
    if best:
        raise UserError("best", "a saved model has no other checkpoint", path, "leave it out, or give the run")
    return _from_file(path, said)


def _from_run(path: Path, said: SaidEnv, best: bool) -> Saved:
    run = Run.open(path)
    config, tasks, is_own = read_run(run, said)
    if best and config.sequence.is_on:
        what = "tasks that were learned one after another have no best checkpoint"
        raise UserError("best", what, run.path, "leave it out")
    checkpoint = run.best() if best else run.latest()
    if checkpoint is None:
        raise RunError("run", "has no checkpoint yet", run.path, "let `asap train` save one first")
    checkpoints.require_same(config, checkpoint, run.path, tasks.names_say_all)
    config = config if is_own else without_source(config)
    if config.sequence.is_on:  # Policies alone: the states of the learners are those of its tasks.
        counted = checkpoint.meta.get("episodes", 0), checkpoint.meta.get("env_steps", 0)
        return Saved(config, tasks, config.run.seed, checkpoint.arrays, False, counted, is_own=is_own)
    verdict = None if best else run.path
    return Saved(config, tasks, config.run.seed, checkpoint.arrays, whole=True, is_own=is_own, verdict=verdict)


def _from_file(path: Path, said: SaidEnv) -> Saved:
    file = _unsealed(path)
    meta = file.meta
    try:
        records = meta.get("tasks", [meta["task"]] if "task" in meta else None)  # Earlier releases wrote one.
        config, tasks, is_own = saved_settings(meta["config"], {"tasks": records, "tag": meta.get("tag")}, said, path)
        whole, steps = meta.get("whole") is True, meta.get("steps", 0)
        # Files of release 0.1 have the policy of one seed, and nothing else.
        arrays = file.arrays if whole or "seed" in meta else {name: leaf[None] for name, leaf in file.arrays.items()}
        counted = file.step, steps if isinstance(steps, int) else 0
        seed = meta.get("seed", config.run.seed)
        if seed not in range(config.run.seed, config.run.seed + config.run.seeds):
            raise UserError("seed", "was not trained", seed)
        drawn = meta.get("drawn") is True
        if not is_own and not drawn:
            config = without_source(config)
        verdict = Verdict.read(meta.get("verdict"))
        saved = Saved(config, tasks, seed, arrays, whole, counted, drawn, is_own, verdict)
        policies = policies_in(saved)
    except UserError as error:
        if error.field == "env" and said.env is not None:  # It does not fit, or cannot be made: the file is sound.
            raise
        raise RunError("model", f"cannot be used by this release: {error}", path, "save it again") from None
    log_std = parameters_of(policies).log_std
    is_finite = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(policies))
    if not is_finite or (log_std is not None and np.max(log_std) > MOST_LOG_STD):
        raise RunError("model", "has parameters that are not finite", path, "use another file")
    return saved


def _unsealed(path: Path) -> checkpoints.Checkpoint:
    try:
        saved = checkpoints.unsealed(Path(os.path.realpath(path)))
    except (BadFile, OSError, ValueError) as error:  # ValueError: a NUL in the path.
        raise RunError("model", str(error).replace("an ASAP checkpoint", "a saved ASAP model"), path, CURE) from None
    if saved.meta.get("kind") != _KIND or not isinstance(saved.meta.get("config"), str):
        raise RunError("model", "is a checkpoint of a run, not a saved model", path, CURE)
    return saved
