"""One policy for environments that differ in numbers: it is told the numbers, results are told task by task, and episodes
that draw their own numbers are the same whoever plays them."""

import json
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from command_line import asap
from family_envs import LENGTH, Swapped

from asap import ASAP
from asap.base.arrays import stack
from asap.base.episodes import TRAINING, EpisodeId
from asap.base.errors import UserError
from asap.compose import compose
from asap.config.schema import Config
from asap.config.toml import parse_settings, to_toml
from asap.envs import catalog
from asap.envs.gymnasium.make import EnvLimits, EnvSource, HostedSource
from asap.envs.resolve import another, resolve_all
from asap.experience.hosted import packed
from asap.learn.state import parameter_digest
from asap.model.training import train_run
from asap.policy.build import plan_of, uniform_policy
from asap.runs.directory import Run
from asap.runs.loggers import metrics_of
from asap.runs.signals import StopRequest
from asap.workers.play import Environments, play_chunk
from asap.workers.work import Work

SMALL = ["run.candidates=8", "learn.batch_steps=256", "run.final_episodes=10", "run.eval_episodes=4"]
LIST = ["family_envs:Swapped?order=-1", "family_envs:Swapped?order=1"]
RANGE = ["family_envs:Swapped?order=-1..1"]


# ---- The numbers that tell tasks apart ----------------------------------------------------------------------------


def test_the_numbers_that_differ_are_the_descriptor():
    found = resolve_all(
        ["CartPole-v1?length=0.3&tau=0.02", "CartPole-v1?length=1.3&tau=0.02", "CartPole-v1?masscart=3&tau=0.02"]
    )
    assert found[0].spec.descriptor_names == ("length", "masscart")
    # Without a word CartPole has a length of 0.5, and a mass of 1.
    np.testing.assert_allclose([task.descriptor for task in found], [[-1, -1], [1, -1], [-0.6, 1]])
    read = [unit.read(m) for unit, m in zip(found[2].spec.descriptor_units, found[2].descriptor)]
    np.testing.assert_allclose(read, [0.5, 3.0])
    assert resolve_all(["CartPole-v1?length=0.3"])[0].descriptor == ()


def test_environments_of_other_names_are_told_apart_too():
    first, other = resolve_all(["family_envs:Swapped", "family_envs:any_order"])
    assert first.spec.descriptor_names == ("is family_envs:any_order",)
    assert (first.descriptor, other.descriptor) == ((-1.0,), (1.0,))


def test_a_task_that_is_not_of_the_family_is_put_on_its_scale():
    config, tasks = compose(["CartPole-v1?length=0.3", "CartPole-v1?length=1.3"], {})
    for name, m, notes in (
        ("CartPole-v1?length=0.8", 0.0, 0),
        ("CartPole-v1", -0.6, 0),
        ("CartPole-v1?length=1.8", 2.0, 1),
    ):
        task, said = another(tasks, name)
        np.testing.assert_allclose(task.descriptor, [m], atol=1e-6)
        assert len(said) == notes
    assert said == ["length = 1.8 is outside of what was trained on, 0.3 to 1.3"]
    with pytest.raises(UserError, match="the model was not made for it"):
        another(tasks, "Acrobot-v1?LINK_MOI=2")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ["CartPole-v1", "Acrobot-v1"],
            "'CartPole-v1' and 'Acrobot-v1' cannot share one policy: they have other observations",
        ),
        (["family_envs:Wider", "family_envs:Wider?size=2"], "they have other observations"),
        (["Pendulum-v1", "Pendulum-v1?max_torque=1"], "they have other bounds of actions"),
        (
            ["CartPole-v1", "two-rooms"],
            "'two-rooms' is a compiled task of ours and 'CartPole-v1' a Gymnasium environment",
        ),
        (["striker-r1?door=1"], "striker-r1 has no parameters to set"),
        (["two-rooms?wall=1"], "rooms have no parameter of that name (got wall); choose from goal=0.1, door=0.85"),
        (["two-rooms?door=0.1..0.5"], "episodes of Gymnasium environments alone draw from ranges"),
        (["two-rooms?door=0.1"], "the door would leave the room"),
    ],
)
def test_what_cannot_be_one_family_is_refused_in_one_line(names, said):
    with pytest.raises(UserError) as refused:
        compose(names, {})
    assert said in str(refused.value)


def test_rooms_take_the_same_words():
    """The door of 2R is 0.3 high, and its middle goes from 0.15 to 0.85."""
    door, goal = catalog.find("two-rooms?door=0.4"), catalog.find("three-rooms?second_door=0.5&goal=0.3")
    np.testing.assert_allclose([door.task.door_low[0], door.task.door_high[0]], [0.25, 0.55], atol=1e-6)
    np.testing.assert_allclose(door.descriptor, [-0.8, -0.2], atol=1e-6)
    np.testing.assert_allclose(goal.descriptor, [-0.4, 0.7, 0.0], atol=1e-6)
    assert door.reference is door.threshold is None
    np.testing.assert_allclose(catalog.find("two-rooms").task.door_low, [0.7])
    assert compose(["two-rooms", "two-rooms?door=0.4:3"], {})[1].weights == (1.0, 3.0)


def test_programs_give_them_in_several_ways():
    by_dict = ASAP([{"id": "CartPole-v1", "length": 0.3}, {"id": "CartPole-v1", "length": (0.5, 1)}], hyperplanes=1)
    assert by_dict.tasks.names == ("CartPole-v1?length=0.3", "CartPole-v1?length=0.5..1")
    by_function = ASAP([(Swapped, {"order": -1}), {"id": Swapped, "order": 1}, Swapped], hyperplanes=1)
    assert by_function.tasks.descriptors.tolist() == [[-1], [1], [1]]
    with pytest.raises(UserError, match="has no id"):
        ASAP({"length": 3})
    with pytest.raises(UserError, match="is given twice"):
        ASAP([Swapped, Swapped])


# ---- Episodes that draw their own ---------------------------------------------------------------------------------


def test_an_episode_draws_its_numbers_by_its_id_and_the_policy_is_told_them():
    config, tasks = compose(["family_envs:Swapped?order=-1..3", "family_envs:Swapped?order=3"], {})
    source, number = EnvSource("family_envs:Swapped?order=-1..3"), EpisodeId(7, TRAINING, 5)
    order = source.of_episode(number).build().unwrapped.order
    assert order == source.of_episode(number).build().unwrapped.order
    m = tasks.descriptor_of(number)
    np.testing.assert_allclose(m, [(order - 1) / 2], atol=1e-6)
    np.testing.assert_allclose(tasks.descriptor_of(number._replace(task=1)), [1.0])
    drawn = [tasks.descriptor_of(EpisodeId(7, TRAINING, n))[0] for n in range(200)]
    assert -1 <= min(drawn) < -0.9 and 0.9 < max(drawn) <= 1 and abs(np.mean(drawn)) < 0.1


def test_the_player_and_the_learner_see_the_same_numbers():
    """Skill 1 where m is above 0: what the player chose tells what it was told."""
    model = ASAP(RANGE[0], hyperplanes=1, seed=0)
    beta = np.zeros_like(model.policy.partition.beta)
    beta[0, 2] = 100.0  # Of 1, x, m, x m.
    model.policy = _with_beta(model.policy, beta)
    plan = plan_of(model.policy, 1, model.tasks.descriptors, [task.drawn for task in model.tasks.tasks])
    ids = tuple(EpisodeId(0, TRAINING, number) for number in range(12))
    played = play_chunk(_environments(model), Work(0, plan, ids, True), lambda *place: None).played
    batch = packed(played, model.tasks)
    told = batch.steps.descriptor[0][batch.steps.counts]
    skills = batch.steps.skill[batch.steps.counts]
    np.testing.assert_array_equal(skills, told > 0)
    assert len(set(told.tolist())) == 12 and 0 < skills.mean() < 1
    orders = [EnvSource(RANGE[0]).of_episode(one).build().unwrapped.order for one in ids]
    np.testing.assert_allclose(told[::LENGTH], orders, atol=1e-6)
    for one, order in zip(played, orders):  # And the environment has them.
        is_right = (one.actions == 1) == (one.observations[:-1, 0] * order > 0)
        np.testing.assert_array_equal(one.rewards, is_right)


def _with_beta(policy, beta):
    import equinox as eqx

    return eqx.tree_at(lambda p: p.partition.beta, policy, beta)


def _environments(model: ASAP) -> Environments:
    return Environments(tuple(task.hosted_source for task in model.tasks.tasks))


def trained(names, path, workers="0", steps=1000, callbacks=()):
    config, tasks = compose(
        names, {"run.steps": steps, "policy.hyperplanes": 1}, overrides=parse_settings(Config, SMALL)
    )
    return train_run(Run.create_or_continue(path, to_toml(config)), config, tasks, StopRequest(), callbacks, workers)[1]


@pytest.mark.parametrize("names", [LIST, RANGE], ids=["list", "range"])
def test_workers_and_stops_make_no_difference(names, tmp_path):
    alone = trained(names, tmp_path / "alone").parameters_sha256
    assert trained(names, tmp_path / "two", workers="2").parameters_sha256 == alone
    stopped = trained(names, tmp_path / "stopped", callbacks=[lambda report: report.update < 2])
    assert not stopped.finished
    assert trained(names, tmp_path / "stopped").parameters_sha256 == alone


# ---- Learning -----------------------------------------------------------------------------------------------------


def test_a_family_in_which_the_descriptor_decides_is_solved_with_it_alone():
    """Without it, the best that there is names half of the signs right."""
    settings = {"run.candidates": 16, "learn.batch_steps": 512}
    told = ASAP(LIST, hyperplanes=1, seed=0, settings=settings).learn(5000)
    report = told.evaluate(20)
    assert min(one["return"] for one in report["per_task"].values()) > 0.9 * LENGTH
    untold = ASAP(LIST, hyperplanes=1, seed=0, settings={**settings, "policy.task_features": "none"}).learn(2500)
    assert untold.evaluate(20)["return"] == pytest.approx(0.5 * LENGTH, abs=0.05 * LENGTH)
    # On numbers that it was never trained on, and in words.
    assert told.evaluate(20, task="family_envs:Swapped?order=0.8")["return"] > 0.9 * LENGTH
    there = told.on_task("family_envs:Swapped?order=-0.8")
    assert there.predict(np.float32([0.9]), deterministic=True)[0] == 0
    text = told.explain()
    assert "order" in text.split("if ")[0] and "In family_envs:Swapped?order=-1 (order -1):" in text
    assert told.rules("family_envs:Swapped?order=-1") != told.rules()
    with pytest.raises(UserError, match="is on one task of a family"):
        there.save("x.asap")


def test_linear_skills_can_be_told_too():
    settings = {"run.candidates": 16, "policy.task_in_skills": True}
    model = ASAP(LIST, hyperplanes=0, skills="linear", seed=0, settings=settings).learn(6000)
    assert model.policy.phi.task == "interactions"
    assert model.evaluate(20)["return"] > 0.9 * LENGTH


def test_a_drawn_number_must_be_said_to_predict(tmp_path):
    model = ASAP(RANGE[0], hyperplanes=1, seed=0)
    with pytest.raises(UserError, match=r"say them: model.on_task\('NAME\?order=NUMBER'\)"):
        model.predict(np.float32([0.5]))
    assert model.on_task("family_envs:Swapped?order=0.5").predict(np.float32([0.5]))[0] in (0, 1)
    assert "order -1 to 1, drawn for each episode" in model.explain()


# ---- Runs, files and commands -------------------------------------------------------------------------------------


def test_a_family_by_command(tmp_path, capsys, monkeypatch):
    run = str(tmp_path / "run")
    small = [word for setting in SMALL for word in ("--set", setting)]
    words = ["train", "CartPole-v1", "--vary", "length=0.3,1.0", "--steps", "900", "--out", run, *small]
    code, out, error = asap([*words, "--json"], capsys, monkeypatch)
    assert code == 0, error
    assert list(json.loads(out.splitlines()[-1])["per_task"]) == ["CartPole-v1?length=0.3", "CartPole-v1?length=1"]
    code, out, error = asap(["eval", run, "--task", "CartPole-v1?length=0.7", "--episodes", "2"], capsys, monkeypatch)
    assert code == 0 and out.startswith("CartPole-v1?length=0.7: return ")
    code, out, error = asap(["eval", run, "--task", "CartPole-v1?length=9", "--episodes", "2"], capsys, monkeypatch)
    assert code == 0 and "note: length = 9 is outside of what was trained on, 0.3 to 1" in error
    code, out, error = asap(["eval", run, "--task", "CartPole-v1?step=1"], capsys, monkeypatch)
    assert code == 2 and "(got step)" in error
    code, out, error = asap(["train", "--resume", run, "--vary", "length=1"], capsys, monkeypatch)
    assert code == 2 and "so --vary can't be given" in error
    loaded = ASAP.load(run)
    assert loaded.tasks.descriptors.tolist() == [[-1], [1]]
    loaded.save(tmp_path / "model.asap")
    again = ASAP.load(tmp_path / "model.asap")
    assert parameter_digest(again.policies) == parameter_digest(loaded.policies)
    assert again.tasks.spec == loaded.tasks.spec


def test_the_original_keeps_its_place_in_a_file(tmp_path):
    """CartPole's own length is recorded: a stranger's file is read without making any environment."""
    model = ASAP(["CartPole-v1", "CartPole-v1?length=1.5"], hyperplanes=1)
    model.save(tmp_path / "model.asap")
    records = [task.record() for task in model.tasks.tasks]
    assert records[0]["own_values"] == {"length": 0.5}
    assert ASAP.load(tmp_path / "model.asap").tasks.descriptors.tolist() == [[-1], [1]]


def test_curves_are_told_task_by_task():
    event = {"success": [[0.5, 1.0]], "usage": [[1.0]]}
    report = SimpleNamespace(
        event=event, returns=np.array([[3.0, 5.0]]), lengths=[4.0], update=1, env_steps=[9], episodes=[2]
    )
    told = metrics_of(report, 0, 1.0, ("a", "b"))
    assert (told["tasks/a/ep_rew_mean"], told["tasks/b/ep_rew_mean"], told["rollout/ep_rew_mean"]) == (3.0, 5.0, 4.0)
    assert told["tasks/b/success_rate"] == 1.0
    report.returns[0, 0] = np.nan  # No episode of an update was on it.
    told = metrics_of(report, 0, 1.0, ("a", "b"))
    assert told["rollout/ep_rew_mean"] == 5.0 and "tasks/a/ep_rew_mean" not in told
    assert not any(name.startswith("tasks/") for name in metrics_of(report, 0, 1.0, ("a",)))


def test_a_failed_episode_names_its_own_numbers():
    from asap.workers.failures import Recording
    from asap.workers.work import Failed

    source, one = HostedSource(EnvSource(RANGE[0]), EnvLimits()), EpisodeId(0, TRAINING, 3)
    own = source.source.of_episode(one)
    recording = Recording.of(own, Failed(one, "env.step", "raised", "", 1, [0], ""))
    assert recording.env == own.name != RANGE[0] and "?order=" in own.name and ".." not in own.name
    assert EnvSource(recording.env).build().unwrapped.order == own.build().unwrapped.order


def test_plain_environments_have_no_numbers():
    model = ASAP(gymnasium.make("CartPole-v1"), hyperplanes=1)
    assert model.tasks.descriptors.shape == (1, 0) and "own_values" not in model.tasks.tasks[0].record()
    assert uniform_policy(model.tasks.tasks[0]).psi.task == "none" and len(stack([model.policy]).partition.beta) == 1
