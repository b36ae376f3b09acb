"""Workers play several tasks: each episode in the environment of its task, with the policy for that task."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest
from test_workers import BACK_ENDS, Told, digests, dispatching, hosted, new_plan, no_ray_is_left, play, walk  # noqa: F401

from asap.base.episodes import EpisodeId
from asap.base.errors import RunError, UserError
from asap.envs.gymnasium.make import EnvLimits, EnvSource, HostedSource
from asap.policy.host import Plan
from asap.workers.hire import hire
from asap.workers.messages import decode, encode
from asap.workers.work import Finished, Work

CART_POLE = EnvSource("CartPole-v1")
PLAYERS = ["in process", "pool of 2", "ray"]


def plan_of_two(descriptors: np.ndarray | None = None) -> Plan:
    """Of two tasks. With descriptors, these alone decide between the skills."""
    static, arrays = new_plan()
    if descriptors is None:
        return Plan(static, {**arrays, "descriptors": np.zeros((2, 0))})
    static = {**static, "psi": {**static["psi"], "task": "additive"}}
    beta = np.concatenate([np.zeros((2, 5)), np.eye(2)], 1)
    return Plan(static, {**arrays, "beta": beta, "descriptors": descriptors})


def works_of(tasks: list[int], plan: Plan | None = None) -> list[Work]:
    """Chunks of five episodes, whose tasks repeat."""
    ids = [EpisodeId(3, 0, n, tasks[n % len(tasks)]) for n in range(20)]
    return [Work(i, plan or plan_of_two(), tuple(ids[5 * i : 5 * i + 5])) for i in range(4)]


def under_task_0(results: list[Finished], task: int) -> list[str]:
    """Digests of a task's episodes, as if they were those of the first."""
    chosen = [one for finished in results for one in finished.played if one.episode.task == task]
    return digests([Finished(0, tuple(one._replace(episode=one.episode._replace(task=0)) for one in chosen))])


@functools.cache
def alone(name: str) -> list[str]:
    return digests(play("in process", EnvSource(name), works_of([0])))


@pytest.mark.parametrize("back_end", PLAYERS)
def test_each_episode_is_of_its_task(back_end):
    """The same as where each environment is the only one; the time limit is that of the task."""
    sources = (*hosted(walk(), CART_POLE), HostedSource(CART_POLE, EnvLimits(max_steps=4)))
    plan = plan_of_two()
    plan.arrays["descriptors"] = np.zeros((3, 0))
    with dispatching(BACK_ENDS[back_end](sources)) as dispatcher:
        results = dispatcher.play(works_of([0, 1, 2], plan))
    assert under_task_0(results, 0) == alone("worker_envs:walk")[::3]
    assert under_task_0(results, 1) == alone("CartPole-v1")[1::3]
    lengths = [[one.length for f in results for one in f.played if one.episode.task == task] for task in range(3)]
    assert set(lengths[2]) == {4} and min(lengths[1]) > 4


@pytest.mark.parametrize("back_end", PLAYERS)
def test_each_episode_has_the_descriptor_of_its_task(back_end):
    descriptors = np.float32([[-30.0, 30.0], [30.0, 30.0]])
    with dispatching(BACK_ENDS[back_end](hosted(walk(), CART_POLE))) as dispatcher:
        results = dispatcher.play(works_of([0, 1], plan_of_two(descriptors)))
    skills = {one.episode.task: set(one.skills.tolist()) for finished in results for one in finished.played}
    assert skills == {0: {2}, 1: {3}}


def test_the_task_has_no_part_in_what_is_random():
    one, other = EpisodeId(2**40, 1, 7), EpisodeId(2**40, 1, 7, 3)
    assert one.task == 0 and one != other and one.reset_seed == other.reset_seed
    assert one.choices().random() == other.choices().random()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_failed_episode_names_the_environment_of_its_task(workers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source, limits = walk("fails", what="raise"), EnvLimits(max_steps=9)
    dispatcher = hire(workers, (*hosted(walk()), HostedSource(source, limits)), tmp_path, Told())
    try:
        with pytest.raises(RunError) as raised:
            dispatcher.play(works_of([1, 0]))  # It is episode 8 that fails.
    finally:
        dispatcher.close()
    assert str(raised.value).endswith("asap check worker_envs:fails --replay failed-episode-8.json")
    saved = json.loads(Path("failed-episode-8.json").read_text())
    assert (saved["env"], saved["options"], saved["rules"]) == (source.name, source.options, limits._asdict())
    assert saved["seed"] == EpisodeId(3, 0, 8).reset_seed and len(saved["actions"]) == 3


@pytest.mark.parametrize("back_end", PLAYERS)
def test_environments_are_made_when_they_are_needed_and_all_are_closed(back_end, tmp_path):
    sources = hosted(*(walk("leaves_marks", folder=str(tmp_path), mark=mark) for mark in ("first", "second", "third")))
    with dispatching(BACK_ENDS[back_end](sources)) as dispatcher:
        dispatcher.play(works_of([0]))
        assert {path.name for path in tmp_path.iterdir()} == {"first made"}
        dispatcher.play(works_of([0, 1]))
        assert {path.name for path in tmp_path.iterdir()} == {"first made", "second made"}
    assert {path.name for path in tmp_path.iterdir()} == {"first made", "first closed", "second made", "second closed"}


@pytest.mark.parametrize("back_end", PLAYERS)
def test_the_second_that_cannot_be_made_is_told_in_one_line(back_end):
    with dispatching(BACK_ENDS[back_end](hosted(walk(), EnvSource("CartPol-v1")))) as dispatcher:
        assert len(dispatcher.play(works_of([0]))) == 4
        with pytest.raises(UserError, match="env: 'CartPol-v1' is not registered") as raised:
            dispatcher.play(works_of([0, 1]))
    assert raised.value.exit_code == 2


def test_making_the_second_has_the_patience_of_a_start():
    sources, told = hosted(walk(), walk("slow_to_make", seconds=3.0)), Told()
    with dispatching(BACK_ENDS["pool of 1"](sources), told, step_timeout=2.0) as dispatcher:
        assert under_task_0(dispatcher.play(works_of([0, 1])), 1) == alone("worker_envs:walk")[1::2]
    assert told == []


@pytest.mark.parametrize("what, line", [("hang", "silent for 4 s"), ("exit", r"the worker died \(exit code 3\)")])
def test_making_the_second_fails_for_good(what, line):
    sources, settings = hosted(walk(), walk("fails", what=what, where="make")), {"step_timeout": 2.0, "retries": 1}
    with dispatching(BACK_ENDS["pool of 1"](sources), longest_start=4.0, **settings) as dispatcher:
        with pytest.raises(RunError, match=f"env: {line}, 2 times while it was made at episode 1 step 0"):
            dispatcher.play(works_of([0, 1]))


@pytest.mark.parametrize("num_planes", [0, 2])
def test_plans_without_numbers_in_some_arrays_arrive(num_planes):
    plan = plan_of_two()
    plan.arrays["beta"] = plan.arrays["beta"][:num_planes]
    arrived = decode(encode(works_of([0], plan)[0])).plan
    assert arrived.arrays["descriptors"].shape == (2, 0) and arrived.arrays["beta"].shape == (num_planes, 5)
