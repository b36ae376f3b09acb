"""Promise: what is told of a training is what its numbers say: its return and how it was played, whether that is better
than random play, whether it was still improving, and whether anything was learned at all."""

import json
import sys

import gymnasium
import numpy as np
import pytest
from command_line import asap

from asap.base.numbers import play_in_words
from asap.compose import compose
from asap.experience.protocol import Evaluation
from asap.model import verdict
from asap.model.model import ASAP
from asap.model.verdict import SeedReturns, Verdict, is_improving, is_no_better, random_play, verdict_of
from asap.runs.events import Curve
from asap.runs.signals import StopRequest

LENGTH = 20
SMALL = ["--set", "run.final_episodes=12"]


class Indifferent(gymnasium.Env):
    """What it pays does not depend on the action."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    noise, pay = 1.0, 0.1

    def _seen(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action):
        self.steps += 1
        return self._seen(), self.pay + self.noise * self.np_random.normal(), False, self.steps == LENGTH, {}


class Same(Indifferent):
    """Every episode has a return of 20/3, of which a learning curve has three digits: 6.667."""

    noise, pay = 0.0, 1 / 3


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    """Trains in a new run directory of that name, and returns what was printed."""
    monkeypatch.setitem(sys.modules, "pays_the_same", sys.modules[__name__])

    def trained(name: str, *options: str) -> str:
        code, out, _ = asap(["train", *options, "--out", str(tmp_path / name)], capsys, monkeypatch)
        assert code == 0
        return out

    return trained


# ---- The rules, by hand ----


@pytest.mark.parametrize(
    ("final", "at_random", "expected"),
    [
        ([5.0, 5.0], [5.0, 5.0], True),  # The interval is 0 to 0.
        ([6.0, 6.0], [5.0, 5.0], False),  # It is 1 to 1.
        ([4.0, 4.0], [5.0, 5.0], True),
        ([1.0, 3.0], [0.0, 2.0], True),  # 1 +- 4.3 * sqrt(2).
        ([11.0, 13.0], [0.0, 2.0], False),  # 11 +- 4.3 * sqrt(2), from 4.9.
        ([6.0 + 1e-7, 6.0 + 1e-7], [6.0, 6.0], True),  # The error of a sum, and no gain.
        ([-6.0 + 1e-7, -6.0 + 1e-7], [-6.0, -6.0], True),
        ([5.0, 6.0], [], None),
        ([5.0], [4.0], None),  # Nobody knows how they spread.
    ],
)
def test_no_better_is_an_interval_of_the_difference_that_reaches_0(final, at_random, expected):
    assert is_no_better(np.asarray(final), np.asarray(at_random)) is expected


def test_improving_is_a_last_fifth_that_beats_the_fifth_before():
    """Of 15 entries the last 3 are held against 3 before; of 14 there are but 2, which do not tell."""
    flat = [0.0] * 9
    assert is_improving(np.asarray([*flat, 0.0, 1.0, 2.0, 10.0, 11.0, 12.0]))
    assert not is_improving(np.asarray([*flat, 0.0, 1.0, 2.0, 1.0, 2.0, 3.0]))
    assert not is_improving(np.asarray([*flat[1:], 0.0, 1.0, 2.0, 10.0, 11.0, 12.0]))


def judged(evaluation: Evaluation | None, at_random: list[float], curve: list[float]) -> Verdict:
    """Of one seed; the first entry of its curve is from before learning."""
    tasks = compose(["two-rooms"], {})[1]
    entries = len(curve) + 1
    returns = np.asarray([0.0, *curve]).reshape(entries, 1, 1)
    ones = np.ones((entries, 1))
    told = Curve(ones, returns, returns, np.ones((entries, 1, 2)), ones, np.ones(entries))
    return verdict_of(tasks, told, evaluation, True, np.asarray(at_random), np.ones(1, bool))


def test_both_returns_are_kept_with_how_they_were_played():
    returns = np.asarray([[[41.0, 42.0, 46.0]]])
    told = judged(Evaluation(*[returns] * 4, None, None), [1.0, 2.0], [1.0, 2, 3, 4, 5, 6, 7, 8, 9, 20])
    assert told.evaluated == SeedReturns((43.0,), 3, True) and told.trained == SeedReturns((14.5,), None, False)
    assert Verdict.read(json.loads(json.dumps(told.as_dict()))) == told
    assert judged(None, [1.0], []).trained is None, "no update, no return of training"


@pytest.mark.parametrize(
    "bad", [{}, 3, {"return": [1.0, 2.0]}, {"return": [None]}, {"return": [1.0], "episodes": -1, "deterministic": True}]
)
def test_a_file_may_hold_anything_in_place_of_returns(bad):
    told = Verdict(1.0, 0.0, 2, False, 0, 1, SeedReturns((1.0,), 5, True)).as_dict()
    assert Verdict.read({**told, "evaluated": bad}).evaluated is None
    assert Verdict.read({key: told[key] for key in verdict._KEYS}).evaluated is None, "of an earlier release"


def test_a_gain_that_few_random_episodes_hide_is_not_denied():
    """-95 beside -432 on average of six episodes that differ by hundreds: the interval of the difference reaches 0."""
    at_random = [-110.0, -1100.0, -120.0, -900.0, -130.0, -232.0]
    returns = np.asarray([[[-95.0, -96.0, -94.0]]])
    told = judged(Evaluation(*[returns] * 4, None, None), at_random, [-95.0] * 5)
    (note,) = told.notes()
    assert (
        note
        == "not shown to be better than random play (-95.0; random play has -432.0 in 6 episodes: it may be chance)"
    )
    worse = judged(Evaluation(*[returns - 400] * 4, None, None), at_random, [-95.0] * 5)
    assert worse.notes() == ["no better than random play (-495.0; random play has -432.0, 6 episodes)"]


def test_three_digits_of_the_curve_are_no_gain():
    """20/3 is 6.667 in the curve and 6.666... in random play."""
    assert judged(None, [20 / 3] * 2, [6.667] * 5).no_better is True


def test_how_a_return_was_played_is_said_in_words():
    assert play_in_words(1, True) == "over 1 episode, most probable actions"
    assert play_in_words(1000, False) == "over 1,000 episodes, actions drawn"
    assert play_in_words(None, False) == "in the last fifth of training, actions drawn"


@pytest.mark.parametrize(("steps", "episodes"), [(300, 2), (10_000, 10), (100_000, 20)])
def test_random_play_is_a_fiftieth_of_the_budget_and_at_least_two_episodes(steps, episodes, monkeypatch):
    """Of 20 steps each, and never more than 20 of them."""
    from asap.experience.choose import choose

    model = ASAP(Indifferent, settings=[f"run.steps={steps}"])
    experience = choose(model.config, model.tasks, "0", None, print)
    found = random_play(experience, model.policies, [0], model.config, StopRequest())
    experience.close()
    assert len(found) == episodes


# ---- Trainings ----


@pytest.mark.parametrize("steps", [300, 20_000])
def test_what_does_not_depend_on_the_action_is_no_better_than_random_play(train, steps):
    assert " better than random play (" in train("run", "pays_the_same:Indifferent", "--steps", str(steps))


def test_a_model_that_learned_in_python_says_the_same():
    assert ASAP(Same, seed=0).learn(300).verdict.no_better is True


def test_a_return_says_how_it_was_played_and_of_which_seed(train, tmp_path, capsys, monkeypatch):
    out = train("run", "pays_the_same:Indifferent", "--steps", "300", "--seeds", "3", *SMALL)
    lines = out.splitlines()
    assert " over 12 episodes, most probable actions (interquartile mean (IQM) of 3 seeds, 95 % interval " in lines[0]
    assert lines[1].split(":")[0].strip() == "seeds 0 to 2" and lines[1].count(", ") == 2
    assert lines[2].startswith("in training  ") and "last fifth of training, actions drawn" in lines[2]
    code, out, _ = asap(["eval", str(tmp_path / "run"), "--episodes", "2", "--stochastic"], capsys, monkeypatch)
    assert code == 0 and " over 2 episodes, actions drawn (interquartile mean (IQM) of 3 seeds" in out
    assert "\n  from training: " in out and "over 12 episodes, most probable actions (IQM of 3 seeds)" in out
    assert out.count("  seed 2, skill ") == 2, "each seed has skills of its own"
    model = ASAP.load(tmp_path / "run", env=Indifferent, seed=1)
    mean = model.verdict.evaluated.returns[1]
    assert f"return={mean:.3f} (over 12 episodes, most probable actions)" in repr(model)
    model.save(tmp_path / "model.asap")
    assert repr(ASAP.load(tmp_path / "model.asap", env=Indifferent)) == repr(model)
    assert model.explain().startswith("seed 1 of 3: ")


def test_a_run_that_is_done_says_so_and_learns_nothing(train, tmp_path, capsys, monkeypatch):
    first = json.loads(train("run", "pays_the_same:Indifferent", "--steps", "300", *SMALL, "--json"))
    resume = ["train", "--resume", str(tmp_path / "run")]
    code, out, _ = asap([*resume, "--json"], capsys, monkeypatch)
    again = json.loads(out)
    assert code == 0 and again["notes"][0] == "already trained for 300 steps; give a larger --steps"
    assert again["parameters_sha256"] == first["parameters_sha256"]
    code, out, _ = asap([*resume, "--steps", "600", "--json"], capsys, monkeypatch)
    more = json.loads(out)
    assert more["env_steps"] == 600 and not any("already" in note for note in more["notes"])


def test_the_best_checkpoint_is_explained_and_drawn_with_the_step_it_is_from(train, tmp_path, capsys, monkeypatch):
    train("run", "pays_the_same:Indifferent", "--steps", "300", *SMALL)
    steps = ASAP.load(tmp_path / "run", env=Indifferent, best=True).num_timesteps
    for command in (["eval", "--episodes", "2"], ["explain"], ["plot"]):
        code, out, err = asap([command[0], str(tmp_path / "run"), *command[1:], "--best"], capsys, monkeypatch)
        assert code == 0 and f"note: the best checkpoint was saved after {steps:,} steps" in err, (command, out, err)
