"""Promise: what workers are asked to play for a hosted environment is new in training, and as the settings say
otherwise.

Nobody plays: a stand-in writes down what it is asked for and gives back episodes of three steps.
"""

import dataclasses

import numpy as np
import pytest

from asap.base.episodes import EVALUATION, TRAINING, EpisodeId, Played
from asap.base.spec import TaskSet
from asap.compose import compose
from asap.config.schema import Config
from asap.config.toml import parse_settings
from asap.envs.gymnasium.make import EnvSource
from asap.experience.hosted import Hosted, evaluation_of
from asap.experience.protocol import Counters, EpisodeIds
from asap.learn.loop import Loop
from asap.learn.update import seen_in
from asap.model import training
from asap.model.training import blank_start
from asap.runs.events import InMemory
from asap.runs.signals import StopRequest
from asap.workers.dispatch import Dispatcher
from asap.workers.hire import hire
from asap.workers.work import Finished, Work

LENGTH = 3


class Listening(Dispatcher):
    """In place of a dispatcher."""

    def __init__(self):
        self.works: list[Work] = []

    def play(self, works: list[Work], on_progress=None) -> list[Finished]:
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


def composed(*settings: str) -> tuple[Config, TaskSet]:
    plain = ("learn.learner=actor-critic", "learn.critic_features=4", "run.candidates=0", "run.eval_episodes=2")
    sizes = ("learn.batch_steps=20", "learn.round_episodes=2")
    return compose(["CartPole-v1"], {}, overrides=parse_settings(Config, [*plain, *sizes, *settings]))


def experience_of(config: Config, tasks: TaskSet) -> tuple[Hosted, Listening]:
    listening = Listening()
    return Hosted(config, tasks, listening, pytest.fail), listening


def test_no_episode_of_training_is_played_twice():
    """Twenty steps in rounds of two episodes with three steps each are eight episodes; the next update begins with the
    ninth."""
    config, tasks = composed("run.seeds=2")
    experience, listening = experience_of(config, tasks)

    def look(report) -> bool:
        for seed in (0, 1):
            assert listening.numbers(seed) == list(range(8 * report.update))
        return report.update < 2

    loop = Loop(config, experience, InMemory(), [look])
    states, finished = loop.run(loop.start(blank_start(config, tasks)), StopRequest())
    assert np.asarray(states.totals.episodes).tolist() == [[16], [16]] and not finished


@pytest.mark.parametrize(
    ("updates", "episodes", "steps", "num_played"),
    [
        (0, 1000, 1000, 8),  # Episodes of 3 steps in rounds of 2, until there are 20 steps: 24.
        (0, 1000, 7, 3),  # The third begins with one step left.
        (0, 1000, 6, 2),
        (0, 5, 1000, 5),
        # Near the end they are played one by one. After 21 steps a rest of 11 makes a batch of its own; one of 10 does
        # not, and is played at once: the last episode begins with one step left.
        (0, 1000, 32, 7),
        (0, 1000, 31, 11),
        (0, 11, 1000, 11),
        (16, 1, 1, 8),  # After many updates the last batch is whole.
    ],
)
def test_no_episode_begins_when_the_budget_is_used_up(updates, episodes, steps, num_played):
    config, tasks = composed()
    experience, listening = experience_of(config, tasks)
    left = np.asarray([episodes]), np.asarray([steps])
    counters = Counters(np.full(1, updates), np.zeros(1, int), left)
    experience.feed(blank_start(config, tasks).policy, counters, np.ones(1, bool))
    assert listening.numbers(0) == list(range(num_played))


def test_reinforce_counts_episodes_and_not_steps():
    """Five at least, in rounds of two, however long they are."""
    config, tasks = composed("learn.learner=reinforce", "learn.batch_episodes=5", "learn.batch_steps=1000")
    experience, listening = experience_of(config, tasks)
    batch = fed(experience, config, tasks)
    assert listening.numbers(0) == list(range(6)) and batch.totals.episodes.tolist() == [6]


def fed(experience: Hosted, config: Config, tasks: TaskSet, first: int = 0):
    """The batch of the only seed, which has completed `first` episodes."""
    counters = Counters(np.zeros(1, int), np.full(1, first))
    return experience.feed(blank_start(config, tasks).policy, counters, np.ones(1, bool))[0]


def test_what_a_batch_is_filled_up_with_was_not_observed():
    """Eight episodes of three steps: the scaling counts their 24 observations and no zeros."""
    config, tasks = composed()
    batch = fed(experience_of(config, tasks)[0], config, tasks)
    rows = np.concatenate([_episode(EpisodeId(0, TRAINING, n)).observations[:-1] for n in range(8)]).astype(float)
    moments = seen_in(batch)
    assert batch.steps.reward.size > len(rows) == 24 == moments.count
    np.testing.assert_allclose(moments.mean, rows.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(moments.squares, 24 * rows.var(0), rtol=1e-4)


def test_a_seed_that_has_stopped_plays_nothing():
    config, tasks = composed("run.seeds=2")
    experience, listening = experience_of(config, tasks)
    counters = Counters(np.zeros(2, int), np.zeros(2, int))
    batches = experience.feed(blank_start(config, tasks).policy, counters, np.array([False, True]))
    assert batches[0] is None and batches[1].totals.episodes.tolist() == [8]
    assert listening.numbers(0) == [] and listening.numbers(1) == list(range(8))


def test_the_curve_of_a_seed_that_has_stopped_stays_where_it_was():
    config, tasks = composed("run.seeds=2")
    experience, _ = experience_of(config, tasks)
    policies, counters = blank_start(config, tasks).policy, Counters(np.zeros(2, int), np.zeros(2, int))
    experience.feed(policies, counters, np.ones(2, bool))
    last = experience.look(policies, 1).returns
    experience.feed(policies, counters._replace(episodes=np.full(2, 8)), np.array([False, True]))
    now = experience.look(policies, 2).returns
    np.testing.assert_array_equal(now[0], last[0])
    assert (now[1] != last[1]).all()


def test_an_evaluation_counts_by_hand():
    """Two episodes: rewards of 1, 2 and 4 under skills 0, 0 and 1, and one of 8 under skill 1."""
    _, tasks = composed()

    def played(number: int, skills: list[int], rewards: list[float]) -> Played:
        zeros = np.zeros((len(rewards) + 1, 4), np.float32)
        choices = np.int32(skills), np.zeros(len(rewards), np.int32)
        return Played(EpisodeId(0, EVALUATION, number), zeros, *choices, np.float32(rewards), True, None)

    found = evaluation_of([[played(0, [0, 0, 1], [1, 2, 4]), played(1, [1], [8])]], tasks, num_skills=2)
    gamma = tasks.spec.discount
    np.testing.assert_allclose(found.discounted[0, 0], [1 + 2 * gamma + 4 * gamma**2, 8], rtol=1e-6)
    assert found.returns.tolist() == [[[7.0, 8.0]]] and found.lengths.tolist() == [[[3.0, 1.0]]]
    assert found.skill_steps.tolist() == [[[2, 2]]] and found.skill_starts.tolist() == [[[1, 2]]]
    assert found.usage.tolist() == [[[0.5, 0.5]]] and found.durations.tolist() == [[[2.0, 1.0]]]


@pytest.mark.parametrize("deterministic", [True, False])
def test_an_evaluation_is_deterministic_if_that_is_asked_for(deterministic):
    config, tasks = composed()
    experience, listening = experience_of(config, tasks)
    ids = EpisodeIds([5], EVALUATION)
    experience.evaluate(blank_start(config, tasks).policy, ids, 3, deterministic)
    assert [work.deterministic for work in listening.works] == [deterministic] * 3
    asked = [episode for work in listening.works for episode in work.episodes]
    assert asked == [EpisodeId(5, EVALUATION, number) for number in range(3)]


@pytest.mark.parametrize("deterministic", [True, False])
def test_the_last_evaluation_is_as_the_settings_say(deterministic, tmp_path, monkeypatch):
    config, tasks = composed(f"run.deterministic={str(deterministic).lower()}", "run.final_episodes=3", "run.steps=20")
    experience, listening = experience_of(config, tasks)
    monkeypatch.setattr(training, "choose", lambda *_, **__: experience)
    asked = training.Training(config, tasks, InMemory(), (), "0", tmp_path, pytest.fail)
    training.train(asked, None, StopRequest())
    last = [work for work in listening.works if work.episodes[0].stream == EVALUATION][-3:]
    assert [work.deterministic for work in last] == [deterministic] * 3
    assert [work.episodes for work in last] == [(EpisodeId(0, EVALUATION, number),) for number in range(3)]


# ---- Several tasks ------------------------------------------------------------------------------------------------


def two_tasks(*settings: str) -> tuple[Config, TaskSet]:
    """CartPole with its own episodes and with such that end after seven steps, which are played three times as
    often."""
    config, plain = composed(*settings)
    task = plain.tasks[0]
    whole, short = ({}, {"max_episode_steps": 7})
    tasks = tuple(
        dataclasses.replace(task, name=name, source=EnvSource("CartPole-v1", options), descriptor=(weight,))
        for name, options, weight in (("whole", whole, 0.25), ("short", short, -0.5))
    )
    return config, TaskSet(tasks, (1.0, 3.0))


def test_the_task_of_an_episode_is_drawn_by_its_id_alone():
    """By their weights, the same whatever was played before and in rounds of any size.."""
    config, tasks = two_tasks("learn.batch_steps=1200")
    experience, listening = experience_of(config, tasks)
    fed(experience, config, tasks)
    asked = [episode for work in listening.works for episode in work.episodes]
    assert len(asked) == 400 and 0.7 < np.mean([episode.task for episode in asked]) < 0.8
    assert [episode.task for episode in asked[:50]] == [int(episode.uniform() >= 0.25) for episode in asked[:50]]

    config, tasks = two_tasks("learn.batch_steps=120", "learn.round_episodes=5")
    experience, listening = experience_of(config, tasks)
    fed(experience, config, tasks, first=100)
    again = [episode for work in listening.works for episode in work.episodes]
    assert again == asked[100:140]


def test_what_draws_the_task_draws_nothing_else():
    """Task, reset and choices of an episode have random numbers of their own."""
    for number in range(20):
        episode = EpisodeId(7, TRAINING, number)
        first = episode.choices().random()
        assert len({episode.uniform(), first, episode.reset_seed / 2**31}) == 3
    tasks, firsts = np.array(
        [(e.uniform(), e.choices().random()) for e in (EpisodeId(7, TRAINING, n) for n in range(500))]
    ).T
    assert abs(np.corrcoef(tasks, firsts)[0, 1]) < 0.15  # Three standard errors.


def test_a_batch_tells_the_task_of_every_step(tmp_path):
    """Two environments in this process: whose steps they are, its descriptor, and its totals."""
    config, tasks = two_tasks("learn.batch_steps=200")
    sources = tuple(task.hosted_source for task in tasks.tasks)
    experience = Hosted(config, tasks, hire("0", sources, tmp_path, pytest.fail), pytest.fail)
    batch = fed(experience, config, tasks)
    experience.close()
    steps, count = batch.steps, int(batch.env_steps)
    of_task, lasts = steps.of_task[:, :count, 0], np.flatnonzero((steps.terminated | steps.truncated)[:count, 0])
    assert (of_task.sum(0) == 1).all() and of_task.any(1).all()
    np.testing.assert_array_equal(steps.descriptor[0, :count, 0], np.where(of_task[0], 0.25, -0.5))
    lengths, owners = np.diff(lasts, prepend=-1), of_task[1, lasts]
    ids = [EpisodeId(0, TRAINING, number) for number in range(len(lengths))]
    assert owners.tolist() == [episode.uniform() >= 0.25 for episode in ids]
    assert (lengths[owners] <= 7).all() and (lengths[~owners] > 7).all() and 7 in lengths[owners]
    assert batch.totals.episodes.tolist() == [(~owners).sum(), owners.sum()]
    assert batch.totals.steps.tolist() == [lengths[~owners].sum(), lengths[owners].sum()]


def test_an_evaluation_plays_every_task_alike():
    config, tasks = two_tasks()
    experience, listening = experience_of(config, tasks)
    played = experience.evaluate(blank_start(config, tasks).policy, EpisodeIds([0], EVALUATION, 4), 3, False)
    asked = [episode for work in listening.works for episode in work.episodes]
    assert asked == [EpisodeId(0, EVALUATION, number, task) for task in (0, 1) for number in (4, 5, 6)]
    assert played.returns.shape == (1, 2, 3) and played.skill_steps.sum(-1).tolist() == [[9, 9]]


def test_two_tasks_are_learned_together(tmp_path):
    """Planes see the descriptor; updates are finite, and every task has its entry in the curve."""
    config, tasks = two_tasks("learn.batch_steps=100", "run.steps=600")
    seen = []
    asked = training.Training(config, tasks, InMemory(), [seen.append], "0", tmp_path, pytest.fail)
    states, result = training.train(asked, None, StopRequest())
    start = blank_start(config, tasks).policy.partition.beta
    beta = np.asarray(states.policy.partition.beta)
    assert result.finished and np.isfinite(beta).all() and (beta != start).all() and beta.shape == (1, 1, 10)
    assert seen[-1].returns.shape == (1, 2) and (np.asarray(states.totals.episodes) > 0).all()
