"""Distillation: a few rules that act as another policy does, of whatever kind that is.

The teacher plays, and the student learns to do what it did. Where the student then errs, it gets into states that the
teacher never showed; so the student plays, the teacher says what it would have done there, and the student learns from
all of it again (Ross et al., 2011). Of the students of all rounds the one that plays best is kept.
"""

import contextlib
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from asap.base.arrays import stack
from asap.base.episodes import EVALUATION, SEARCH, TRAINING, EpisodeId, integer, require_episodes, require_seed
from asap.base.errors import UserError
from asap.base.keys import host_generator
from asap.base.numbers import number, percent
from asap.base.spec import ControlUnits, TaskSet
from asap.compose import compose, feature_settings
from asap.config.schema import Config
from asap.config.toml import parse_settings
from asap.distill.demonstrations import Demonstration, TaughtEnv
from asap.distill.imitate import imitate
from asap.envs.gymnasium.task import HostedTask
from asap.envs.resolve import hosted_task
from asap.experience.protocol import OnProgress, ignore_progress
from asap.learn.search import draw
from asap.policy.build import plan_of
from asap.policy.host import Player
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import moments_of, rescaled, scaled_anew

if TYPE_CHECKING:
    from asap.model.model import ASAP

STARTS, LATER_STARTS = 16, 4  # In the first round, and with what there is to go on with.
ROUNDS = 3  # In which the student plays and the teacher is asked.
PER_ROUND = 4  # One in so many of the episodes.
RANDOM_EPISODES = 20
_STARTS, _SAMPLES = 0, 1  # Ids of what is drawn.


@dataclass(frozen=True)
class Distilled:
    """The rules, and how they compare with their teacher; all returns are means over fresh episodes."""

    policy: ASAPPolicy
    task: HostedTask
    config: Config
    agreement: float  # On the teacher's episodes: share of the steps with the same action; of controls, R^2.
    teacher_return: float
    student_return: float  # Of the likeliest actions.
    random_return: float
    num_evaluation: int  # Episodes of each, from the same starts.
    num_episodes: int  # All that were played.
    num_steps: int

    @property
    def kept(self) -> float | None:
        """Share of what the teacher gains over random play; None if it gains nothing."""
        gain = self.teacher_return - self.random_return
        return (self.student_return - self.random_return) / gain if gain > 0 else None

    @functools.cached_property
    def model(self) -> "ASAP":
        """To save, explain and plot it."""
        from asap.model.model import ASAP

        tasks = TaskSet((self.task,), self.config.run.weights)
        return ASAP.of(self.config, tasks, stack([self.policy]), self.num_episodes, self.num_steps)

    def report(self) -> str:
        same = f"R^2 {self.agreement:.3f}" if self.task.spec.continuous else f"{percent(self.agreement)} of its actions"
        kept = ""
        if self.kept is not None:
            kept = f"kept        {percent(self.kept)} of what the teacher gains over random play\n"
        return (
            f"teacher     return {number(self.teacher_return)}  (mean of {self.num_evaluation} episodes; random play "
            f"{number(self.random_return)})\n"
            f"student     return {number(self.student_return)}  ({self.config.policy.num_skills} skills, deterministic, "
            "same starts)\n"
            f"{kept}"
            f"agreement   {same}, where the teacher plays\n"
            f"played      {self.num_episodes:,} episodes, {self.num_steps:,} steps"
        )

    def as_dict(self) -> dict[str, Any]:
        names = ("agreement", "teacher_return", "student_return", "random_return", "kept")
        counts = ("num_evaluation", "num_episodes", "num_steps")
        return {"env": self.task.name, **{name: getattr(self, name) for name in (*names, *counts)}}


def distill(
    teacher: Any,
    env: Any,
    hyperplanes: int = 1,
    skills: str | None = None,
    features: str | None = None,
    episodes: int = 50,
    seed: int = 0,
    settings: str | Iterable[str] | Mapping[str, Any] = (),
    on_progress: OnProgress = ignore_progress,
) -> Distilled:
    """An ASAP policy fitted to `teacher`, an object with `predict(obs, deterministic=True) -> (action, state)`.

    `env` and the settings are as for `ASAP`; `episodes` is how many the teacher plays first, and how many are played to
    compare the two. `on_progress` hears how many have been played, of `num_played` in all.
    """
    episodes, seed = require_episodes("episodes", episodes), require_seed("seed", seed)
    options = {
        "policy.hyperplanes": integer("hyperplanes", hyperplanes),
        "policy.skills": skills,
        **feature_settings(features),
        "run.seed": seed,
    }
    overrides = parse_settings(Config, settings)
    task = hosted_task(env, overrides)  # Teachers play environments; a task of our own is one, too.
    if task.source.named.has_ranges:
        raise UserError("env", "a teacher plays one environment, without ranges", task.name, "give a number")
    config, _ = compose([task.name], options, overrides=overrides, given=(task,))
    with contextlib.closing(TaughtEnv(task, teacher, on_progress)) as room:
        policy = _best_student(config, task, room, episodes)
        ids = _ids(seed, EVALUATION, 0, episodes)
        taught, watched = room.taught(ids), room.watched(policy, ids, asks=False)
        at_random = room.random(ids[:RANDOM_EPISODES])
    return Distilled(
        policy=policy,
        task=task,
        config=config,
        agreement=agreement(policy, task, taught),
        teacher_return=_mean(taught),
        student_return=_mean(watched),
        random_return=_mean(at_random),
        num_evaluation=episodes,
        num_episodes=room.num_episodes,
        num_steps=room.num_steps,
    )


def num_played(episodes: int) -> int:
    """Episodes of a distillation: those that the student learns from, and those that the two are compared in."""
    return 3 * episodes + (ROUNDS + 1) * -(-episodes // PER_ROUND) + min(episodes, RANDOM_EPISODES)


def _best_student(config: Config, task: HostedTask, room: TaughtEnv, episodes: int) -> ASAPPolicy:
    seed, per_round = config.run.seed, -(-episodes // PER_ROUND)
    demonstrations = room.taught(_ids(seed, TRAINING, 0, episodes))
    students: list[tuple[float, ASAPPolicy]] = []
    for round_ in range(ROUNDS + 1):
        student = _student(config, task, demonstrations, students[-1][1] if students else None, round_)
        watched = room.watched(student, _ids(seed, SEARCH, round_ * per_round, per_round))
        students.append((_mean(watched), student))
        demonstrations += watched
    return max(students, key=lambda pair: pair[0])[1]


def _student(
    config: Config, task: HostedTask, demonstrations: Sequence[Demonstration], former: ASAPPolicy | None, number: int
) -> ASAPPolicy:
    """Learns from all demonstrations so far, from new starts and from where the former one was."""
    seed = config.run.seed
    observations = np.concatenate([demonstration.observations for demonstration in demonstrations])
    actions = np.concatenate([demonstration.actions for demonstration in demonstrations])
    tasks = TaskSet((task,), (1.0,))
    moments = moments_of(observations.T)
    known = [] if former is None else [rescaled(former, moments)]
    generators = (host_generator(seed, _STARTS, number, n) for n in range(LATER_STARTS - 1 if known else STARTS))
    starts = known + [scaled_anew(draw(config, tasks, generator), moments) for generator in generators]
    return imitate(starts, observations, actions, config.learn, host_generator(seed, _SAMPLES, number))


def agreement(policy: ASAPPolicy, task: HostedTask, demonstrations: Sequence[Demonstration]) -> float:
    """How well the policy's likeliest actions are those of the teacher."""
    player, chosen = Player(plan_of(policy, len(task.inputs))), []
    for demonstration in demonstrations:
        player.begin(np.random.default_rng(0), deterministic=True)
        chosen += [player.choose(x)[1] for x in demonstration.observations]
    advised = np.concatenate([demonstration.actions for demonstration in demonstrations])
    if not task.spec.continuous:
        return float((np.asarray(chosen) == advised).mean())
    units = ControlUnits.of_bounds(task.spec.action_low, task.spec.action_high)
    return share_explained(advised.astype(float), units.clipped(np.stack(chosen)))


def share_explained(advised: Float[np.ndarray, "N A"], chosen: Float[np.ndarray, "N A"]) -> float:
    """R^2; 1 or 0 for a teacher that always does the same."""
    error, spread = np.square(advised - chosen).sum(), np.square(advised - advised.mean(0)).sum()
    return float(1 - error / spread) if spread > 0 else float(error < 1e-3 * advised.size)


def _ids(seed: int, stream: int, first: int, count: int) -> list[EpisodeId]:
    return [EpisodeId(seed, stream, number) for number in range(first, first + count)]


def _mean(demonstrations: Sequence[Demonstration]) -> float:
    return float(np.mean([demonstration.total for demonstration in demonstrations]))
