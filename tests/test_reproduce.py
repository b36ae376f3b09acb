"""`asap reproduce`: every result has its experiment, rows have their fields, pictures are drawn, pages are written."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from asap.base.arrays import stack
from asap.base.episodes import EVALUATION
from asap.base.errors import UserError
from asap.base.stats import bootstrap_interval
from asap.cli import reproducing
from asap.compose import compose
from asap.config.schema import GRADIENTS, LEARNERS, Config, PolicyConfig
from asap.config.settings import NO_VALUES, Values, override
from asap.envs import catalog
from asap.experience.protocol import EpisodeIds, Evaluation
from asap.model.source import TRANSFER_LANES
from asap.paper import experiments, gradients, laboratory, transfer
from asap.paper.claims import Claim, Finding, Picture, median_interval
from asap.paper.laboratory import Laboratory
from asap.paper.partitions import skills_in_use
from asap.paper.prune_and_grow import usage_of
from asap.paper.reuse import components
from asap.policy.build import build_policy
from asap.policy.policy import ASAPPolicy
from asap.runs.events import Curve

TINY = {
    "learn.window": 16,
    "learn.lanes": 4,
    "run.chunk": 1,
    "run.eval_episodes": 4,
    "run.final_episodes": 4,
    "run.episodes": 6,
}


def test_every_result_has_its_function():
    everything = experiments.find("all")
    for experiment in everything:
        assert callable(experiment.load()), experiment.name
    assert len({experiment.name for experiment in everything}) == len(everything) == 22


def test_one_result_from_the_shell(tmp_path):
    out = tmp_path / "out ü"
    command = [
        sys.executable,
        "-m",
        "asap",
        "reproduce",
        "fig1f",
        "--seeds",
        "2",
        "--seed",
        "3",
        "--out",
        str(out),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    (row,) = report["rows"]
    assert {"claim", "paper", "ours", "ci", "seeds", "pass"} <= set(row)
    assert row["seeds"] == 2 and row["pass"] is True and row["ci"][0] > 31
    assert len(report["pictures"]) == 2
    for path in report["pictures"]:
        assert np.std(imread(path)) > 0.05
    assert (out / "runs" / "two-rooms" / "config.toml").exists()


def test_an_unknown_name_is_refused_with_the_choice():
    with pytest.raises(UserError, match="fig2a") as error:
        experiments.find("fig9z")
    assert error.value.exit_code == 2


def test_runs_are_shared_resumed_and_never_mixed(tmp_path):
    laboratory = Laboratory(tmp_path, seeds=2)
    record = laboratory.train("tiny", ["two-rooms"], TINY)
    assert laboratory.train("tiny", ["two-rooms"], TINY) is record
    again = Laboratory(tmp_path, seeds=2).train("tiny", ["two-rooms"], TINY)
    assert again.result.parameters_sha256 == record.result.parameters_sha256
    assert again.seconds() == record.seconds() > 0
    with pytest.raises(UserError, match="other settings or seeds"):
        Laboratory(tmp_path, seeds=3).train("tiny", ["two-rooms"], TINY)


def test_a_group_writes_its_pages_with_what_failed(tmp_path, monkeypatch, capsys):
    def run(laboratory):
        figure = Figure(figsize=(2, 1))
        figure.subplots().plot([0, 1])
        claim = Claim("a < b | c", "yes", "no: 3", (2.0, 4.0), False, "because")
        return Finding([claim], {"line": Picture(figure, "a line")})

    experiment = experiments.Experiment("one", "nowhere", "run", "A title")
    monkeypatch.setattr(experiments.Experiment, "load", lambda self: run)
    monkeypatch.setitem(experiments.GROUPS, "rooms", (experiment,))
    reproducing.reproduce("rooms", 5, 0, str(tmp_path), json_=False)
    printed = capsys.readouterr().out
    assert "NO   a < b | c" in printed and "95 % interval 2 to 4 (5 seeds)" in printed
    page = (tmp_path / "rooms.md").read_text()
    assert "b \\| c" in page and "Because" in page and "pictures/line.png" in page
    html = (tmp_path / "rooms.html").read_text()
    assert "a &lt; b | c" in html and "data:image/png;base64," in html


def test_connected_components():
    cells = np.array([[1, 1, 0, 1], [0, 1, 0, 0], [0, 0, 1, 1]], bool)
    parts = components(cells)
    assert sorted(part.sum() for part in parts) == [1, 2, 3]
    assert (sum(part.astype(int) for part in parts) == cells).all()


def test_skills_in_use():
    usage = np.array([[0.5, 0.46, 0.04, 0.0], [0.97, 0.01, 0.01, 0.01], [0.3, 0.3, 0.2, 0.2]])
    assert skills_in_use(usage).tolist() == [2, 1, 4]


def pair() -> ASAPPolicy:
    """One plane, two skills."""
    return build_policy(PolicyConfig(), (catalog.find("two-rooms"),), np.random.default_rng(0))


def test_skills_are_used_as_what_they_were_grown_into():
    """Two skills that were played as four: 0 as 0 and 2, 1 as 1 and 3."""
    nothing = np.zeros((1, 1, 1))
    played = Evaluation(*[nothing] * 4, np.array([[[10, 20, 30, 40]]]), np.ones((1, 1, 4), int))
    np.testing.assert_allclose(usage_of([pair()], played)[0], [0.4, 0.6])


def test_policies_are_played_from_the_episode_that_is_asked_for(monkeypatch):
    asked = []

    class Asked:
        def evaluate(self, *arguments):
            asked.append(arguments[1:])

    monkeypatch.setattr(laboratory, "_playing", lambda name: Asked())
    laboratory.play(stack([pair()] * 2), catalog.find("two-rooms"), 800, seed=7, first=400)
    assert asked == [(EpisodeIds(range(7, 9), EVALUATION, 400), 800, False)]


def test_a_failure_has_no_interval():
    assert median_interval([3, None, 5]) is None
    low, high = median_interval([3, 4, 5, 6])
    assert 3 <= low <= high <= 6


def test_the_interval_of_a_median_is_that_of_the_median():
    """The interquartile mean of these would reach far less high."""
    values = [0, 0, 0, 1, 100]
    assert median_interval(values) == bootstrap_interval(np.asarray(values, float), statistic=np.median)
    assert median_interval(values) != bootstrap_interval(np.asarray(values, float))


@pytest.mark.parametrize(
    ("warm", "scratch", "said", "share", "passes"),
    [
        (20, 200, "20 instead of 200", "1/10.0", True),
        (40, 200, "40 instead of 200", "1/5.0", False),
        (40, None, "40 instead of more than 300", "less than 1/7.5", True),  # 300 / 7 is 42.9.
        (50, None, "50 instead of more than 300", "less than 1/6.0", False),
        (None, None, "more than 300 instead of more than 300", "no share", False),
        (None, 200, "more than 300 instead of 200", "no share", False),
    ],
)
def test_a_share_of_what_was_not_reached_is_that_of_the_budget(warm, scratch, said, share, passes):
    assert f"{transfer._median(warm)} instead of {transfer._median(scratch)}" == said
    assert transfer._share(warm, scratch) == share
    assert (transfer._largest_share(warm, scratch) <= 1 / 7) is passes


class Asked:
    """Stands in for the laboratory: gives the settings of what it is asked to train."""

    def train(self, label: str, tasks: list[str], settings: Values = NO_VALUES) -> Config:
        return compose(tasks, {}, overrides=settings)[0]

    def transfer(self, label: str, source: Config, tasks: list[str], settings: Values = NO_VALUES) -> Config:
        return override(source, {"learn.lanes": TRANSFER_LANES, **settings})


def test_arms_that_are_compared_look_equally_often():
    """A look every 512 steps, and the same budget, whatever the number of lanes."""
    arms = transfer.arms(Asked()).values()
    assert len(arms) == 4 and {config.run.episodes for config in arms} == {transfer.BUDGET}
    assert {config.run.chunk * config.learn.lanes * config.learn.window for config in arms} == {512}
    assert {config.run.eval_episodes for config in arms} == {32}


def test_estimators_have_the_budget_of_the_caption():
    pairs = itertools.product((*LEARNERS, gradients.AS_PRINTED), GRADIENTS)
    budgets = [gradients.trained(Asked(), *pair).run.episodes for pair in pairs]
    assert budgets == [35000] * 2 + [3000] * 6 + [35000] * 2


def test_the_estimator_as_printed_is_trained_with_either_gradient():
    own = [gradients.trained(Asked(), gradients.AS_PRINTED, gradient).learn for gradient in GRADIENTS]
    assert [learn.gradient for learn in own] == list(GRADIENTS)
    assert {(learn.learner, learn.baseline) for learn in own} == {("reinforce", "none")}


def test_a_seed_that_has_stopped_gets_no_more_chances():
    """It is looked at while others go on: the same policy, by luck near-optimal in one of many looks."""
    returns = np.array([[-9.0, -9.0], [3.0, 2.0], [3.0, 6.0], [6.0, 6.0]])[..., None]
    active = np.array([[1, 1], [1, 1], [0, 1], [0, 1]])
    episodes = np.array([[0, 0], [10, 12], [10, 20], [10, 30]])
    curve = Curve(episodes, returns, returns, returns, active, np.zeros(4))
    assert curve.first_near_optimal(np.array([5.0])) == [None, 20]
    assert curve.first_near_optimal(np.array([3.0])) == [10, 20]
