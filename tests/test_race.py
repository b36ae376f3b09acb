"""Promise: runners race for the first shares of the budget, each with its own state; the one that returned most goes on."""

import numpy as np
import pytest

from asap import ASAP
from asap.learn.race import Racing, scores, stuck
from asap.learn.updates import as_one_skill
from asap.model.training import Training, train
from asap.policy.score import Parameters
from asap.runs.directory import Run
from asap.runs.events import InMemory
from asap.runs.signals import StopRequest

QUICK = [
    "run.eval_episodes=2",
    "run.final_episodes=2",
    "run.candidates=0",
    "learn.batch_steps=200",
    "learn.critic_features=8",
]


def racing(*names: str, pick: float = 0.02) -> Racing:
    settings = {"run.race": names, "run.heat": 0.02, "run.pick": pick, "run.finish": 0.2}
    model = ASAP("CartPole-v1", skills="linear", settings=settings)
    return Racing(model.config, model.tasks, InMemory())


def test_scores_by_hand():
    """Three episodes of 10 in all in the first half and two of 8 in the last; none in the last; none at all."""
    sums, counts = np.array([[10.0, 8], [6, 0], [0, 0]]), np.array([[3.0, 2], [4, 0], [0, 0]])
    np.testing.assert_array_equal(scores(sums, counts), [4, 1.5, -np.inf])


NOT_RUN = -np.inf


def test_whose_turn_it_is():
    """Each in turn, then the best search and the best learner, then both at once."""
    race = racing("learner", "learner", "ars", "ars")
    returns, none = np.array([1.0, 2, 4, 3, 9, 8, NOT_RUN]), np.zeros((7, 2))
    assert race.num_heats == 7 and [race._runner(heat, returns, none) for heat in range(7)] == [0, 1, 2, 3, 2, 1, 1]
    assert [race._following(heat, returns, False) for heat in range(7)] == [1, 2, 3, 4, 5, 6, 7]
    decided = np.array([*returns[:6], 0])  # The search returned 5, the learner 6, on the same episodes.
    assert race._runner(7, decided, np.array([[0, 0]] * 6 + [[5.0, 6]])) == 1
    assert race._runner(7, decided, np.array([[0, 0]] * 6 + [[6.0, 5]])) == 2
    assert race._runner(7, decided, np.array([[0, 0]] * 6 + [[5.0, 5]])) == 1, "of equal ones, the learner"


def test_a_search_that_is_behind_does_not_run_again():
    race = racing("learner", "ars")
    behind = np.array([5.0, 4, NOT_RUN, 8, NOT_RUN])
    assert [race._following(heat, behind, True) for heat in (0, 1, 3)] == [1, 3, 5]
    assert [race._runner(heat, behind, np.zeros((5, 2))) for heat in (3, 5)] == [0, 0]
    ahead = np.array([4.0, 5, 7, 6, NOT_RUN])
    assert [race._following(heat, ahead, False) for heat in (0, 1, 2, 3)] == [1, 2, 3, 4]


def test_a_search_that_is_ahead_of_a_learner_that_is_stuck_goes_on_alone():
    race = racing("single", "ars")
    found = np.array([-200.0, -150, NOT_RUN, NOT_RUN, NOT_RUN])
    assert race._following(1, found, True) == 5 and race._runner(5, found, np.zeros((5, 2))) == 1
    np.testing.assert_array_equal(
        stuck(np.array([[-400.0, -600], [-4, -5], [-4, 0]]), np.array([[2.0, 3], [2, 3], [2, 0]])), [True, False, False]
    )


def test_a_single_skill_stays_one():
    """A gradient by hand: two skills of two actions, one plane."""
    gradient = Parameters(np.float32([[[1], [2]], [[3], [5]]]), np.float32([[7, 8]]))
    shared = as_one_skill(gradient)
    np.testing.assert_array_equal(shared.theta, [[[4], [7]], [[4], [7]]])
    assert not np.asarray(shared.beta).any()


def test_without_a_pick_the_last_returns_decide():
    race = racing("learner", "ars", pick=0.0)
    found = np.array([4.0, 5, 7, 6, NOT_RUN])
    assert race._following(3, found, False) == 5 and race._runner(5, found, np.zeros((5, 2))) == 1


def test_runners_of_one_kind():
    alike = racing("learner", "learner", "learner")
    returns = np.array([1.0, 3, 2])
    assert alike.num_heats == 3 and [alike._runner(heat, returns, np.zeros((3, 2))) for heat in (0, 1, 2, 3)] == [
        0,
        1,
        2,
        1,
    ]


def test_each_runner_starts_and_learns_for_itself(tmp_path):
    settings = [
        *QUICK,
        'run.race=["learner", "learner", "ars", "ars"]',
        "run.heat=0.05",
        "run.finish=0.2",
        "run.pick=0.05",
    ]
    model = ASAP("CartPole-v1", hyperplanes=2, skills="linear", settings=settings)
    model.learn(6000, run=tmp_path / "run")
    events = list(Run.open(tmp_path / "run").events())
    (race,) = [event for event in events if event["kind"] == "race"]
    assert model.result.races == [{name: value for name, value in race.items() if name != "kind"}]
    assert f"the race was won by {race['runners'][race['winner']]}, {race['winner'] + 1} of" in model.result.notes()[0]
    kinds = [race["returns"][:2], race["returns"][2:]]
    best = [int(np.argmax(kinds[0])), 2 + int(np.argmax(kinds[1]))]
    assert race["decided"].keys() == {"ars", "learner"}, "this seed's search was ahead, so both have played"
    assert race["winner"] == best[int(race["decided"]["ars"] > race["decided"]["learner"])]
    # Each heat took its share of 6,000 steps, and at most a batch more.
    ends = {}
    for event in events:
        if event["kind"] == "update" and "stage" in event:
            ends.setdefault(event["stage"][0], event["env_steps"][0])
    assert list(ends)[:3] == [f"race: {name}, {n} of 4" for name, n in (("learner", 1), ("learner", 2), ("ars", 3))]
    assert all(
        300 * n <= ends[f"race: {name}, {n + 1} of 4"] < 300 * n + 1200 for n, name in ((1, "learner"), (2, "ars"))
    )
    state = model._state
    theta, beta = (state[f"race.runners.policy.{name}"][0] for name in ("skills.theta", "partition.beta"))
    assert len(theta) == 4 and (beta[2] != beta[3]).any() and (theta[0] != theta[1]).any()
    slopes = theta[3 if race["winner"] == 2 else 2]  # An ars that has lost: its skills are still one.
    assert (slopes == slopes[0]).all() and slopes.any()


@pytest.mark.parametrize("env", ["two-rooms", "CartPole-v1"])
def test_the_winner_goes_on_and_nothing_else_is_played(env):
    """On tasks of every kind."""
    settings = [
        *QUICK,
        'run.race=["learner", "ars"]',
        "run.heat=0.1",
        "learn.lanes=4",
        "learn.window=16",
        "run.chunk=1",
    ]
    model = ASAP(env, settings=[*settings, "run.steps=3000"])
    training = Training(model.config, model.tasks, InMemory(), (), "0", None, print)
    states, result = train(training, None, StopRequest(), evaluates=False)
    (race,), index = result.races, result.races[0]["winner"]
    assert len(race["again"]) in (1, 2) and "decided" not in race, "there is no pick"
    assert int(states.race.runner[0]) == index and int(states.race.heat[0]) == 5
    assert int(states.env_steps[0]) >= 3000 and result.finished


RULES = """
if pole angle + 0.2*pole angular velocity > 0.01 within 0.1 [keep] then push right (80 %) [keep]
otherwise push left (90 %)
"""


def test_a_search_begins_at_zero_but_for_what_is_kept(tmp_path):
    """Learners of given rules all begin with them."""
    (tmp_path / "rules.txt").write_text(RULES)
    model = ASAP("CartPole-v1", rules=tmp_path / "rules.txt", settings={"run.race": ("learner", "learner", "ars")})
    race = Racing(model.config, model.tasks, InMemory())
    (kept,) = model.policy.kept.skills
    first, second, search = (policy.skills.theta for policy in race._policies(0, model.policy))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(search[kept], first[kept])
    assert first[kept].any() and first[1 - kept].any() and not search[1 - kept].any()
