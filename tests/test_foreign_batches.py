"""Promise: what workers are asked to play for a hosted environment is new in training, and as the settings say otherwise.

Nobody plays: a stand-in writes down what it is asked for and gives back episodes of three steps.
"""

import functools

import numpy as np
import pytest

from asap.base.episodes import EVALUATION, TRAINING, EpisodeId, Played
from asap.compose import settings_of
from asap.config.schema import Config
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.envs.gymnasium.task import describe
from asap.learn.foreign import ForeignTrainer
from asap.workers.dispatch import Dispatcher
from asap.workers.work import Finished, Work

LENGTH = 3


class Listening(Dispatcher):
    """In place of a dispatcher."""

    def __init__(self):
        self.works: list[Work] = []

    def play(self, works: list[Work]) -> list[Finished]:
        self.works += works
        return [Finished(work.number, tuple(map(_episode, work.episodes))) for work in works]

    def close(self) -> None: ...

    def numbers(self, seed: int) -> list[int]:
        """Of the episodes for training, in their order."""
        ids = [episode for work in self.works for episode in work.episodes]
        return [episode.number for episode in ids if episode.stream == TRAINING and episode.seed == seed]


def _episode(which: EpisodeId) -> Played:
    draws = np.random.default_rng([which.seed, which.stream, which.number])
    x, whole = draws.normal(size=(LENGTH + 1, 4)).astype(np.float32), draws.integers(0, 2, (2, LENGTH)).astype(np.int32)
    return Played(which, x, *whole, draws.normal(size=LENGTH).astype(np.float32), True, None)


@functools.cache
def cart_pole():
    return describe(EnvSource("CartPole-v1"), EnvLimits())


def config_of(*settings: str) -> Config:
    plain = ("learn.learner=actor-critic", "learn.critic_features=4", "run.candidates=0", "run.eval_episodes=2")
    sizes = ("learn.batch_steps=20", "learn.round_episodes=2")
    return settings_of(["CartPole-v1"], {}, None, None, [*plain, *sizes, *settings], None)


def trainer_of(config: Config) -> tuple[ForeignTrainer, Listening]:
    listening = Listening()
    return ForeignTrainer(config, cart_pole(), listening, pytest.fail), listening


def test_no_episode_of_training_is_played_twice():
    """Twenty steps in rounds of two episodes with three steps each are eight episodes; the next update begins with the ninth."""
    trainer, listening = trainer_of(config_of("run.seeds=2"))
    states = trainer.start()
    for update in (1, 2):
        states, _ = trainer.advance(states)
        for seed in (0, 1):
            assert listening.numbers(seed) == list(range(8 * update))
    assert np.asarray(states.totals.episodes).tolist() == [[16], [16]]


@pytest.mark.parametrize("deterministic", [True, False])
def test_the_last_evaluation_is_deterministic_if_the_settings_say_so(deterministic):
    trainer, listening = trainer_of(config_of(f"run.deterministic={str(deterministic).lower()}"))
    states = trainer.start()
    listening.works.clear()
    trainer.evaluate(states.policy, 3)
    assert [work.deterministic for work in listening.works] == [deterministic] * 3
    ids = [episode for work in listening.works for episode in work.episodes]
    assert [(episode.stream, episode.number) for episode in ids] == [(EVALUATION, n) for n in range(3)]
