"""Promise: with `run.search_if_stuck` a start is searched for only where the first episodes tell nothing: all have the same
return, or all last to the time limit."""

import numpy as np
import pytest

from asap.base.episodes import EpisodeId, Played
from asap.base.spec import TaskSet
from asap.compose import compose
from asap.config.schema import Config
from asap.config.toml import parse_settings
from asap.experience.hosted import evaluation_of
from asap.experience.protocol import EpisodeIds, Evaluation, Experience, ignore_progress
from asap.learn.search import FIRST, search
from asap.policy.policy import ASAPPolicy

LIMIT = 5


class FirstEpisodes(Experience):
    """The first policy plays episodes of these returns and lengths; every other gets 1 in an episode of one step."""

    together, most_updates, least_episodes, plays = False, 1, 1, True

    def __init__(self, tasks: TaskSet, first: list[tuple[float, int]]):
        self.tasks, self.first, self.asked = tasks, first, []

    def evaluate(
        self, policies: ASAPPolicy, ids: EpisodeIds, num_episodes: int, deterministic: bool, on_progress=ignore_progress
    ) -> Evaluation:
        count = len(policies.skills.theta)
        self.asked.append((count, num_episodes))
        is_first = len(self.asked) == 1
        episodes = [
            [episode(*one) for one in (self.first if is_first else [(n, 1)] * num_episodes)] for n in range(count)
        ]
        return evaluation_of(episodes, self.tasks, policies.num_skills)


def episode(value: float, length: int) -> Played:
    x, none = np.random.default_rng(0).random((length + 1, 4), np.float32), np.zeros(length, np.int32)
    rewards = np.float32([value] + [0.0] * (length - 1))
    return Played(EpisodeId(0, 1, 0), x, none, none, rewards, length < LIMIT, None)


@pytest.mark.parametrize(
    "first, is_stuck",
    [
        ([(3.0, 2)] * FIRST, True),  # All returns are the same.
        ([(float(n), LIMIT) for n in range(FIRST)], True),  # Nothing ends an episode but the limit.
        ([(0.0, LIMIT)] * (FIRST - 1) + [(1.0, 4)], False),
        ([(float(n), 1 + n % 2) for n in range(FIRST)], False),
    ],
)
def test_first_episodes_decide(first, is_stuck):
    settings = ["run.candidates=16", "run.search_if_stuck=true", f"env.max_steps={LIMIT}", "run.steps=100000"]
    config, tasks = compose(["CartPole-v1"], {}, overrides=parse_settings(Config, settings))
    playing = FirstEpisodes(tasks, first)
    found = search(config, playing, 0)
    assert playing.asked[0] == (1, FIRST)
    assert (len(playing.asked) > 1) == is_stuck
    if not is_stuck:
        assert found.totals.episodes.tolist() == [FIRST]
        assert found.totals.steps.tolist() == [sum(length for _, length in first)]
        assert found.moments.count == found.totals.steps[0]


def test_a_budget_of_a_few_episodes_is_not_spent_on_the_question():
    settings = ["run.candidates=16", "run.search_if_stuck=true", f"env.max_steps={LIMIT}", "run.steps=20"]
    config, tasks = compose(["CartPole-v1"], {}, overrides=parse_settings(Config, settings))
    playing = FirstEpisodes(tasks, [(0.0, 1)] * FIRST)
    assert search(config, playing, 0).totals.episodes.tolist() == [0] and not playing.asked
