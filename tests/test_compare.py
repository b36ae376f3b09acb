"""Promise: `asap compare` gives every system as many steps and the same fresh episodes, keeps each seed that is finished,
continues after a stop with what is missing, and says in one line what it can't do."""

import contextlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from command_line import asap

from asap.base.arrays import stack
from asap.base.errors import Interrupted, UserError
from asap.base.keys import Key, uniforms
from asap.base.stats import SeedCurve
from asap.compose import compose
from asap.experience.choose import counted_play
from asap.experience.counted_play import StepChoice, StepCounter
from asap.policy.policy import NO_SKILL
from asap.rivals import comparison, registry
from asap.rivals.comparison import Contest, Scale, SeedResult, compare, summary
from asap.rivals.protocol import Agents, System

UP, RIGHT = 0, 2
LEARNED: list[tuple[str, tuple[int, ...]]] = []  # Who has learned, and for which seeds.


class Still(eqx.Module):
    """Always the same action."""

    action: Any

    def draws(self, key: Key) -> tuple[()]:
        return ()

    def choose(self, draws, x, m, previous):
        return jnp.int32(NO_SKILL), self.action


class Sums(NamedTuple):
    steps: Any
    rewards: Any


@dataclass(frozen=True)
class Wanderer:
    """A step learner that walks at random, and remembers how many steps it has made and what they paid."""

    def begin(self, key):
        return Sums(jnp.int32(0), jnp.float32(0))

    def choose(self, key, state, x, m):
        return StepChoice(state, jnp.int32(NO_SKILL), (4 * uniforms(key)[0]).astype(jnp.int32))

    def learn(self, key, state, step):
        return Sums(state.steps + 1, state.rewards + step.reward)


@dataclass(frozen=True)
class Walk:
    """A system: it learns nothing from all that walking, and goes on with one action."""

    name: str = "walk"
    representation: str = "native"
    learns_skills: bool = False
    action: int = RIGHT

    def why_not(self, tasks):
        return None

    def learn(self, tasks, seeds, counter, start=None):
        LEARNED.append((self.name, seeds))
        running = counted_play(tasks, seeds, counter).learn(Wanderer())
        np.testing.assert_array_equal(running.state.steps, counter.used)
        actors = stack([Still(np.int32(self.action))] * len(seeds))
        return Agents(actors, 0, 1, counter.used, counter.curves())


@dataclass(frozen=True)
class Stopped(Walk):
    """Somebody asks to stop while it learns."""

    name: str = "stopped"

    def learn(self, tasks, seeds, counter, start=None):
        LEARNED.append((self.name, seeds))
        raise Interrupted


@pytest.fixture(autouse=True)
def nobody_has_learned():
    LEARNED.clear()


@pytest.fixture(scope="module")
def rooms():
    return compose(["two-rooms"], {})[1]


@pytest.fixture
def contest(rooms, tmp_path):
    return Contest(rooms, (5, 6), 300, tmp_path, episodes=4)


# ---- What is kept -------------------------------------------------------------------------------------------------


def test_the_systems_of_these_tests_are_systems():
    assert isinstance(Walk(), System) and all(isinstance(registry.find(name), System) for name in ("asap", "random"))


def test_a_seed_uses_the_budget_and_is_kept_as_a_file(contest):
    found = compare(contest, [Walk()])["walk"]
    assert [result.steps for result in found] == [300, 300]
    record = json.loads((contest.folder / "walk-two-rooms-native-5.json").read_text())
    assert record["result"] == found[0].as_dict() and record["settings"]["steps"] == 300
    assert record["settings"]["system"]["action"] == RIGHT and "version" in record["settings"]
    assert sorted(path.name for path in contest.folder.iterdir()) == [f"walk-two-rooms-native-{s}.json" for s in (5, 6)]


def test_what_is_finished_is_not_learned_again(contest):
    walk = Walk()
    first, second = compare(contest, [walk]), compare(contest, [walk])
    assert LEARNED == [("walk", (5, 6))]
    assert [one.as_dict() for one in first["walk"]] == [one.as_dict() for one in second["walk"]]


def test_a_larger_comparison_learns_the_seeds_that_are_missing(contest, rooms):
    walk = Walk()
    compare(contest, [walk])
    found = compare(Contest(rooms, (4, 5, 6, 8), 300, contest.folder, 4), [walk])["walk"]
    assert LEARNED == [("walk", (5, 6)), ("walk", (4, 8))] and [result.seed for result in found] == [4, 5, 6, 8]


def test_a_stop_costs_the_system_that_is_learning_alone(contest):
    with pytest.raises(Interrupted):
        compare(contest, [Walk(), Stopped()])
    compare(contest, [Walk(), Walk(name="third")])
    assert [name for name, _ in LEARNED] == ["walk", "stopped", "third"]


@pytest.mark.parametrize("change", ["steps", "episodes", "system"])
def test_a_file_of_other_settings_is_said_and_made_anew(change, contest, rooms):
    compare(contest, [Walk()])
    steps, episodes = (400 if change == "steps" else 300), (5 if change == "episodes" else 4)
    walk, said = Walk(action=UP if change == "system" else RIGHT), []
    compare(Contest(rooms, (5,), steps, contest.folder, episodes), [walk], notice=said.append)
    assert LEARNED == [("walk", (5, 6)), ("walk", (5,))]
    assert len(said) == 1 and said[0].endswith(f"was made with other settings ({change}); it is made anew")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"settings": {}}', '{"settings": 3, "result": {}}'])
def test_a_file_that_cannot_be_read_is_made_anew(text, contest):
    walk, said = Walk(), []
    compare(contest, [walk])
    (contest.folder / "walk-two-rooms-native-6.json").write_text(text)
    compare(contest, [walk], notice=said.append)
    assert LEARNED == [("walk", (5, 6)), ("walk", (6,))] and len(said) == 1


def test_a_result_of_other_fields_is_made_anew(contest):
    walk, path = Walk(), contest.folder / "walk-two-rooms-native-6.json"
    compare(contest, [walk])
    record = json.loads(path.read_text())
    del record["result"]["success"]
    path.write_text(json.dumps(record))
    compare(contest, [walk], notice=lambda text: None)
    assert LEARNED == [("walk", (5, 6)), ("walk", (6,))]


# ---- What is measured ---------------------------------------------------------------------------------------------


def test_all_systems_are_evaluated_on_the_same_episodes(contest):
    """Two that act alike have the same returns, whatever was played before."""
    found = compare(contest, [Walk(), Walk(name="other"), Walk(name="upward", action=UP)])
    returns = {name: [result.final for result in own] for name, own in found.items()}
    assert returns["walk"] == returns["other"]
    assert set(returns["upward"]) == {-400.0}, "up leads to the wall, for 400 steps of -1"


def test_the_curve_is_of_training_and_by_steps(rooms, tmp_path):
    """Episodes of random play take 400 steps of -1, but for those that find the goal."""
    found = compare(Contest(rooms, (0,), 2000, tmp_path, 2), [Walk()])["walk"][0]
    assert found.curve.episodes[0] == pytest.approx(400, abs=40) and found.curve.episodes[-1] <= 2000
    assert (np.asarray(found.curve.returns) >= -400).all()


def test_scaled_returns_are_0_at_random_and_1_by_the_script(rooms):
    def results(*returns):
        curve = SeedCurve(np.zeros(0), np.zeros(0))
        return [SeedResult(i, r, {}, None, 0, 0.0, 0, 0, curve) for i, r in enumerate(returns)]

    found = {"random": results(-390, -380), "scripted": results(60, 70), "own": results(-385, 65, 290)}
    scale = Scale.of(rooms, found)
    assert scale == Scale(-385.0, 65.0, "scripted")
    np.testing.assert_allclose(scale.scaled([-385, 65, 290, -160]), [0, 1, 1.5, 0.5])
    del found["scripted"]
    assert Scale.of(rooms, found) == Scale(-385.0, pytest.approx(31.26), "solved")
    row = summary("own", found["own"], scale)
    assert row["return"]["all"] == [-385, 65, 290] and row["scaled"]["all"] == pytest.approx([0, 1, 1.5])
    assert row["success"] is None and Scale.of(rooms, {"own": found["own"]}) is None


# ---- The names ----------------------------------------------------------------------------------------------------


def test_the_registry_imports_nothing_of_a_system():
    script = "import sys, asap.rivals.registry; sys.exit('jax' in sys.modules or 'asap.rivals.library' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.parametrize("name", registry.NAMES)
@pytest.mark.parametrize("track", registry.TRACKS)
def test_every_name_leads_to_a_system_of_that_name(name, track):
    if not (Path(comparison.__file__).parent / f"{registry.ENTRIES[name].module}.py").exists():
        pytest.skip("not written yet")
    system = registry.find(name, track)
    assert isinstance(system, System) and (system.name, system.representation) == (name, track)


@pytest.mark.parametrize(
    ("name", "says"),
    [("option-critik", "did you mean 'option-critic'?"), ("zzz", "choose from all, asap, option-critic")],
)
def test_an_unknown_name_is_told_the_nearest(name, says):
    with pytest.raises(UserError, match="--rivals: no such system") as caught:
        registry.find(name)
    assert says in str(caught.value)


# ---- The command --------------------------------------------------------------------------------------------------


@pytest.fixture
def run_asap(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(comparison, "EPISODES", 8)
    return lambda *words: asap(["compare", *words], capsys, monkeypatch)


def test_the_command_compares_keeps_and_draws(run_asap, tmp_path):
    words = ["two-rooms", "--rivals", "random", "--steps", "1024", "--seeds", "2", "--seed", "3"]
    code, out, _ = run_asap(*words, "--json")
    report = json.loads(out.splitlines()[-1])
    assert code == 0 and [row["system"] for row in report["systems"]] == ["asap", "random", "scripted"]
    assert report["seeds"] == [3, 4] and report["systems"][0]["steps"] == [1024, 1024]
    assert [row["scaled"]["iqm"] for row in report["systems"][1:]] == pytest.approx([0, 1])
    assert [path.split("/")[-1] for path in report["pictures"]] == ["curves-native.png", "returns-native.png"]
    assert all((tmp_path / path).stat().st_size > 10_000 for path in report["pictures"])
    assert len(list((tmp_path / "compared" / "two-rooms").glob("*.json"))) == 6
    code, out, stderr = run_asap(*words)
    assert code == 0 and "native track, 2 seeds from 3: 1,024 steps each" in out and "note" not in stderr
    assert [line.split()[0] for line in out.splitlines()[2:5]] == ["asap", "random", "scripted"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["two-rooms", "--rivals", "flat-pp"], "--rivals: no such system (got 'flat-pp'); did you mean 'flat-ppo'?"),
        (["two-rooms", "--rivals", ","], "--rivals: names nobody"),
        (["two-rooms", "--track", "fair"], "--track: must be native or equal (got 'fair')"),
        (["two-rooms", "--seeds", "0"], "--seeds: must be an integer from 1 to"),
        (["two-rooms", "--steps", "0"], "--steps: must be an integer from 1 to"),
        (["two-rooms", "--seed", "-1"], "--seed: must be an integer from 0 to"),
        (["two-room"], "did you mean 'two-rooms'?"),
        (["two-rooms", "--rivals", "random", "--out", ""], "--out: is empty"),
        (
            ["CartPole-v1", "--rivals", "scripted"],
            "--rivals: scripted can't learn CartPole-v1: nobody has written a script for CartPole-v1; leave it out",
        ),
    ],
)
def test_what_cannot_be_is_said_in_one_line(words, says, run_asap, tmp_path):
    code, out, stderr = run_asap(*words)
    errors = [line for line in stderr.splitlines() if line.startswith("error:")]
    assert code == 2 and not out and len(errors) == 1 and says in errors[0]
    assert not list(tmp_path.iterdir()), "nothing is made"


@dataclass(frozen=True)
class OnItsOwn(Walk):
    """Its actions are not those of the task, so it has evaluated itself."""

    def learn(self, tasks, seeds, counter, start=None):
        agents = super().learn(tasks, seeds, counter, start)
        with contextlib.closing(counted_play(tasks, seeds, StepCounter(len(seeds), 0))) as play:
            own = play.evaluate(agents.actors, 4, 0)
        return agents._replace(evaluation=own._replace(returns=own.returns * 0 + 12.5))


def test_a_system_that_evaluates_itself_is_taken_at_its_word(contest):
    (first, _) = compare(contest, [OnItsOwn()])["walk"]
    assert first.final == 12.5


def test_skills_of_asap_stay_as_they_began_where_they_are_not_to_learn(rooms):
    from asap.learn.state import drawn_policy
    from asap.rivals.library import Library

    still = Library(learns_skills=False)
    agents = still.learn(rooms, (3,), StepCounter(1, 4000))
    began = drawn_policy(still.config(rooms, 4000), rooms, 3)
    np.testing.assert_array_equal(agents.state.skills.theta[0], began.skills.theta)
    assert not np.array_equal(agents.state.partition.beta[0], began.partition.beta)
