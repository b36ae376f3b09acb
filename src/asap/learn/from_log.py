"""What learning from logged data is run with where the user leaves it open, decided from the data alone: nothing is played.

One episode in five, by its place in the file, is held out. On the others, short trainings try the learners side by side: the likelihood of
what was logged, with steps weighed by exp(sharpness * advantage) for several values of the sharpness, or importance weights. From time to
time each is judged on the episodes that were held out: what is a step of it worth, beyond one of the behaviour?

    gain(pi) = sum_t rho_t A_t / sum_t rho_t - mean A,    rho_t = min(pi(a_t | x_t) / b(a_t | x_t), 20)

A_t is the advantage by the value of the behaviour, which was fitted to the episodes that are learned from. The mean of A under pi, over the
states of the behaviour, is how much better pi is to first order. Its weights are those of single steps, so they do not vanish in long
episodes as products over hundreds of steps do. They say nothing about states where only pi would get, so a policy whose weights are worth
less than a twentieth of the steps is not trusted. Of the rest, the one of the highest gain is chosen.

When to stop: a training ends when its parameters have converged, or after its budget. Where a policy was better on the held-out episodes
after fewer updates than at the end of its trial, by two standard errors, the budget is cut to so many updates.

A behaviour without chance has no such weights. Then the likelihood is used as it is.
"""

import dataclasses
import functools
import math
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.arrays import compiled_when_called, stack
from asap.base.errors import UserError
from asap.base.numbers import number
from asap.base.spec import Task, TaskSet
from asap.base.types import Transition
from asap.config.defaults import complete
from asap.config.schema import Config
from asap.data.dataset import Dataset
from asap.data.layout import BEHAVIOUR
from asap.experience.logged import Logged, Unplayed, Weighing, effective_sample_size, open_data
from asap.learn.loop import Loop
from asap.learn.state import Start, drawn_start
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.policy.scaling import Moments, rescaled, scaled_anew
from asap.policy.score import MARGINAL, score
from asap.runs.events import InMemory, Report
from asap.runs.signals import StopRequest

LEAST_EPISODES, MOST_LANES = 30_000, 32  # A small dataset is read several times.
STEPS_AT_ONCE = 16_384  # Of an update, about: long episodes need fewer lanes.
# Below this, weights of whole episodes from the start, which is nearly uniform, say nothing about other policies.
LEAST_ESS = 0.01
HELD_OUT, FEWEST = 5, 10  # One episode in so many; so many there must be.
SHARPNESSES = (0.0, 0.5, 1.0, 2.0, 4.0)
USUAL = Weighing("advantages", 1.0)  # Where nothing can be compared.
AS_LOGGED = Weighing("returns", 1.0)  # Of a behaviour without chance: its actions show no other.
LOOKS, UPDATES = 6, 25  # Of a trial: how often it is judged, after how many updates each.
TRIAL_STEPS, TRIAL_EPISODES = 4096, 256  # Of one of its updates, at most.
MOST_RATIO, LEAST_SHARE, ERRORS = 20.0, 0.05, 2.0
MOST_HELD = 20_000  # Steps that candidates are judged by.


class HeldOut(NamedTuple):
    """Steps that were held out, one after the other."""

    steps: Transition
    log_prob: Float[np.ndarray, "N"]  # Of the behaviour.
    advantage: Float[np.ndarray, "N"]
    episode: Int[np.ndarray, "N"]


class StepGain(NamedTuple):
    """Of a policy over the behaviour, per step."""

    mean: float
    share: float  # Effective sample size, of the steps.
    parts: Float[np.ndarray, "E"]  # What each episode adds to the mean.

    @property
    def merit(self) -> float:
        return self.mean if self.share >= LEAST_SHARE and math.isfinite(self.mean) else -math.inf


class Tried(NamedTuple):
    """A candidate, and its gain after each look."""

    learner: str
    weighing: Weighing | None  # None: importance weights.
    gains: list[StepGain]

    @property
    def best(self) -> int:
        """The look at which it was best; the last one, unless an earlier one is better by two standard errors."""
        last, first = self.gains[-1], int(np.argmax([gain.merit for gain in self.gains]))
        error = float(np.sqrt(np.square(self.gains[first].parts - last.parts).sum()))
        is_surely_better = self.gains[first].merit > last.merit + ERRORS * error
        return first if is_surely_better else len(self.gains) - 1

    @property
    def merit(self) -> float:
        return self.gains[self.best].merit


def settle(config: Config, task: Task) -> tuple[Config, str | None]:
    """The config with what the data decide: objective, weights and budget; and what to tell the user of it."""
    offline = config.offline
    data = offline.data if offline.data.startswith("minari:") else str(Path(offline.data).absolute())
    dataset = open_data(_with(config, "offline", data=data), task)
    if config.learn.learner == "importance" and not dataset.is_stochastic:
        what = "importance weights need a stochastic behaviour whose log-probabilities are known"
        raise UserError("learn.learner", what, config.learn.learner, "use likelihood")
    lanes = config.learn.lanes or min(MOST_LANES, max(4, STEPS_AT_ONCE // _window(config, dataset)))
    episodes = config.run.episodes or max(LEAST_EPISODES * lanes // MOST_LANES, dataset.num_episodes)
    config = _with(config, "offline", data=data, fingerprint=dataset.fingerprint)
    config = _with(config, "learn", lanes=lanes)
    is_open = config.learn.learner is None or (offline.sharpness is None and config.learn.learner != "importance")
    tried = _tried(config, task, dataset) if is_open and offline.weights is None else []
    if tried:
        chosen = max(tried, key=lambda one: one.merit)
        if chosen.merit > -math.inf:
            if chosen.best < LOOKS - 1 and config.run.episodes is None:
                episodes = max(1, round(_read(config, dataset) * (chosen.best + 1)))
            config = _with_weighing(config, chosen.learner, chosen.weighing)
            return _with(config, "run", episodes=episodes), _in_words(chosen)
    is_sure = BEHAVIOUR in dataset.columns and not dataset.is_stochastic
    fallback = Weighing(offline.weights or (AS_LOGGED if is_sure else USUAL).by, 1.0)
    learner = config.learn.learner or "likelihood"
    config = _with_weighing(config, learner, fallback if learner == "likelihood" else None)
    return _with(config, "run", episodes=episodes), None


def _with(config: Config, section: str, **values) -> Config:
    return dataclasses.replace(config, **{section: dataclasses.replace(getattr(config, section), **values)})


def _with_weighing(config: Config, learner: str, weighing: Weighing | None) -> Config:
    """What the user has said stays."""
    config = _with(config, "learn", learner=learner)
    if weighing is None:
        return config
    own = config.offline
    sharpness = weighing.sharpness if own.sharpness is None else own.sharpness
    return _with(config, "offline", weights=own.weights or weighing.by, sharpness=sharpness)


def _in_words(chosen: Tried) -> str:
    gain = chosen.gains[chosen.best]
    weighed = "importance weights"
    if chosen.weighing is not None:
        weighed = f"likelihood, steps weighed by {chosen.weighing.by} with sharpness {chosen.weighing.sharpness:g}"
    worth = f"{number(gain.mean)} per step beyond the behaviour, effective sample size {100 * gain.share:.0f} %"
    return f"offline: chosen on held-out episodes: {weighed} ({worth})"


# ---- Trials -------------------------------------------------------------------------------------------------------


def _tried(config: Config, task: Task, dataset: Dataset) -> list[Tried]:
    """Short trainings of all candidates; none where too little is known to compare them."""
    if not dataset.is_stochastic or dataset.num_episodes < FEWEST or config.policy.rules:
        return []
    is_held = np.arange(dataset.num_episodes) % HELD_OUT == HELD_OUT - 1
    members, others = np.flatnonzero(~is_held), np.flatnonzero(is_held)
    tasks, found, held = TaskSet((task,), (1.0,)), [], None
    for learner in ("likelihood", "importance"):
        if config.learn.learner not in (None, learner) or (learner == "importance" and start_ess(dataset) < LEAST_ESS):
            continue
        weighings = [Weighing("advantages", each) for each in SHARPNESSES] if learner == "likelihood" else [AS_LOGGED]
        trial = _trial_config(config, task, dataset, learner, len(weighings))
        experience = Logged(trial, tasks, dataset, Unplayed(tasks), members, weighings)
        held = held or held_out(dataset, others, experience.advantages_of(others))
        looks = _gains(trial, experience, held)
        for index, weighing in enumerate(weighings):
            found.append(
                Tried(learner, None if learner == "importance" else weighing, [gains[index] for gains in looks])
            )
    return found


def _read(config: Config, dataset: Dataset) -> float:
    """Episodes that a training reads in as many updates as a trial makes between two looks."""
    return UPDATES * config.learn.lanes * _window(config, dataset) / float(dataset.episodes.length.mean())


def _window(config: Config, dataset: Dataset) -> int:
    """Steps of a lane."""
    return max(config.learn.window, dataset.longest)


def _trial_config(config: Config, task: Task, dataset: Dataset, learner: str, count: int) -> Config:
    mean = float(dataset.episodes.length.mean())
    lanes = max(1, int(min(TRIAL_STEPS, TRIAL_EPISODES * mean)) // _window(config, dataset))
    config = _with(config, "learn", learner=learner, lanes=lanes, convergence_tolerance=0.0, averaging=None)
    run = {"tasks": (task.name,), "weights": (1.0,), "seeds": count, "chunk": UPDATES, "steps": None}
    return complete(_with(config, "run", **run, episodes=2**30))


def _gains(config: Config, experience: Logged, held: HeldOut) -> list[list[StepGain]]:
    """Of every candidate at every look."""
    looks: list[list[StepGain]] = []

    def look(report: Report) -> bool:
        looks.append(gains_of(report.policies, held))
        return len(looks) < LOOKS

    loop = Loop(config, experience, InMemory(), [look])
    start = in_known_units(drawn_start(config, experience.tasks, config.run.seed), experience.known_moments())
    loop.run(loop.start(stack([start] * config.run.seeds)), StopRequest())
    return looks


def in_known_units(start: Start, moments: Moments | None, is_drawn: bool = True) -> Start:
    """With observations scaled as they will stay. A policy that was given stays what it is, one that was drawn keeps its numbers."""
    if moments is None:
        return start
    policy = scaled_anew(start.policy, moments) if is_drawn else rescaled(start.policy, moments)
    return start._replace(policy=policy, moments=moments)


# ---- Judging ------------------------------------------------------------------------------------------------------


def held_out(dataset: Dataset, members: Int[np.ndarray, "E"], advantage: Float[np.ndarray, "rows"]) -> HeldOut:
    """The steps of these episodes, or of the first of them; filled up so that few programs are compiled."""
    count = int(np.searchsorted(np.cumsum(dataset.episodes.length[members]), MOST_HELD)) + 1
    members = members[:count]
    logged = [dataset.read(int(index)) for index in members]
    lengths = [len(one.reward) for one in logged]
    observation = np.concatenate([np.asarray(one.observation, np.float32) for one in logged]).T
    descriptor = np.repeat(np.stack([np.asarray(one.descriptor, np.float32) for one in logged]), lengths, axis=0).T
    action = np.moveaxis(np.concatenate([one.action for one in logged]), 0, -1)
    size = sum(lengths)
    none, no, zeros = np.full(size, NO_SKILL, np.int32), np.zeros(size, bool), np.zeros(size, np.float32)
    action = action if action.ndim > 1 else action.astype(np.int32)
    steps = Transition(observation, descriptor, none, none, action, zeros, no, no, observation)
    own = zip(dataset.episodes.start[members].tolist(), lengths)
    worth = np.concatenate([advantage[start : start + length] for start, length in own])
    log_prob = np.concatenate([one.behaviour_log_prob for one in logged])
    return HeldOut(steps, log_prob, worth, np.repeat(np.arange(len(members)), lengths))


def gains_of(policies: ASAPPolicy, held: HeldOut) -> list[StepGain]:
    """Of stacked policies."""
    return [gain(log_prob - held.log_prob, held) for log_prob in np.asarray(_log_probs(policies, held.steps))]


@compiled_when_called
def _log_probs(policies: ASAPPolicy, steps: Transition) -> Float[Array, "P N"]:
    return jax.vmap(functools.partial(score, step=steps, gradient=MARGINAL))(policies).log_prob


def gain(log_ratio: Float[np.ndarray, "N"], held: HeldOut) -> StepGain:
    """By weights of single steps, clipped and self-normalised."""
    rho = np.exp(np.minimum(log_ratio.astype(float), math.log(MOST_RATIO)))
    total, worth = max(rho.sum(), 1e-30), held.advantage - held.advantage.mean()
    mean = float((rho * worth).sum() / total)
    parts = np.bincount(held.episode, rho * (worth - mean)) / total
    return StepGain(mean, float(effective_sample_size(jnp.asarray(rho, jnp.float32))) / len(rho), parts)


def start_ess(dataset: Dataset) -> float:
    """Effective sample size of uniform play's whole-episode weights, as a share of the episodes; 0 without weights. Of vectors, too: what
    a Gaussian policy begins with is not uniform."""
    if not dataset.is_stochastic or dataset.layout.controls is not None:
        return 0.0
    episodes = dataset.episodes
    log_weights = -episodes.length * np.log(dataset.layout.num_actions) - episodes.behaviour_log_prob
    return float(effective_sample_size(np.exp(log_weights - log_weights.max()))) / len(log_weights)
