"""A model's policy on our own tasks: compiled, one call for any number of observations or episodes."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from asap.base.arrays import compiled
from asap.base.errors import UserError
from asap.base.keys import Key, fold, root
from asap.config.schema import Config
from asap.envs import catalog
from asap.envs.catalog import CompiledTask
from asap.evaluate import Evaluation, evaluate
from asap.learn.train import init
from asap.policy.policy import ASAPPolicy
from asap.predict_inputs import checked_observation, checked_state
from asap.show.words.explain import Explanation, explain

_EVALUATE, _PREDICT = 5, 6  # Streams of the seed's key; 0 to 4 are the learner's.
EPISODES_TO_READ = 200  # Played to tell how much each skill is used, for words and pictures.
EPISODES = 1000


class NamedPlay:
    """The tasks of a model."""

    def __init__(self, config: Config, tasks: tuple[CompiledTask, ...]):
        self.config, self.tasks = config, tasks
        self.set = catalog.task_set(tuple(zip(config.run.tasks, config.run.weights, strict=True)))
        self._descriptors = {named.name: jnp.asarray(named.env.descriptor(named.task)) for named in tasks}
        self.restart()

    def restart(self) -> None:
        """Draws of `predict` begin anew."""
        self._key, self._num_draws = jax.tree.map(jnp.asarray, root(self.config.run.seed)), 0

    def first_policy(self) -> ASAPPolicy:
        return init(self.config, self.tasks, self.set, self.config.run.seed)[0]

    def predict(
        self,
        policy: ASAPPolicy,
        obs: ArrayLike,
        state: ArrayLike | None,
        episode_start: ArrayLike | None,
        deterministic: bool,
        task: str | None,
    ) -> tuple[Any, Any]:
        x = checked_observation(obs, self.tasks[0].spec.observation_names)
        previous = checked_state(state, episode_start, x.shape[:-1], policy.num_skills)
        call = np.uint32(self._num_draws & 0xFFFFFFFF)
        self._num_draws += not deterministic
        m = self._descriptors[self._played(policy, task).name]
        action, skill = np.asarray(_choose(policy, m, self._key, call, x, previous, bool(deterministic))).astype(
            np.int64
        )
        return action, skill

    def evaluate(
        self, policy: ASAPPolicy, episodes: int | None, task: str | None, seed: int, deterministic: bool | None
    ) -> dict[str, Any]:
        if deterministic:
            raise UserError("deterministic", "our own tasks are played as learned", deterministic, "leave it out")
        parts = {}
        for named in self._chosen(policy, task):
            key = fold(root(seed), _EVALUATE, self.tasks.index(named))
            played = _play(policy, self.set.only(named.name), key, EPISODES if episodes is None else int(episodes))
            parts[named.name] = jax.tree.map(lambda leaf: np.asarray(leaf, float), played)
        weights = [weight for name, weight in zip(self.config.run.tasks, self.config.run.weights) if name in parts]
        report = _report(list(parts.values()), weights)
        if len(parts) > 1:
            report["per_task"] = {name: _report([part], [1.0]) for name, part in parts.items()}
        return report

    def explain(self, policy: ASAPPolicy, task: str | None) -> Explanation:
        played = self.evaluate(policy, EPISODES_TO_READ, task, 0, None)
        return explain(policy, self._chosen(policy, task), played["usage"], played["durations"])

    def plot(self, policy: ASAPPolicy, task: str | None):
        from asap.show.figures import policy_map

        named = self.tasks[0] if task is None else self._played(policy, task)
        title = f"{named.name}, seed {self.config.run.seed}"
        usage = self.evaluate(policy, EPISODES_TO_READ, named.name, 0, None)["usage"]
        return policy_map(policy, named, None, usage, title)

    def _chosen(self, policy: ASAPPolicy, task: str | None) -> tuple[CompiledTask, ...]:
        return self.tasks if task is None else (self._played(policy, task),)

    def _played(self, policy: ASAPPolicy, task: str | None) -> CompiledTask:
        """The task of that name; it need not be named where the policy does not look at it."""
        if task is None and (len(self.tasks) == 1 or policy.psi.task == "none"):
            return self.tasks[0]
        for named in self.tasks:
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
    steps, starts = (
        sum(w * getattr(part, name) for w, part in zip(shares, parts)) for name in ("skill_steps", "skill_starts")
    )
    return {
        "return": float(shares @ [part.returns.mean() for part in parts]),
        "success": float(shares @ [part.success.mean() for part in parts]),
        "usage": (steps / steps.sum()).tolist(),
        "durations": (steps / np.where(starts > 0, starts, 1)).tolist(),
    }
