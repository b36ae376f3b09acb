"""Pruning takes out what a policy does not need, says what that costs on episodes that decided nothing, and leaves what is kept."""

import json

import numpy as np
import pytest
from command_line import asap
from own_envs import LENGTH, Follows, Sides

from asap import ASAP, UserError
from asap.experience.protocol import Evaluation
from asap.model.pruning import MOST_JUDGED, prune
from asap.policy.surgery import merged_by_fit

NAMES = ["x", "y"], ["stay", "go", "wait"]
FOUR = """
if x > 0 and y > 0 then go
if x > 0 then stay
if y > 0 then wait
otherwise go (50 %), stay (40 %)
"""


# ---- Which steps are taken, by returns that are made up --------------------------------------------------------------


def played_by(worth, record):
    """In place of playing: each policy returns in all episodes what `worth(planes, skills, seed)` says, random play nothing.

    Planes are those with slopes, skills those that differ.
    """

    def play(self, policies, episodes, seeds, deterministic=None, on_progress=None) -> Evaluation:
        record.append(list(seeds))
        betas, thetas = np.asarray(policies.partition.beta), np.asarray(policies.skills.theta)
        means = []
        for beta, theta, seed in zip(betas, thetas, seeds):
            skills = len(np.unique(theta.round(5), axis=0))
            means.append(worth(int(beta.any(-1).sum()), skills, seed) if theta.any() else 0.0)
        returns = np.tile(np.float64(means)[:, None, None], (1, self.tasks.size, episodes))
        return Evaluation(returns, returns, returns, returns, *np.zeros((2, len(seeds), self.tasks.size, 1), int))

    return play


def pruned_by(monkeypatch, worth, loss=0.05, rules=FOUR):
    model, record = ASAP.from_rules(rules, *NAMES), []
    monkeypatch.setattr(ASAP, "play", played_by(worth, record))
    return prune(model, loss, 5, 100), record


def test_a_step_that_was_only_lucky_among_many_is_not_taken(monkeypatch):
    """Every smaller policy loses 1 of 10, and 0.5 is allowed. In the episodes that choose, all are lucky and lose nothing."""
    found, _ = pruned_by(
        monkeypatch, lambda planes, skills, seed: 10.0 if (planes, skills) == (2, 4) or seed == 101 else 9.0
    )
    assert (found.before, found.random, found.allowed) == (10.0, 0.0, 0.5)
    assert found.steps == [] and found.cost is None and "nothing can go" in found.in_words()
    assert found.model.policy.partition.num_planes == 2 and found.model.policy.num_skills == 4


def test_where_the_best_fails_the_next_best_is_judged(monkeypatch):
    """Without a plane 5 is lost, with skills merged nothing; in the episodes that choose, a plane seems to cost nothing."""
    found, record = pruned_by(monkeypatch, lambda planes, skills, seed: 10.0 if planes == 2 or seed == 101 else 5.0)
    assert found.steps[0]["step"].startswith("skills ") and found.steps[0]["lost"] == 0.0
    alone = [seeds[0] for seeds in record if len(seeds) == 1]
    assert [alone.count(seed) for seed in (102, 103, 104)] == [
        2,
        2,
        2,
    ]  # Beside the whole policy, each in its own episodes.


def test_so_many_are_judged_and_no_more(monkeypatch):
    _, record = pruned_by(
        monkeypatch, lambda planes, skills, seed: 10.0 if (planes, skills) == (2, 4) or seed == 101 else 1.0
    )
    judged = {seeds[0] for seeds in record if len(seeds) == 1} - {100, 101}
    assert judged == {102, 103, 104} and len(judged) == MOST_JUDGED


def test_the_cost_is_of_episodes_that_decided_nothing(monkeypatch):
    """Planes and skills cost nothing until the last look, in which everything smaller loses 2 of 10: that is what is said."""
    last = 100 + 2 * 2 + 1  # Two planes go, each chosen and judged.
    found, record = pruned_by(monkeypatch, lambda planes, skills, seed: 8.0 if planes < 2 and seed == last else 10.0)
    assert [step["step"] for step in found.steps] == ["without plane 1", "without plane 2"]
    assert found.cost == {
        "return": 8.0,
        "ci": (8.0, 8.0),
        "lost": 2.0,
        "lost_ci": (2.0, 2.0),
        "share": 0.2,
    }
    assert "in all: loss 2 (2 to 2), 20 % of the way from random play, over 5 other episodes" in found.in_words()
    assert record[-1] == [last] and found.played == 5 * sum(map(len, record))


@pytest.mark.parametrize(("loss", "planes"), [(0.0, 2), (0.09, 2), (0.1, 1), (0.99, 1), (1.0, 0)])
def test_a_loss_is_a_share_of_the_way_from_random_play(monkeypatch, loss, planes):
    """10 with both planes, 9 with one, 0 with none, as random play."""
    found, _ = pruned_by(
        monkeypatch, lambda planes, skills, seed: (0.0, 9.0, 10.0)[planes] - (planes == 2) * (4 - skills), loss
    )
    assert found.model.policy.partition.num_planes == planes


def test_planes_have_the_numbers_of_the_whole_policy(monkeypatch):
    text = "if x > 0 and y > 0 then go\nif x > 0 and x + y > 1 then stay\nif x + y > 1 then wait\notherwise go"
    found, _ = pruned_by(monkeypatch, lambda planes, skills, seed: 10.0, rules=text)
    assert [step["step"] for step in found.steps] == [f"without plane {k}" for k in (1, 2, 3)]
    assert found.as_dict()["planes"] == 0 and found.as_dict()["skills"] == 1


def test_tasks_count_by_their_weights(monkeypatch):
    rules = "if x > 0.5 m then down\notherwise right"
    model = ASAP(["two-rooms:3", "flipped-two-rooms"], rules=rules)

    def play(self, policies, episodes, seeds, deterministic=None, on_progress=None) -> Evaluation:
        means = np.float64([[8.0, 4.0] if beta.any() else [4.0, 8.0] for beta in np.asarray(policies.partition.beta)])
        means = means if np.asarray(policies.skills.theta).any() else 0 * means
        returns = np.tile(means[..., None], (1, 1, episodes))
        return Evaluation(returns, returns, returns, returns, *np.zeros((2, len(seeds), 2, 1), int))

    monkeypatch.setattr(ASAP, "play", play)
    found = prune(model, 0.3, 2, 0)
    assert found.before == 7.0 and found.steps[0]["step"] == "without plane 1"
    assert (found.steps[0]["return"], found.steps[0]["lost"]) == (5.0, 2.0)


@pytest.mark.parametrize("loss", [-0.01, 1.01, float("nan"), float("inf")])
def test_a_loss_that_is_no_share_is_refused(loss):
    with pytest.raises(UserError, match="a share from 0 to 1"):
        ASAP.from_rules(FOUR, *NAMES).prune(loss)


# ---- What is taken out, by playing -----------------------------------------------------------------------------------


def sides(text: str, env=Sides) -> ASAP:
    return ASAP(env, rules=text, settings=["run.final_episodes=4"])


def shape(found) -> tuple[int, int]:
    return found.model.policy.partition.num_planes, found.model.policy.num_skills


@pytest.mark.parametrize(
    "text",
    [
        "if x > 0 and y > 0.2 then go\nif x > 0 then go\notherwise stay",  # Regions share a skill.
        "a: go\nb: go\nif x > 0 and y > 0.2 then a\nif x > 0 then b\notherwise stay",
        "if x > 0 and y > 0.2 then go (90 %)\nif x > 0 then go (80 %)\notherwise stay",
        "if x > 0.000001 then go\nif x > 0 then go\notherwise stay",  # Two planes in the same place.
        "if y > 0.2 then go if x > 0, else stay\notherwise go if x > 0.00001, else stay",
    ],
)
def test_what_makes_no_difference_goes_and_costs_nothing(text):
    found = prune(sides(text), 0.0, 20, 1)
    assert found.before == LENGTH and shape(found) in ((1, 2), (0, 1))
    assert found.cost["lost"] == 0.0 and found.cost["return"] == LENGTH
    states = np.float32([[-0.5, 0], [-0.5, 0.9], [0.5, 0], [2.5, 0.9]])
    np.testing.assert_array_equal(found.model.predict(states, deterministic=True)[0], [0, 0, 1, 1])


def test_what_is_needed_stays_until_everything_may_be_lost():
    """Always going is right 3 times in 4, random play 2 times."""
    text = "if x > 0 then go\notherwise stay"
    assert shape(prune(sides(text), 0.2, 20, 1)) == (1, 2)
    found = prune(sides(text), 1.0, 20, 1)
    assert shape(found) == (0, 1) and found.cost["share"] == pytest.approx(0.5, abs=0.1)
    chances = np.exp(found.model.policy.skills.log_probs(np.ones(1)))[0]
    assert 0.66 < chances[1] < 0.84  # What was done in the states that were played.


@pytest.mark.parametrize("loss", [0.0, 1.0])
def test_what_is_kept_is_not_touched(loss):
    text = "if x > 0 and y > 0.2 [keep] then go (90 %) [keep]\nif x > 0 then go\notherwise stay"
    model = sides(text)
    found = prune(model, loss, 10, 1)
    before, after = model.policy, found.model.policy
    (plane,), (skill,) = before.kept.planes, before.kept.skills
    (new_plane,), (new_skill,) = after.kept.planes, after.kept.skills
    np.testing.assert_array_equal(after.partition.beta[new_plane], before.partition.beta[plane])
    np.testing.assert_allclose(
        np.exp(after.skills.log_probs(np.ones(1))[new_skill]),
        np.exp(before.skills.log_probs(np.ones(1))[skill]),
        atol=1e-6,
    )
    assert "[keep] then" in found.model.rules() and "go (90 %) [keep]" in found.model.rules()


def test_forces_that_are_the_same_become_one():
    text = "if y > 0.2 then force = 0.5*x (+- 0.2)\nif y > -0.2 then force = 0.5001*x (+- 0.2)\notherwise force = 0.4999*x (+- 0.2)"
    found = prune(sides(text, Follows), 0.01, 10, 1)
    assert shape(found) == (0, 1) and abs(found.cost["lost"]) < 0.01
    assert "force = 0.5*x" in found.model.rules(digits=2)


# ---- The fit ---------------------------------------------------------------------------------------------------------


BOX = {"action_low": [-1.0], "action_high": [1.0]}


def merged(rules: str, states, names=("push",), **bounds):
    """The two skills of rules for x > 0 as one, fitted to these states."""
    policy = ASAP.from_rules(f"if x > 0 then {rules}", ["x"], list(names), **bounds).policy
    regions = (np.float32(states) > 0).astype(int)
    one = merged_by_fit(
        policy,
        0,
        [(0, 1)],
        [0],
        np.float32(states)[:, None],
        np.zeros((len(states), 0), np.float32),
        regions,
    )
    assert one.partition.num_planes == 0 and one.num_skills == 1
    return one


def test_probabilities_are_averaged_over_the_states_played():
    """90 % in one state of four, 50 % in the others: 60 %."""
    one = merged("go (90 %)\notherwise go (50 %), stay (50 %)", [1, -1, -2, -3], ["stay", "go"])
    np.testing.assert_allclose(np.exp(one.skills.log_probs(np.ones(1)))[0], [0.4, 0.6], atol=1e-5)


def test_constant_forces_meet_in_the_middle_and_their_distance_is_spread():
    """0.2 and 0.6 are 0.4, each 0.2 away: 0.2^2 + (0.1^2 + 0.3^2) / 2 = 0.3^2."""
    one = merged("push = 0.2 (+- 0.1)\notherwise push = 0.6 (+- 0.3)", [1, -1], **BOX)
    np.testing.assert_allclose(one.skills.means(np.ones(1)), [[0.4]], atol=1e-5)
    np.testing.assert_allclose(np.exp(one.skills.log_std), [[0.3]], atol=1e-5)


def test_forces_on_two_lines_are_those_of_a_line_by_least_squares():
    """Through (-1, 2), (0, 4), (1, 6.4): 2.2 x + 62/15, a mean square of 0.02/2.25 away."""
    one = merged("push = 2.4*x + 4 (+- 0.1)\notherwise push = 2*x + 4 (+- 0.1)", [-1, 0, 1], **BOX)
    means = one.skills.means(one.phi(np.float32([[0.0, 1.0]]), np.zeros((0, 2), np.float32)))[0, 0]
    np.testing.assert_allclose(means, [62 / 15, 62 / 15 + 2.2], atol=1e-4)
    np.testing.assert_allclose(np.exp(one.skills.log_std), [[np.sqrt(0.01 + 0.02 / 2.25)]], atol=1e-4)


def test_skills_that_were_never_used_meet_in_the_middle():
    one = merged("push = 0.2 (+- 0.1)\notherwise push = 0.6 (+- 0.1)", [], **BOX)
    np.testing.assert_allclose(one.skills.means(np.ones(1)), [[0.4]], atol=1e-6)


# ---- The command -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> str:
    """Rules with a test too many; the budget allows no update."""
    folder = tmp_path_factory.mktemp("run")
    settings = ["run.final_episodes=4", "learn.batch_episodes=2", "run.try_images=false"]
    text = "if x > 0 and y > 0.2 then go\nif x > 0 then go\notherwise stay\n"
    model = ASAP("own_envs:Sides", rules=text, seed=0, settings=settings)
    model.learn(12, run=folder / "run")
    return str(folder / "run")


def test_the_command_tells_what_it_did(run, tmp_path, capsys, monkeypatch):
    place = str(tmp_path / "small.asap")
    arguments = ["prune", run, "--loss", "0.05", "--episodes", "10", "--out", place]
    code, out, _ = asap([*arguments, "--json"], capsys, monkeypatch)
    report = json.loads(out.splitlines()[-1])
    assert code == 0 and (report["planes"], report["skills"], report["model"]) == (1, 2, place)
    (step,) = report["steps"]
    assert step["step"] == "without plane 2" and report["cost"]["lost"] == step["lost"] == 0
    assert report["allowed_loss"] == pytest.approx(0.05 * (report["return"] - report["random"]))
    code, out, _ = asap(arguments, capsys, monkeypatch)
    assert code == 0 and "left: 1 plane, 2 skills" in out and "in all: loss 0 (0 to 0)" in out


def test_every_command_takes_the_result(run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = str(tmp_path / "small.asap")
    assert asap(["prune", run, "--episodes", "4", "--out", place], capsys, monkeypatch)[0] == 0
    code, out, _ = asap(["explain", place, "--rules"], capsys, monkeypatch)
    assert code == 0 and ASAP(Sides, rules=out).predict([1.0, 0.0], deterministic=True)[0] == 1
    for command in (
        ["eval", place, "--episodes", "3"],
        ["explain", place],
        ["explain", place, "--changes"],
        ["plot", place, "--out", "pictures"],
        ["prune", place, "--episodes", "3", "--out", "again.asap"],
        ["eval", run, "--episodes", "3"],
        ["train", "--resume", run, "--steps", "120"],
    ):
        code, _, error = asap(command, capsys, monkeypatch)
        assert code == 0, (command, error)
    assert ASAP.load("again.asap").policy.partition.num_planes == 1


@pytest.mark.parametrize("options", [["--loss", "2"], ["--loss", "nan"], ["--episodes", "0"], ["--trained-seed", "7"]])
def test_what_cannot_be_done_is_one_line(run, options, capsys, monkeypatch):
    code, _, error = asap(["prune", run, *options], capsys, monkeypatch)
    assert code == 2 and error.startswith("error: ") and len(error.splitlines()) == 1
