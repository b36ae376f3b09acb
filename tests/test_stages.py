"""Promise: the stages of a training (learner, finish, pick) keep to their shares of the budget, and a run that is stopped in any of
them resumes to the same bits."""

import json

import numpy as np
import pytest
from test_budget import LENGTH, Long

from asap import ASAP
from asap.base.errors import Interrupted
from asap.compose import compose
from asap.config.schema import Config
from asap.config.toml import parse_settings, to_toml
from asap.experience.hosted import Hosted
from asap.learn import on_the_host
from asap.learn.race import Racing
from asap.learn.stages import Stage, Stages
from asap.model.training import Training, train, train_run
from asap.runs.directory import Run
from asap.runs.events import InMemory
from asap.runs.signals import StopRequest

QUICK = ["run.eval_episodes=2", "run.final_episodes=2", "learn.critic_features=8", "learn.directions=2"]
HOSTED = [*QUICK, "run.candidates=0", "learn.batch_steps=100", "run.finish=0.4", "run.pick=0.1"]
COMPILED = [*QUICK, "learn.lanes=4", "learn.window=16", "run.chunk=2", "run.finish=0.4", "run.pick=0.1"]
RUNS = {
    "hosted": ("CartPole-v1", {"run.steps": 700, "run.seeds": 2}, HOSTED),
    "compiled": ("two-rooms", {"run.episodes": 24, "run.seeds": 2}, COMPILED),
    "race": (
        "CartPole-v1",
        {"run.steps": 2000, "run.seeds": 2, "run.race": ("learner", "ars", "ars"), "policy.skills": "linear"},
        [*HOSTED, "run.finish=0.2", "run.heat=0.08", "env.max_steps=60"],
    ),
    "ars": ("CartPole-v1", {"run.steps": 400, "learn.learner": "ars"}, [*HOSTED, "run.finish=0.0"]),
}


def composed(kind: str, **more):
    env, options, settings = RUNS[kind]
    return compose([env], {**options, **more}, overrides=parse_settings(Config, settings))


def stages_of(config: Config, tasks) -> Stages:
    return Stages.of(config, Racing(config, tasks, InMemory()))


def stages_in(run: Run) -> list[str]:
    """Of the first seed before it was over, each once."""
    told = [event["stage"][0] for event in run.events() if event["kind"] == "update" and "stage" in event]
    return [stage for stage in dict.fromkeys(told) if stage != "over"]


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_that_is_stopped_in_every_stage_gives_the_same_bits(kind, tmp_path):
    config, tasks = composed(kind)
    whole = Run.create(tmp_path / "whole", to_toml(config))
    expected = train_run(whole, config, tasks, StopRequest(), evaluates=False)[1]
    pieces, told, finished = Run.create(tmp_path / "pieces", to_toml(config)), [], False

    def stop_where_a_stage_begins(report) -> bool:
        told.append(report.event["stage"])
        return told[-1] in told[:-1]

    while not finished:
        callbacks = [stop_where_a_stage_begins]
        result = train_run(pieces, config, tasks, StopRequest(), callbacks, evaluates=False)[1]
        finished = result.finished
    assert result.parameters_sha256 == expected.parameters_sha256
    # A chunk of two updates makes the last of the finish and the pick at once.
    stages = {
        "hosted": ["main", "finish", "pick"],
        "compiled": ["main", "finish"],
        "race": [
            "race: learner, 1 of 3",
            "race: ars, 2 of 3",
            "race: ars, 3 of 3",
            "race: learner against ars",
            "finish",
            "pick",
        ],
        "ars": ["main", "pick"],
    }[kind]
    assert stages_in(pieces) == stages_in(whole) == stages
    assert len(result.picks) == config.run.seeds and result.picks == expected.picks
    assert len(result.races) == (2 if kind == "race" else 0) and result.races == expected.races
    np.testing.assert_array_equal(result.curve.returns, expected.curve.returns)


@pytest.mark.parametrize("stage", ["search_update", "pick"])
def test_a_signal_within_a_stage_loses_what_was_not_saved_and_nothing_else(stage, tmp_path, monkeypatch):
    """The chunk is played again, from the same ids."""
    config, tasks = composed("hosted", **{"run.seeds": 1})
    whole = Run.create(tmp_path / "whole", to_toml(config))
    expected = train_run(whole, config, tasks, StopRequest(), evaluates=False)[1]
    run, real, calls = Run.create(tmp_path / "run", to_toml(config)), getattr(on_the_host, stage), []

    def interrupted_once(*given):
        found = real(*given)
        calls.append(stage)
        if len(calls) == 1:
            raise Interrupted
        return found

    monkeypatch.setattr(on_the_host, stage, interrupted_once)
    first = train_run(run, config, tasks, StopRequest(), evaluates=False)[1]
    assert calls == [stage] and not first.finished
    again = train_run(run, config, tasks, StopRequest(), evaluates=False)[1]
    assert again.finished and again.parameters_sha256 == expected.parameters_sha256


# Each budget, and each with a search or without; the other half of the table shows nothing more.
PAID = [(500, 0), (1000, 256), (3000, 256)]
PAID += [pytest.param(*case, marks=pytest.mark.slow) for case in [(500, 256), (1000, 0), (3000, 0)]]


@pytest.mark.parametrize(("steps", "candidates"), PAID)
def test_all_that_is_played_is_paid(steps, candidates, monkeypatch):
    """Episodes of 100 steps: at most one begins late for each of the three policies of the pick. The finish and the pick get theirs."""
    played, real = [], Hosted.play

    def counted(self, planned, *given):
        played.extend(one.stream for _, one in planned)
        return real(self, planned, *given)

    monkeypatch.setattr(Hosted, "play", counted)
    settings = [*QUICK, "learn.batch_steps=100", "run.finish=0.4", "run.pick=0.1", f"run.candidates={candidates}"]
    model = ASAP(Long, settings=[*settings, f"env.max_steps={LENGTH}", f"run.steps={steps}"])
    training = Training(model.config, model.tasks, InMemory(), (), "0", None, print)
    states, result = train(training, None, StopRequest(), evaluates=False)
    spent = int(states.env_steps[0])
    streams = np.bincount(played, minlength=8)
    training, search, pairs, picks = streams[[0, 1, 6, 7]].tolist()
    assert LENGTH * (training + search + pairs + picks) == spent and states.totals.episodes.sum() == spent // LENGTH
    assert steps <= spent < steps + 3 * LENGTH
    assert abs(LENGTH * pairs - 0.4 * steps) <= 4 * LENGTH
    assert picks % 3 == 0 and bool(picks) == (steps > 500)  # A finish of two pairs has taken all of a small budget.
    assert search == 0 or candidates


def test_the_stage_is_a_function_of_what_is_spent():
    config, tasks = composed("hosted", **{"run.steps": 1000})
    ends = [(int(end.episodes), int(end.steps)) for end in stages_of(config, tasks).ends]
    none = np.iinfo(np.int64).max
    assert ends == [(none, 500), (none, 900), (none, 1000)]

    def stage(given: Config, steps: int, movement: float = np.inf, spoiled: bool = False) -> Stage:
        progress = np.zeros((1, 1), int), np.array([steps]), np.array([movement]), np.array([spoiled])
        return Stage(stages_of(given, tasks).at(progress)[0])

    assert [stage(config, s) for s in (0, 499, 500, 899, 900, 999, 1000)] == [0, 0, 1, 1, 2, 2, 3]
    assert stage(config, 600, np.inf, True) == Stage.OVER
    larger, _ = composed("hosted", **{"run.steps": 3000})
    assert stage(larger, 1000) == Stage.MAIN
    compiled, _ = composed("compiled", **{"run.steps": 1000, "learn.convergence_tolerance": 0.1})
    assert stage(compiled, 100, 0.01) == Stage.FINISH  # Converged.


def test_a_larger_budget_goes_back_to_the_learner(tmp_path):
    model = ASAP("CartPole-v1", settings=HOSTED).learn(500, run=tmp_path / "run")
    model.learn(1000, run=tmp_path / "run")
    told = [event["stage"][0] for event in Run.open(tmp_path / "run").events() if "stage" in event]
    changes = [now for before, now in zip(["", *told], told) if now != before]
    assert changes == ["main", "finish", "pick", "main", "finish", "pick"]
    assert model.num_timesteps >= 1500 and model.result.finished


def test_a_run_without_a_finish_can_go_on_with_one(tmp_path):
    """And with one, without."""
    plain = [setting for setting in HOSTED if "finish" not in setting and "pick" not in setting]
    for first, then in ((plain, HOSTED), (HOSTED, plain)):
        model = ASAP("CartPole-v1", settings=first).learn(300)
        other = ASAP("CartPole-v1", settings=then)
        other._hold(model.policies, model._state, model.num_episodes, model.num_timesteps)
        assert other.learn(500).num_timesteps >= 800


def test_the_pick_is_told(tmp_path):
    model = ASAP("CartPole-v1", settings=HOSTED).learn(1500, run=tmp_path / "run")
    (pick,) = model.result.picks
    assert set(pick["returns"]) == {"the last one", "the mean", "the one before the finish"}
    assert pick["returns"][pick["chosen"]] == max(pick["returns"].values())
    assert "was picked: over" in model.result.notes()[0]
    assert json.dumps(model.result.summary("run")["pick"])
