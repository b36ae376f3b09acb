"""ELLA's algebra is that of the paper, and what was learned on some tasks helps with the next.

Each test names the break that it was seen to catch.
"""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.spec import TaskSet
from asap.base.types import Transition
from asap.envs import catalog
from asap.experience.choose import counted_play
from asap.experience.counted_play import StepCounter
from asap.paper.check_pg_ella import EPISODES, EXPECTED, TOLERANCE, regression_errors, rooms_gains
from asap.rivals.ella import lasso, learn_first_task, learn_task, nothing_known, parameters, square_root
from asap.rivals.families import family
from asap.rivals.features import FourierBasis, Inputs01
from asap.rivals.flat_gradient import SoftmaxActor, ascent, fisher, rewards_to_go
from asap.rivals.pg_ella import PGELLA

ANY = np.random.default_rng(0)
CONSTANT = FourierBasis(Inputs01((0,), (0.0,), (1.0,), 0), ((0,),))


def test_two_tasks_are_learned_as_on_paper():
    """d = 2, k = 1, mu = 1, lam = 1/4. Break: the lasso shrinks by mu, or A is not divided by T."""
    known = nothing_known(np.array([[1.0], [0.0]]))
    known = learn_task(known, 1, np.array([2.0, 0.0]), np.eye(2), 1.0, 0.25, ANY)
    assert known.lessons[1].s == pytest.approx([1.5])  # (2 - 1/2) / 1
    assert known.L.ravel() == pytest.approx([1.2, 0.0])  # 1.5 * 2 / (1.5^2 + 1/4)
    known = learn_task(known, 2, np.array([1.0, 1.0]), np.diag([1.0, 3.0]), 1.0, 0.25, ANY)
    s = 35 / 72  # (1.2 - 1/2) / 1.2^2
    assert known.lessons[2].s == pytest.approx([s])
    first, second = (3 + s) / 2 / ((2.25 + s**2) / 2 + 0.25), 3 * s / 2 / ((2.25 + 3 * s**2) / 2 + 0.25)
    assert known.L.ravel() == pytest.approx([first, second])
    assert parameters(known, 2, 0.0) == pytest.approx(known.L[:, 0] * (first + 3 * second) / (first**2 + 3 * second**2))


def several_tasks(order: list[int], lam: float = 0.1):
    generator = np.random.default_rng(1)
    known = nothing_known(generator.standard_normal((3, 2)))
    for task in order:
        root = generator.standard_normal((3, 3))
        known = learn_task(known, task, generator.standard_normal(3), root @ root.T, 0.1, lam, generator)
    return known


def test_the_basis_is_the_minimum_for_the_codes_it_was_fitted_to():
    """Break: vec by rows (reshape(d, k))."""
    known = several_tasks([0, 1, 2])
    pull = sum(np.outer(part.gamma @ (part.alpha - known.L @ part.s), part.s) for part in known.lessons.values())
    assert pull / 3 == pytest.approx(0.1 * known.L)


def test_a_task_seen_again_takes_the_place_of_its_old_self():
    """Break: A and b keep the old contribution."""
    known = several_tasks([0, 1, 0, 2, 1])
    parts = list(known.lessons.values())
    assert len(parts) == 3
    assert known.A == pytest.approx(sum(np.kron(np.outer(p.s, p.s), p.gamma) for p in parts))
    assert known.b == pytest.approx(sum(np.kron(p.s, p.gamma @ p.alpha) for p in parts))


def test_learning_leaves_a_basis_of_zeros():
    """Break: columns that are 0 stay so."""
    known = nothing_known(np.zeros((2, 1)))
    for task in range(5):
        known = learn_task(known, task, np.array([1.0, 2.0]), np.eye(2), 0.1, 1e-3, np.random.default_rng(task))
    assert parameters(known, 4, 0.1) == pytest.approx([1, 2], abs=0.1)


def test_the_first_tasks_are_columns():
    """Break: s_t = e_0 for all."""
    known = nothing_known(np.zeros((3, 2)))
    for task, alpha in enumerate(np.array([[1.0, 2, 3], [4, 5, 6]])):
        known = learn_first_task(known, task, alpha, np.diag([1.0, 2, 3]), 0.0 if task else 1e-9)
    assert known.L == pytest.approx(np.array([[1.0, 4], [2, 5], [3, 6]]))


def test_lasso_is_optimal():
    """Break: mu in place of mu / 2, or one sweep."""
    generator = np.random.default_rng(2)
    for mu in (0.0, 1.0, 10.0, 100.0):
        X, y = generator.standard_normal((20, 6)), generator.standard_normal(20) * 3
        s = lasso(X, y, mu)
        slope = 2 * X.T @ (y - X @ s)
        assert abs(slope).max() <= mu + 1e-5
        assert slope[s != 0] == pytest.approx(mu * np.sign(s[s != 0]), abs=1e-5)
        assert (s == 0).any() == (mu >= 10)


def test_the_root_of_a_matrix_that_rounding_made_indefinite_is_real():
    """Break: the root of the eigenvalue as it is."""
    vectors = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    gamma = (vectors * [4.0, 1.0, -1e-9]) @ vectors.T
    root = square_root(gamma)
    assert np.isrealobj(root) and root == pytest.approx(root.T)
    assert root @ root == pytest.approx(gamma, abs=1e-8)


def test_regression_needs_fewer_samples():
    """One of the numbers of the full check. Break: codes without Gamma."""
    errors = np.mean([regression_errors(20, seed) for seed in range(100, 102)], axis=0)
    assert errors == pytest.approx(EXPECTED[20], rel=TOLERANCE)


def one_step(actions: list[int], rewards: list[float], counts: list[bool]) -> Transition:
    """An episode of one step in each lane."""
    lanes = np.zeros((1, len(actions)))
    return Transition(
        lanes[None], lanes[None], *np.array([[[-1] * len(actions)]] * 2), np.array([actions]), np.array([rewards]),
        lanes == 0, lanes == 1, lanes[None], counts=jnp.array([counts])
    )  # fmt: skip


def test_gradient_and_fisher_matrix_as_on_paper():
    """Two actions alike, one pays; the third episode is padding. Break: padding counts, or no baseline."""
    actor = SoftmaxActor(jnp.zeros((2, 1)), CONSTANT)
    steps = one_step([0, 1, 0], [1.0, 0.0, 9.0], [True, True, False])
    found, matrix = jax.jit(lambda: (ascent(actor, steps, 0.9), fisher(actor, steps)))()
    assert np.asarray(found).ravel() == pytest.approx([0.5, -0.5])
    assert np.asarray(matrix) == pytest.approx(np.array([[0.25, -0.25], [-0.25, 0.25]]))
    assert np.asarray(rewards_to_go(jnp.array([[1.0], [2.0], [4.0]]), 0.5)).ravel() == pytest.approx([3, 4, 4])


def test_the_family_has_the_given_task_and_its_mirror_image():
    """Break: only draws."""
    given, flipped = catalog.find("two-rooms"), catalog.find("flipped-two-rooms")
    members = family(given, 4)
    assert members[0] is given and members[1].descriptor == pytest.approx(flipped.descriptor)
    assert len({member.descriptor for member in members}) == 4
    assert len({member.descriptor for member in family(catalog.find("striker-r1"), 3)}) == 3


def test_every_step_of_the_family_counts():
    """Break: a counter for each member."""
    counter, tasks = StepCounter(1, 20_000), TaskSet((catalog.find("two-rooms"),), (1.0,))
    agents = PGELLA(num_episodes=5).learn(tasks, (7,), counter)
    assert len(agents.state.known[0].lessons) == 3 and len(agents.curves[0].returns) >= 10
    assert 18_000 < agents.steps_used[0] <= 20_000
    with contextlib.closing(counted_play(tasks, (7,), counter)) as play:
        assert np.isfinite(play.evaluate(agents.actors, EPISODES, 0).returns).all()


def test_a_new_task_begins_with_what_was_learned():
    """The check of the rooms in small. Break: a task begins with theta = 0, or `start` is not used."""
    assert (rooms_gains(3, 2, range(103, 104), 60_000) > 100).all()
