"""Transfer: flipped signs, the search for them and its cost, warm starts seed by seed, and frozen parts."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_line import asap

from asap import transfer
from asap.base.keys import root
from asap.envs import catalog
from asap.evaluate import Evaluation
from asap.trained import Trained
from asap.transfer import flip, search_symmetries, sign_patterns

SMALL = [
    part
    for item in ("learn.window=16", "run.chunk=1", "run.eval_episodes=4", "run.final_episodes=4")
    for part in ("--set", item)
]


def test_a_flipped_plane_swaps_the_skills_of_its_sides(new_policy):
    policy = new_policy(2)
    x, m = jnp.asarray([0.3, 0.8, 0.1, 0.5]), jnp.asarray([0.2, -0.4])
    before = np.asarray(policy.skill_log_probs(x, m)).reshape(2, 2)  # Plane 2, plane 1.
    after = np.asarray(flip(policy, jnp.asarray([-1.0, 1.0])).skill_log_probs(x, m)).reshape(2, 2)
    np.testing.assert_allclose(after, before[:, ::-1], rtol=1e-5)
    again = flip(flip(policy, jnp.asarray([-1.0, 1.0])), jnp.asarray([-1.0, 1.0]))
    assert (again.partition.beta == policy.partition.beta).all()


def test_all_patterns_once_and_the_first_flips_nothing():
    patterns = np.asarray(sign_patterns(3))
    assert len(np.unique(patterns, axis=0)) == 8 and set(patterns.ravel()) == {-1.0, 1.0}
    assert (patterns[0] == 1).all()


def walker(task: str):
    """Up and right in the left room, down and right in the right one: solves 2R."""
    from asap.config.schema import PolicyConfig
    from asap.policy.build import build_policy

    policy = build_policy(PolicyConfig(start="approximate"), (catalog.find(task),), np.random.default_rng(0))
    skills = np.log([[0.45, 0.05, 0.45, 0.05], [0.05, 0.45, 0.45, 0.05]])
    policy = jax.tree.map(jnp.asarray, policy)
    return jax.tree_util.tree_map(lambda leaf: leaf, policy), jnp.asarray(skills[..., None], jnp.float32)


@pytest.mark.parametrize(("task", "expected"), [("two-rooms", 1), ("flipped-two-rooms", -1)])
def test_the_search_finds_the_signs_and_counts_its_episodes(task, expected, compiled):
    import equinox as eqx

    policy, theta = walker(task)
    policy = eqx.tree_at(lambda p: p.skills.theta, policy, theta)
    tasks = catalog.task_set(((task, 1.0),))
    found, signs, totals = compiled(lambda p, key: search_symmetries(p, tasks, key, 3))(policy, root(0))
    assert signs.tolist() == [expected]
    np.testing.assert_array_equal(found.partition.beta, expected * policy.partition.beta)
    assert totals.episodes.tolist() == [6]
    assert 3 <= totals.successes[0] <= 6 and totals.steps[0] > 3 * 20


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    from asap.cli.learning import create_run, train_run
    from asap.compose import settings_of

    config = settings_of(
        ["two-rooms"], {"run.episodes": 8, "run.seeds": 2}, None, None, [*SMALL[1::2], "learn.lanes=4"]
    )
    path = tmp_path_factory.mktemp("source ü") / "run"
    train_run(create_run(config, str(path), ""), config, as_json=True)
    return path


@pytest.mark.parametrize(("freeze", "kept"), [("skills", "theta"), ("partition", "beta")])
def test_a_frozen_part_stays_bit_for_bit(source, freeze, kept, tmp_path, capsys, monkeypatch):
    out = tmp_path / "run"
    arguments = [
        "transfer",
        str(source),
        "flipped-two-rooms",
        "--freeze",
        freeze,
        "--episodes",
        "4",
        "--out",
        str(out),
        "--json",
    ]
    code, printed, err = asap(arguments, capsys, monkeypatch)
    assert code == 0, err
    before, after = (Trained.load(str(path)).policies for path in (source, out))
    parts = {"theta": lambda p: p.skills.theta, "beta": lambda p: p.partition.beta}
    for name, part in parts.items():
        same = (np.asarray(part(before)) == np.asarray(part(after))).all()
        assert same == (name == kept)
    report = json.loads(printed)
    assert report["source"] == str(source) and report["task"] == "flipped-two-rooms"
    assert report["start"]["episodes"] == [0, 0]


def test_the_search_is_paid_from_the_budget(source, tmp_path, capsys, monkeypatch):
    out = tmp_path / "run"
    arguments = [
        "transfer",
        str(source),
        "flipped-two-rooms",
        "--search-symmetries",
        "--episodes",
        "6",
        "--out",
        str(out),
        "--json",
    ]
    code, printed, err = asap(arguments, capsys, monkeypatch)
    assert code == 0, err
    assert json.loads(printed)["start"]["episodes"] == [4, 4]  # Two patterns, two episodes each.


@pytest.mark.parametrize(
    ("arguments", "field", "text"),
    [
        (["flipped-two-rooms", "--freeze", "all"], "--freeze", "skills or partition"),
        (["flipped-two-rooms", "--seeds", "3"], "run.source", "2 seeds"),
        (["three-rooms"], "run.source", "shapes"),
        (["four-rooms"], "task", "unknown"),
    ],
)
def test_what_does_not_fit_is_refused(source, arguments, field, text, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = asap(["transfer", str(source), *arguments], capsys, monkeypatch)
    assert code == 2 and err.startswith(f"error: {field}") and text in err and err.count("\n") == 1


def test_an_unknown_source_is_refused(tmp_path, capsys, monkeypatch):
    code, _, err = asap(["transfer", str(tmp_path / "nothing"), "two-rooms"], capsys, monkeypatch)
    assert code == 2 and err.count("\n") == 1


@pytest.mark.parametrize(("weights", "expected"), [((1.0, 9.0), -1), ((9.0, 1.0), 1)])
def test_the_search_weighs_the_tasks(new_policy, monkeypatch, weights, expected):
    """The sign that is good for one task is bad for the other: the one that is played more decides."""
    policy = new_policy(1)
    sign = jnp.sign(policy.partition.beta[0, 0])
    pays = {"two-rooms": 1.0, "flipped-two-rooms": -1.0}

    def played(flipped, tasks, key, count):
        total = pays[tasks.names[0]] * sign * jnp.sign(flipped.partition.beta[0, 0])
        return Evaluation(jnp.full(count, total), jnp.zeros(count), jnp.ones(count), jnp.zeros(2), jnp.zeros(2))

    monkeypatch.setattr(transfer, "evaluate", played)
    tasks = catalog.task_set(tuple(zip(pays, weights)))
    found, signs, _ = search_symmetries(policy, tasks, root(0), 3)
    assert signs.tolist() == [expected]
    np.testing.assert_array_equal(found.partition.beta, expected * policy.partition.beta)
