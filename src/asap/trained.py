"""A finished or paused run, read back for evaluation, words and pictures."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from asap.base.errors import RunError, UserError
from asap.base.keys import fold, root
from asap.compose import tasks_of
from asap.config.schema import Config, complete
from asap.config.settings import read_toml
from asap.envs import catalog
from asap.envs.catalog import CompiledTask
from asap.envs.gymnasium.task import HostedTask
from asap.envs.resolve import Task
from asap.evaluate import Evaluation, evaluate
from asap.learn import foreign
from asap.learn.train import Trainer
from asap.play_foreign import ForeignPlay
from asap.policy.policy import ASAPPolicy
from asap.runs.directory import Run
from asap.state_arrays import from_arrays
from asap.workers.hire import IN_PROCESS


@dataclass(frozen=True)
class Trained:
    """The policies of all seeds, stacked, with the config and tasks they were trained for."""

    run: Run
    config: Config
    named: tuple[Task, ...]
    policies: ASAPPolicy

    @classmethod
    def load(cls, path: str, best: bool = False) -> "Trained":
        run = Run.open(path)
        config = complete(read_toml(Config, run.path / "config.toml"))
        named = tasks_of(config)
        checkpoint = run.best() if best else run.latest()
        if checkpoint is None:
            raise RunError("run", "has no checkpoint yet", run.path, "let `asap train` save one first")
        if isinstance(named[0], HostedTask):
            template = foreign.template(config, named[0])
        else:
            tasks = catalog.task_set(tuple(zip(config.run.tasks, config.run.weights, strict=True)))
            template = Trainer(config, named, tasks).template()
        return cls(run, config, named, from_arrays(template, checkpoint.arrays).outcome)

    def seed_index(self, seed: int | None) -> int:
        """Position of a trained seed; none given means the first."""
        first, count = self.config.run.seed, self.config.run.seeds
        if seed is None:
            return 0
        if not first <= seed < first + count:
            raise UserError(
                "--seed", "was not trained in this run", seed, f"choose from {first} to {first + count - 1}"
            )
        return seed - first

    def policy(self, index: int) -> ASAPPolicy:
        return jax.tree.map(lambda leaf: leaf[index], self.policies)

    def task(self, name: str | None) -> Task:
        if name is None:
            return self.named[0]
        for task in self.named:
            if task.name == name:
                return task
        raise UserError(
            "--task", "was not trained in this run", repr(name), f"choose from {', '.join(self.config.run.tasks)}"
        )

    def evaluate(
        self, task: Task, num_episodes: int, seed: int, deterministic: bool | None = None, workers: str = IN_PROCESS
    ) -> Evaluation:
        """Axes (seeds, episodes) and (seeds, skills)."""
        if isinstance(task, HostedTask):
            host = ForeignPlay(self.config, task, workers)
            each = [
                host.evaluation(self.policy(index), num_episodes, seed, deterministic)
                for index in range(self.config.run.seeds)
            ]
            return jax.tree.map(lambda *leaves: np.stack(leaves), *each)
        if deterministic or workers != IN_PROCESS:
            raise UserError(
                "task",
                "is one of ours: played as learned, compiled",
                task.name,
                "leave out --deterministic and --workers",
            )
        return play(self.policies, task, num_episodes, seed)


def play(policies: ASAPPolicy, task: CompiledTask, num_episodes: int, seed: int) -> Evaluation:
    """Policies stacked over seeds, on one task; axes (seeds, episodes) and (seeds, skills)."""
    tasks = catalog.task_set(((task.name, 1.0),))
    keys = jax.vmap(functools.partial(fold, root(seed)))(jnp.arange(policies.partition.beta.shape[0]))
    played = jax.jit(jax.vmap(lambda policy, key: evaluate(policy, tasks, key, num_episodes)))(policies, keys)
    return jax.tree.map(np.asarray, played)
