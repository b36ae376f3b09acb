"""Promise: JAX environments that differ in numbers share a policy and a program: the numbers are told by name and scaled, tasks that
were never trained on are played, and what can't be set is refused in one line, as of a hosted family."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_line import asap as command
from jax_envs import Line, LineParams, Pull, PullParams

from asap import ASAP, UserError
from asap.base.keys import root
from asap.base.spec import TaskSet
from asap.envs import catalog
from asap.envs.resolve import another, given_tasks, resolve_all
from asap.experience import rollout

SMALL = ["run.candidates=0", "run.eval_episodes=4", "run.final_episodes=4", "learn.lanes=8", "learn.window=16"]
NAMES = ["jax_envs:line?goal=2&stride=1", "jax_envs:line?goal=4&stride=2"]


def rewards(tasks, index):
    """Of one lane that always goes to the right, on one task of a family."""
    compiled = catalog.compiled(TaskSet(tasks, (1.0,) * len(tasks))).only(tasks[index].name)
    right = rollout.Controlled(lambda x: jnp.stack([jnp.zeros(x.shape[1:]), jnp.ones(x.shape[1:])]))
    keys, moment = rollout.fresh_episodes(compiled, right, root(0), jnp.arange(1))
    steps = rollout.play(compiled, right, keys, moment, rollout.Window(compiled), 3)[2]
    return np.asarray(steps.reward)[:, 0].tolist(), np.asarray(steps.descriptor)[..., 0][0].tolist()


def test_numbers_that_differ_are_told_by_name_and_decide_what_happens():
    tasks = resolve_all([*NAMES, "jax_envs:line?goal=4&stride=1"])
    assert tasks[0].spec.descriptor_names == ("goal", "stride")
    assert [task.descriptor for task in tasks] == [(-1, -1), (1, 1), (1, -1)]
    read = [unit.read(m) for unit, m in zip(tasks[0].spec.descriptor_units, tasks[1].descriptor)]
    np.testing.assert_allclose(read, [4, 2])
    # Of steps of 1 to the goal at 2, of 2 to that at 4; a new episode begins after it.
    assert rewards(tasks, 0) == ([1, 2, 1], [-1, -1])
    assert rewards(tasks, 1) == ([2, 4, 2], [1, 1])
    assert rewards(tasks, 2) == ([1, 2, 3], [1, -1])


def test_a_task_that_says_nothing_has_the_number_by_default_and_one_alone_has_no_descriptor():
    tasks = resolve_all(["jax_envs:line", "jax_envs:line?stride=3"])
    assert tasks[0].spec.descriptor_names == ("stride",)  # The goal is that of `line` in both.
    assert [task.descriptor for task in tasks] == [(-1,), (1,)]
    (alone,) = resolve_all(["jax_envs:line?goal=4"])
    assert alone.descriptor == () and alone.env.dynamics.params.goal == 4


def test_a_task_that_was_never_trained_on_is_put_on_the_scale_of_the_family():
    tasks = resolve_all(["jax_envs:line?goal=2", "jax_envs:line?goal=4"])
    family = TaskSet(tasks, (1.0, 1.0))
    for name, m, outside in (("jax_envs:line?goal=3", 0.0, 0), ("jax_envs:line?goal=5", 2.0, 1)):
        task, notes = another(family, name)
        np.testing.assert_allclose(task.descriptor, [m])
        assert sum("outside of what was trained on, 2 to 4" in note for note in notes) == outside
        assert float(task.env.descriptor({"goal": 2.0})[0]) == -1


def test_python_gives_environments_with_their_parameters():
    names, tasks = given_tasks([(Line(), LineParams(goal=2.0)), (Line(), LineParams(goal=4.0, stride=2.0))], {})
    assert names == ["jax_envs:Line?goal=2&stride=1", "jax_envs:Line?goal=4&stride=2"]
    assert tasks[0].descriptor == (-1, -1) and rewards(tasks, 1) == ([2, 4, 2], [1, 1])
    _, modules = given_tasks([(Pull(), PullParams(strength=1.0)), (Pull(), PullParams(strength=3.0))], {})
    assert [task.descriptor for task in modules] == [(-1,), (1,)]
    _, named = given_tasks([{"id": "jax_envs:line", "goal": 2}, {"id": "jax_envs:line", "goal": 4}], {})
    assert named is None
    with pytest.raises(UserError, match="is given twice"):
        given_tasks([(Line(), LineParams()), (Line(), LineParams())], {})


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["jax_envs:line?__class__=1"], "a parameter must be a plain public name"),
        (["jax_envs:line?step_env=1"], "has no number of that name that can be set (got step_env); choose from"),
        (["jax_envs:line?goall=1"], "has no number of that name that can be set (got goall); choose from goal=3"),
        (["jax_envs:line?goal.x=1"], "a parameter must be a plain public name"),
        ([f"jax_envs:line?goal=1&{'x' * 900}=1"], "a name may have 500 characters"),
        (["jax_envs:line?goal=2..4"], "episodes of a JAX environment can't draw their numbers"),
        (["jax_envs:line?max_steps_in_episode=4"], "'max_steps_in_episode' is the time limit"),
        (["jax_envs:line?goal=1", "jax_envs:Pull"], "cannot share one policy"),
        (["jax_envs:line?goal=1", "jax_envs:Clock"], "are different code"),
        (["jax_envs:line?goal=1", "CartPole-v1"], "shares a program with others of its kind alone"),
    ],
)
def test_what_cannot_be_set_is_refused_in_one_line_and_nothing_is_set(names, said):
    with pytest.raises(UserError) as error:
        resolve_all(names)
    assert said in str(error.value) and "\n" not in str(error.value)
    assert Line().default_params == LineParams() and LineParams().goal == 3.0


def test_one_policy_is_learned_kept_and_played_on_unseen_tasks(tmp_path, capsys, monkeypatch):
    settings = [*SMALL, "policy.hyperplanes=1"]
    model = ASAP("jax_envs:line", settings=settings)
    model.learn_sequence(NAMES, 512, planes="shared", run=tmp_path / "run", settings=["sequence.look_episodes=4"])
    assert model.tasks.names == tuple(NAMES) and model.sequence.returns.shape == (3, 2, 1)
    run = str(tmp_path / "run")
    code, out, error = command(
        ["eval", run, "--task", "jax_envs:line?goal=3&stride=1", "--episodes", "4"], capsys, monkeypatch
    )
    assert code == 0 and "return" in out, error
    code, _, error = command(["eval", run, "--task", "jax_envs:line?step=1"], capsys, monkeypatch)
    assert code == 2 and "has no number of that name" in error
    loaded = ASAP.load(run)
    assert jax.tree.all(jax.tree.map(np.array_equal, loaded.policies, model.policies))
    assert loaded.evaluate(4)["per_task"].keys() == set(NAMES)
    joint = ASAP(NAMES, settings=settings).learn(512, run=tmp_path / "joint")
    again = ASAP.load(tmp_path / "joint")
    assert again.evaluate(4) == joint.evaluate(4) and joint.evaluate(4)["per_task"].keys() == set(NAMES)
    assert "goal" in again.rules() or "stride" in again.rules()
