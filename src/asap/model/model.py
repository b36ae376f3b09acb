"""ASAP in Python, with the names that stable-baselines3 uses:

from asap import ASAP

model = ASAP("CartPole-v1", hyperplanes=1, seed=0).learn(150_000)
print(model.explain())                       # the rules, in words and numbers
action, skill = model.predict(obs)           # and on the next step model.predict(obs, state=skill)
model.evaluate(episodes=100)                 # {"return": ..., "usage": [...], "durations": [...], ...}
model.plot().savefig("cartpole.png")
model.save("cartpole.asap")                  # and ASAP.load("cartpole.asap")
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from asap.base.arrays import member, stack, to_arrays
from asap.base.episodes import integer_or_none
from asap.base.spec import Task, TaskSet
from asap.compose import compose, composed_for, feature_settings, refuse_unsaid
from asap.config.schema import Config
from asap.config.toml import parse_settings
from asap.envs.gymnasium.task import without_env
from asap.envs.recorded import SaidEnv
from asap.envs.resolve import given_tasks
from asap.experience.protocol import Evaluation, OnProgress, ignore_progress
from asap.learn.source import NOTHING_TAKEN
from asap.model import reading
from asap.model.another_task import on_task, task_of
from asap.model.files import Saved, planes_in, policies_in, read_saved, saved_to_join, with_planes_in, write_saved
from asap.model.learning import Held, learned, play, play_learned, with_more
from asap.model.predict import Predictor
from asap.model.readable import Readable
from asap.model.result import Result, evaluation_report
from asap.model.source import transferred
from asap.model.training import blank_start, seeds_of
from asap.model.verdict import Verdict
from asap.policy.policy import ASAPPolicy
from asap.policy.rules.given import read_text
from asap.policy.score import parameters_of
from asap.policy.surgery import Planes
from asap.runs.events import Callback
from asap.workers.hire import IN_PROCESS

if TYPE_CHECKING:
    from asap.sequence.report import SequenceResult

Settings = str | Iterable[str] | Mapping[str, Any]


class ASAP(Readable):
    """Skills and the regions where each applies, for an environment or for tasks of our own.

    `env` is an id of Gymnasium ("CartPole-v1") or gymnax ("gymnax:CartPole-v1"), an importable "module:function", such a
    function itself, or an environment, with `params` if it is one of JAX; or a name of `asap tasks`; or a list of these that
    share a policy. {"id": "CartPole-v1", "length": 0.3} sets a number; (0.3, 1.0) draws one for each episode.

    `skills`: "constant" (one distribution over actions each), "linear", "gaussian" (Box actions, one mean each),
    "network". `features` under the hyperplanes: "linear", "poly2", "fourier", "network". `preset` and `settings` (such
    as "learn.epochs=4" or {"learn.epochs": 4}, see `asap settings`) reach everything else. `workers` play an
    environment: "0" is this process, "4" four others, "ray" those of Ray; the result is the same.

    Until `learn`, the policy is the start. `config` holds all settings; some defaults follow the budget that `learn` is given.
    """

    def __init__(
        self,
        env: Any,
        *,
        params: Any = None,
        hyperplanes: int | None = None,
        skills: str | None = None,
        features: str | None = None,
        seed: int | None = None,
        learner: str | None = None,
        gradient: str | None = None,
        preset: str | None = None,
        settings: Settings = (),
        workers: int | str = IN_PROCESS,
        rules: str | os.PathLike | None = None,
    ):
        text, rules_name = (None, "rules") if rules is None else read_text(rules)
        options = {"policy.rules": text, "policy.skills": skills, **feature_settings(features)}
        options |= {"policy.hyperplanes": integer_or_none("hyperplanes", hyperplanes)}
        options |= {"run.seed": integer_or_none("seed", seed), "learn.learner": learner, "learn.gradient": gradient}
        values = parse_settings(Config, settings)
        names, live = given_tasks(env, values, params)
        config, tasks = compose(names, options, preset, None, values, live, rules_name)
        self._set_up(config, tasks, str(workers), (names, options, preset, values, tasks.tasks, rules_name))

    def _set_up(self, config: Config, tasks: TaskSet, workers: str, asked: tuple | None = None) -> None:
        self.config, self.tasks, self._workers = config, tasks, workers
        self._index, self._asked = 0, asked  # What `compose` was asked for, where somebody has asked.
        self._unsaid: Path | None = None  # A stranger's file: data that it names are not opened.
        self.reset()

    def reset(self) -> "ASAP":
        """Forgets what was learned."""
        self.result: Result | None = None
        self._hold(blank_start(self.config, self.tasks).policy, None, 0, 0)
        self._is_drawn = True
        return self

    def _hold(self, policies: ASAPPolicy, state: dict[str, np.ndarray] | None, episodes: int, steps: int) -> None:
        """`state` is all that the learner needs to go on, by name; None before it has learned."""
        self.policies, self._state = jax.tree.map(np.asarray, policies), state
        self._is_drawn = False  # Policies that nobody has learned or given are drawn anew where learning starts.
        self._verdict: Verdict | Path | None = None  # Of the training that has come to them, or the run that tells it.
        self._source = NOTHING_TAKEN  # What the next training takes over besides them.
        self.num_episodes, self.num_timesteps = episodes, steps
        self.planes: tuple[Planes, ...] = ()  # Of each task, where tasks have planes of their own.
        self.sequence: SequenceResult | None = None  # Of tasks that were learned one after another.
        self._predictor = Predictor(self.tasks, self.policy, self.seed)

    @classmethod
    def of(
        cls,
        config: Config,
        tasks: TaskSet,
        policies: ASAPPolicy | None = None,
        num_episodes: int = 0,
        num_timesteps: int = 0,
        workers: str = IN_PROCESS,
    ) -> "ASAP":
        """A model of a composed config; with policies, stacked over seeds, that were found in some other way."""
        model = cls.__new__(cls)
        model._set_up(config, tasks, workers)
        if policies is not None:
            model._hold(policies, None, num_episodes, num_timesteps)
        return model

    @property
    def model(self) -> "ASAP":
        return self

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that were trained; `seed` is the one that is looked at."""
        return tuple(seeds_of(self.config))

    @property
    def seed(self) -> int:
        return self.seeds[self._index]

    @property
    def policy(self) -> ASAPPolicy:
        return member(self.policies, self._index)

    @policy.setter
    def policy(self, policy: ASAPPolicy) -> None:
        """Puts another policy in its place; learning goes on from it with a learner that is new."""
        every = [member(self.policies, index) for index in range(len(self.seeds))]
        every[self._index] = jax.tree.map(np.asarray, policy)
        self._hold(stack(every), None, self.num_episodes, self.num_timesteps)

    @property
    def num_parameters(self) -> int:
        """Of the policy, without the scaling of observations."""
        return sum(np.size(leaf) for leaf in jax.tree.leaves(parameters_of(self.policy)))

    def __repr__(self) -> str:
        return reading.brief(self)

    def task(self, name: str | None) -> Task:
        """The task of that name; none given means the first."""
        return task_of(self.tasks, name)

    def on_task(self, name: str) -> "ASAP":
        """The same policies on one task, also with parameters that they were never trained on: "CartPole-v1?length=0.7"."""
        return on_task(self, name)

    def learn(
        self,
        total_timesteps: float | None = None,
        callback: Callback | Iterable[Callback] | None = None,
        *,
        episodes: int | None = None,
        run: str | os.PathLike | None = None,
        tensorboard_log: str | os.PathLike | None = None,
        wandb_project: str | None = None,
        progress_bar: bool = False,
    ) -> "ASAP":
        """Goes on learning from where it is, and returns the model.

        The budget is in steps of the environment (also 1e5) or in completed `episodes`, whichever is reached first, in
        addition to what was learned from before. `callback` is called between updates with a `Report`; False stops.
        `run` is a directory to record in: learning curve, checkpoints; a run that is there already is gone on with.
        Ctrl-C keeps what was learned so far and raises KeyboardInterrupt, SIGTERM does the same and raises SystemExit.
        """
        if self._unsaid is not None:
            refuse_unsaid(self.config, self._unsaid)
        if self._asked is not None and self._is_drawn:  # Defaults follow the budget, which is known only now.
            asked, budget = self._asked, with_more(self.config, total_timesteps, episodes, None)
            self._set_up(composed_for(budget, *asked), self.tasks, self._workers, asked)
        if run is not None and (joined := saved_to_join(Path(run), self.config, self._state)) is not None:
            self._adopt(joined)
        spent = None if self._state is None else (self.num_episodes, self.num_timesteps)
        config = with_more(self.config, total_timesteps, episodes, spent)
        held = Held(None if self._is_drawn else self.policies, self._state, self._source)
        how = self._workers, callback, tensorboard_log, wandb_project, progress_bar
        found = learned(config, self.tasks, held, None if run is None else Path(run), *how)
        self._hold(found.policies, found.state, *found.counts[self._index])
        self.result, self._verdict = found.result, found.result.verdict
        if found.stop.requested:
            raise found.stop.leaving()
        return self

    def learn_sequence(
        self,
        tasks: Any = None,
        total_timesteps: float | None = None,
        *,
        episodes: int | None = None,
        planes: str = "shared",
        scratch: bool = False,
        run: str | os.PathLike | None = None,
        callback: Callback | Iterable[Callback] | None = None,
        progress_bar: bool = False,
        settings: Settings = (),
    ) -> "ASAP":
        """Learns tasks one after another, those of the model or others, and returns the model; the budget is for each task.

        `planes`: "shared" is one policy for all; "per-task" keeps the planes of each task under shared skills. `scratch` also
        learns each task from scratch, to measure transfer. `sequence` then has the numbers: final performance, forgetting
        and forward transfer. A `run` that is there already is gone on with; `settings` are those of sequence.* and others.
        """
        from asap.sequence.from_model import learn_tasks  # After the model in the order of the house.

        budget, how = (total_timesteps, episodes), (planes, scratch, callback, progress_bar)
        return learn_tasks(self, tasks, budget, how, None if run is None else Path(run), settings)

    def predict(
        self,
        obs: ArrayLike | Mapping[str, Any],
        state: ArrayLike | None = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = False,
        task: str | None = None,
    ) -> tuple[Any, Any]:
        """Action and skill for an observation as the environment gives it, or for n of them, stacked on a first axis.

        `state` is the skill that the last call returned; only a policy that commits to its skill (policy.termination)
        looks at it. None, -1, or `episode_start`: the first step of an episode. Deterministic is the most probable skill,
        then its most probable action. Otherwise both are drawn: the t-th drawing call since learning or loading draws the
        same for the same seed. `task` tells which of several tasks is played; `on_task` is for others.
        """
        if self.planes and self.tasks.size > 1:
            return on_task(self, self.task(task).name).predict(obs, state, episode_start, deterministic)
        return self._predictor.predict(obs, state, episode_start, deterministic, task)

    def evaluate(
        self, episodes: int | None = None, task: str | None = None, seed: int = 0, deterministic: bool | None = None
    ) -> dict[str, Any]:
        """Means over fresh episodes: return, success with its interval; per skill, usage (share of steps) and durations.

        Of several tasks each plays `episodes` (default: run.final_episodes), and `per_task` has them apart. `task` may have
        parameters that were never trained on.
        """
        if task is not None and task not in self.tasks.names:
            return on_task(self, task).evaluate(episodes, None, seed, deterministic)
        played = play_learned(self, [self._index], episodes, [seed], deterministic)
        return evaluation_report(self.tasks, played, task)

    def play(
        self,
        policies: ASAPPolicy,
        episodes: int | None,
        seeds: list[int],
        deterministic: bool | None = None,
        on_progress: OnProgress = ignore_progress,
    ) -> Evaluation:
        """Episodes of stacked policies on every task, each with a seed of its own; `on_progress` hears how many so far."""
        return play(self.config, self.tasks, self._workers, policies, episodes, seeds, deterministic, on_progress)

    def transfer(
        self, env: Any = None, *, search_symmetries: bool = False, freeze: str | None = None, settings: Settings = ()
    ) -> "ASAP":
        """A new model for another environment, or the same with other settings, which `learn` makes start from these
        policies and their scaling; with `search_symmetries` from the best image of each."""
        made, source = transferred(self._saved(), self.policies, env, search_symmetries, freeze, settings)
        model = ASAP.of(*made, workers=self._workers)
        model._source = source
        return model

    @classmethod
    def from_rules(cls, rules: str | os.PathLike, *names: Iterable[str], **bounds: ArrayLike) -> "ASAP":
        """A model without any environment: rules, `observation_names`, `action_names`, and bounds of numbers to set."""
        task, (text, name) = without_env(*names, **bounds), read_text(rules)
        model = cls.of(*compose([task.name], {"policy.rules": text}, None, None, {}, (task,), name, True))
        model._is_drawn = False
        return model

    @property
    def verdict(self) -> Verdict | None:
        """How the training came out that has come to these policies; None where nobody knows."""
        return reading.verdict(self._verdict, self.policies)

    def save(self, path: str | os.PathLike) -> None:
        """One sealed file with the whole learner's state, put in place at once: whole, or not at all."""
        write_saved(Path(path), self._saved())

    def _saved(self) -> Saved:
        state = with_planes_in(to_arrays(self.policies), self.planes) if self._state is None else self._state
        about = (self.num_episodes, self.num_timesteps), self._is_drawn, self._unsaid is None, self.verdict
        return Saved(self.config, self.tasks, self.seed, state, self._state is not None, *about)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike,
        env: Any = None,
        workers: int | str = IN_PROCESS,
        seed: int | None = None,
        best: bool = False,
        env_options: dict[str, Any] | None = None,
    ) -> "ASAP":
        """The model in a file that `save` has written, or in a run directory. Nothing in a file is ever executed.

        Of a run, the newest checkpoint, or the `best` one. `seed` is the one to look at, the first by default. `env` is
        the environment to play, with the same spaces: where the file names none, or a stranger's (docs/security.md).
        """
        saved = read_saved(Path(path), SaidEnv(env, env_options), best)
        model = cls.of(saved.config, saved.tasks, workers=str(workers))
        model._unsaid, model._index = None if saved.is_own else Path(path), saved.index(integer_or_none("seed", seed))
        model._adopt(saved)
        return model

    def _adopt(self, saved: Saved) -> None:
        self._hold(policies_in(saved), saved.state, *saved.counts(self._index))
        self._is_drawn, self._verdict = saved.drawn, saved.verdict
        self.planes = planes_in(saved, self.policies)
