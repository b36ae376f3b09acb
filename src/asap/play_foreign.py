"""A model's policy on a foreign environment: NumPy on the host, episodes by workers."""

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from asap.base.episodes import Played
from asap.base.errors import UserError
from asap.base.keys import host_generator
from asap.config.schema import Config
from asap.envs.gymnasium.actions import control
from asap.envs.gymnasium.errors import EnvError
from asap.envs.gymnasium.make import HostedSource
from asap.envs.gymnasium.observations import reading
from asap.envs.gymnasium.task import HostedTask
from asap.evaluate import Evaluation
from asap.learn.foreign import ForeignTrainer, built_policy, evaluation_of
from asap.policy.host import Player
from asap.policy.plan import plan_of
from asap.policy.policy import ASAPPolicy
from asap.predict_inputs import checked_state
from asap.runs.directory import print_note
from asap.show.words.explain import Explanation
from asap.show.words.explain_rules import explain_foreign
from asap.show.words.readings import Losses, MeanReturn
from asap.show.words.rounding import rounded
from asap.workers.hire import hire

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PREDICT = 6  # Stream of what `predict` draws with, as in `asap.play_named`.
EPISODES = 100


class ForeignPlay:
    """The environment of a model."""

    def __init__(self, config: Config, task: HostedTask, workers: str):
        self.config, self.task, self.workers = config, task, workers
        self._read, self._act = reading(task.observation_space, lambda _: None), control(task.action_space)
        self.restart()

    def restart(self) -> None:
        """Draws of `predict` begin anew, with the policy that is there then."""
        self._player: Player | None = None

    def first_policy(self) -> ASAPPolicy:
        return built_policy(self.config, self.task, self.config.run.seed)

    def predict(
        self,
        policy: ASAPPolicy,
        obs: ArrayLike,
        state: ArrayLike | None,
        episode_start: ArrayLike | None,
        deterministic: bool,
        task: str | None,
    ) -> tuple[Any, Any]:
        """As the environment gives observations and takes actions."""
        if task not in (None, self.task.name):
            raise UserError("task", "the model was not made for it", repr(task), f"it is for {self.task.name}")
        given, shape = np.asarray(obs), self.task.observation_space.shape
        is_batch = given.ndim == len(shape) + 1 and given.shape[1:] == shape
        rows = given if is_batch else given[None]
        previous = np.atleast_1d(
            checked_state(state, episode_start, rows.shape[:1] if is_batch else (), policy.num_skills)
        )
        if self._player is None:
            self._player = Player(plan_of(policy, len(self.task.inputs)))
            self._player.begin(host_generator(self.config.run.seed, _PREDICT), False)
        chosen = [self._choose(row, int(before), bool(deterministic)) for row, before in zip(rows, previous)]
        actions, skills = np.stack([action for action, _ in chosen]), np.asarray([skill for _, skill in chosen])
        return (actions, skills) if is_batch else (actions[0], skills[0])

    def _choose(self, observation: np.ndarray, previous: int, deterministic: bool) -> tuple[Any, int]:
        try:
            x = self._read(observation)
        except EnvError as trouble:
            cure = f"give what {self.task.name} returns, or several stacked on a first axis"
            raise UserError("obs", trouble.what, trouble.value or np.shape(observation), cure) from None
        self._player.deterministic, self._player.previous = deterministic, previous
        skill, action = self._player.choose(x)
        return self._act(action), skill

    def evaluation(self, policy: ASAPPolicy, episodes: int, seed: int, deterministic: bool | None) -> Evaluation:
        """One entry per episode, one per skill."""
        is_deterministic = self.config.run.deterministic if deterministic is None else bool(deterministic)
        return evaluation_of(self._played([(policy, is_deterministic)], episodes, seed)[0], policy.num_skills)

    def evaluate(
        self, policy: ASAPPolicy, episodes: int | None, task: str | None, seed: int, deterministic: bool | None
    ) -> dict[str, Any]:
        if task not in (None, self.task.name):
            raise UserError("task", "the model was not made for it", repr(task), f"it is for {self.task.name}")
        return report(self.evaluation(policy, EPISODES if episodes is None else int(episodes), seed, deterministic))

    def explain(self, policy: ASAPPolicy, task: str | None = None) -> Explanation:
        """Plays the policy as learned, deterministic, and with its rules rounded as they are printed."""
        one = jax.tree.map(np.asarray, policy)
        kinds = [(one, False), (one, True), (rounded(one, self.task), True)]
        played = self._played(kinds, EPISODES, 0)
        told = report(evaluation_of(played[0], policy.num_skills))
        losses = Losses(*(_mean_return(episodes) for episodes in played), EPISODES)
        return explain_foreign(one, self.task, told["usage"], told["durations"], losses)

    def plot(self, policy: ASAPPolicy, task: str | None = None, title: str | None = None) -> "Figure":
        from asap.show.figures.observed_map import observed_map

        played = self._played([(policy, False)], EPISODES, 0)[0]
        observations = np.concatenate([episode.observations[:-1] for episode in played])
        usage = report(evaluation_of(played, policy.num_skills))["usage"]
        title = title or f"{self.task.name}, seed {self.config.run.seed}"
        return observed_map(jax.tree.map(np.asarray, policy), self.task, observations, usage, title)

    def _played(self, kinds: list[tuple[ASAPPolicy, bool]], episodes: int, seed: int) -> list[list[Played]]:
        """Episodes of each policy, deterministic or not, all from the same starts."""
        env = self.config.env
        config = dataclasses.replace(self.config, run=dataclasses.replace(self.config.run, seed=seed, seeds=1))
        with tempfile.TemporaryDirectory(prefix="asap-") as folder:
            limits = env.step_timeout, env.retries, env.on_no_workers
            sources = (HostedSource(self.task.source, self.task.rules),)
            dispatcher = hire(self.workers, sources, Path(folder), print_note, *limits)
            trainer = ForeignTrainer(config, self.task, dispatcher, print_note)
            try:
                return [
                    trainer.played(jax.tree.map(np.asarray, policy), seed, episodes, is_sure)
                    for policy, is_sure in kinds
                ]
            finally:
                trainer.close()


def _mean_return(episodes: list[Played]) -> MeanReturn:
    returns = np.asarray([episode.total for episode in episodes])
    return MeanReturn(float(returns.mean()), float(returns.std(ddof=1) / np.sqrt(len(returns))))


def report(evaluation: Evaluation) -> dict[str, Any]:
    steps, starts = evaluation.skill_steps, evaluation.skill_starts
    success = float(np.mean(evaluation.success))
    return {
        "return": float(evaluation.returns.mean()),
        "returns": evaluation.returns.tolist(),
        "success": None if np.isnan(success) else success,
        "length": float(evaluation.lengths.mean()),
        "usage": (steps / max(steps.sum(), 1)).tolist(),
        "durations": (steps / np.maximum(starts, 1)).tolist(),
    }
