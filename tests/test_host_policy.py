"""The policy on the host is that of the learner on every task, with and without planes, and threads may share it."""

import copy
import itertools
import subprocess
import sys
import threading

import jax.numpy as jnp
import numpy as np
import pytest

from asap.policy.build import plan_of
from asap.policy.features import Basis, Features, Fourier, Network, Polynomial
from asap.policy.host import NO_SKILL, Player
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.skills import GaussianSkills, GibbsSkills

SIZE, ACTIONS, NUM_TASKS = 3, 2, 2
INPUTS = (2, 0)  # Not all, and not in order.
DESCRIPTORS = np.float32([[1.0, -0.5], [-2.0, 0.25]])
NONE = np.zeros((NUM_TASKS, 0), np.float32)


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


BASES = {
    "constant": Polynomial(0),
    "linear": Polynomial(1),
    "polynomial": Polynomial(3),
    "fourier": Fourier(drawn(4, 2), True),
    "fourier without bias": Fourier(drawn(4, 2), False),
    "network": Network.drawn((2, 5, 4), np.random.default_rng(1)),
}
XS = 1 + 2 * drawn(20, SIZE)


def new_policy(
    psi: Basis, phi: Basis, modes: tuple[str, str], gaussian: bool, planes: int = 2, size: int = 2, termination=None
) -> ASAPPolicy:
    maps = [Features(basis, drawn(2), 0.5 + drawn(2) ** 2, INPUTS, mode) for basis, mode in zip((psi, phi), modes)]
    num_psi, num_phi = (1 if each.constant else each.size(size) for each in maps)
    theta = drawn(2**planes, ACTIONS, num_phi)
    skills = GaussianSkills(theta, drawn(2**planes, ACTIONS)) if gaussian else GibbsSkills(theta, np.float32(1.5))
    return ASAPPolicy(Partition(drawn(planes, num_psi, seed=1), np.float32(2.0)), skills, *maps, termination)


def skill_probs(margins: np.ndarray) -> np.ndarray:
    """Eqs. 1-2 of the paper, skill by skill."""
    sides = 1 / (1 + np.exp(-margins))
    skills = range(2 ** len(margins))
    return np.float64([np.prod([p if s >> k & 1 else 1 - p for k, p in enumerate(sides)]) for s in skills])


def softmax(logits: np.ndarray) -> np.ndarray:
    return np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()


MODES = [("none", "none"), ("additive", "none"), ("interactions", "none"), ("additive", "interactions")]
MODES += [("interactions", "additive"), ("none", "interactions")]
KINDS = [
    pytest.param(
        psi, phi, modes, gaussian, id=f"{psi}, {phi}, {'/'.join(modes)}, {'gaussian' if gaussian else 'gibbs'}"
    )
    for (psi, phi), modes, gaussian in itertools.product(
        [
            ("linear", "constant"),
            ("linear", "linear"),
            ("polynomial", "linear"),
            ("fourier", "constant"),
            ("fourier without bias", "linear"),
            ("network", "polynomial"),
            ("linear", "network"),
            ("network", "network"),
        ],
        MODES,
        (False, True),
    )
]


@pytest.mark.parametrize("psi, phi, modes, gaussian", KINDS)
def test_probabilities_and_likeliest_choices_are_those_of_the_learner(psi, phi, modes, gaussian):
    policy = new_policy(BASES[psi], BASES[phi], modes, gaussian)
    player = Player(plan_of(policy, SIZE, DESCRIPTORS))
    for task, m in enumerate(DESCRIPTORS):
        on_task = player.policy_of(task)
        batch = jnp.broadcast_to(m[:, None], (2, len(XS)))
        expected = np.exp(policy.skill_log_probs(XS.T, batch)).T
        np.testing.assert_allclose([skill_probs(on_task.margins(x)) for x in XS], expected, atol=1e-5)
        phis = [policy.phi(x, m) for x in XS]
        if gaussian:
            of_skills = np.stack([policy.skills.means(phi) for phi in phis])
            found = [[scores(x) for scores in on_task.scores] for x in XS]
            np.testing.assert_allclose(found, of_skills, rtol=1e-5, atol=1e-5)
        else:
            of_skills = np.exp([policy.skills.log_probs(phi) for phi in phis])
            found = [[softmax(scores(x)) for scores in on_task.scores] for x in XS]
            np.testing.assert_allclose(found, of_skills, atol=1e-5)
        for n, x in enumerate(XS):
            skill, action = player.act(x, task=task)
            assert skill == expected[n].argmax()
            best = of_skills[n, skill]
            assert np.allclose(action, best, rtol=1e-5, atol=1e-5) if gaussian else action == best.argmax()


@pytest.mark.parametrize("mode", ["additive", "interactions"])
def test_episodes_are_played_with_the_descriptor_of_their_task(mode):
    policy = new_policy(BASES["linear"], BASES["linear"], (mode, mode), False)
    player = Player(plan_of(policy, SIZE, DESCRIPTORS))
    chosen = []
    for task, m in enumerate(DESCRIPTORS):
        player.begin(np.random.default_rng(0), deterministic=True, task=task)
        chosen.append([player.choose(x)[0] for x in XS])
        assert chosen[task] == [int(policy.skill_log_probs(x, m).argmax()) for x in XS]
    assert chosen[0] != chosen[1]


@pytest.mark.parametrize("mode", ["none", "additive", "interactions"])
def test_without_a_descriptor_every_task_is_the_same(mode):
    policy = new_policy(BASES["polynomial"], BASES["linear"], (mode, "none"), False, size=0)
    plain = new_policy(BASES["polynomial"], BASES["linear"], ("none", "none"), False, size=0)
    player, one = Player(plan_of(policy, SIZE, NONE)), Player(plan_of(plain, SIZE))
    for x in XS:
        margins = [each.margins(x) for each in (player.policy_of(0), player.policy_of(1), one.policy_of(0))]
        assert np.array_equal(margins[0], margins[2]) and np.array_equal(margins[1], margins[2])


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("termination", [None, 0.3])
def test_what_is_drawn_has_the_probabilities_of_the_learner(gaussian, termination):
    policy = new_policy(BASES["linear"], BASES["linear"], ("interactions",) * 2, gaussian, termination=termination)
    player, generator, count = Player(plan_of(policy, SIZE, DESCRIPTORS)), np.random.default_rng(0), 4000
    x, task = np.float32([0.3, -1.0, 0.4]), 1
    previous = int(policy.skill_log_probs(x, DESCRIPTORS[task]).argmax())  # So that it is kept now and then.
    chosen = [player.act(x, previous, False, generator, task) for _ in range(count)]
    expected = np.exp(policy.skill_log_probs(x, DESCRIPTORS[task], previous))
    found = np.bincount([skill for skill, _ in chosen], minlength=policy.num_skills) / count
    np.testing.assert_allclose(found, expected, atol=0.03)
    phi, skill = policy.phi(x, DESCRIPTORS[task]), int(found.argmax())
    actions = np.stack([action for s, action in chosen if s == skill])
    if gaussian:
        np.testing.assert_allclose(actions.mean(0), policy.skills.means(phi)[skill], atol=0.1)
        np.testing.assert_allclose(actions.std(0), np.exp(policy.skills.log_std[skill]), rtol=0.1)
    else:
        shares = np.bincount(actions, minlength=ACTIONS) / len(actions)
        np.testing.assert_allclose(shares, np.exp(policy.skills.log_probs(phi)[skill]), atol=0.05)


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("mode", ["none", "additive", "interactions"])
@pytest.mark.parametrize("psi, termination", [("linear", None), ("network", 0.3), ("constant", None)])
def test_without_planes_there_is_one_skill_everywhere(gaussian, mode, psi, termination):
    policy = new_policy(BASES[psi], BASES["linear"], (mode, mode), gaussian, planes=0, termination=termination)
    player, generator = Player(plan_of(policy, SIZE, DESCRIPTORS)), np.random.default_rng(0)
    for task, previous in itertools.product(range(NUM_TASKS), (NO_SKILL, 0)):
        phi = policy.phi(XS[0], DESCRIPTORS[task])
        expected = (policy.skills.means if gaussian else policy.skills.log_probs)(phi)[0]
        skill, action = player.act(XS[0], previous, task=task)
        assert skill == 0
        assert np.allclose(action, expected, atol=1e-5) if gaussian else action == int(expected.argmax())
        chosen = [player.act(XS[0], previous, False, generator, task) for _ in range(2000)]
        assert {skill for skill, _ in chosen} == {0}
        mean = np.mean([action for _, action in chosen], 0)
        wanted = expected if gaussian else np.exp(expected[1])
        np.testing.assert_allclose(mean, wanted, atol=0.25 if gaussian else 0.05)
        player.begin(generator, False, task)
        assert {player.choose(x)[0] for x in XS} == {0}


def test_threads_that_share_a_player_get_what_they_ask_for():
    """One asks for likeliest choices and three draw, all with other previous skills and tasks."""
    policy = new_policy(BASES["linear"], BASES["constant"], ("interactions", "none"), False, termination=0.05)
    plan, generator = plan_of(policy, SIZE, DESCRIPTORS), np.random.default_rng(0)
    asked = list(itertools.product(XS, (NO_SKILL, 0, 1, 2, 3), range(NUM_TASKS)))
    expected = [Player(plan).act(x, previous, task=task) for x, previous, task in asked]
    player, drawn_by, is_over = Player(plan), [[], [], []], threading.Event()

    def draw(number: int) -> None:
        while not is_over.is_set():
            drawn_by[number].append(player.act(XS[0], number, False, generator, number % NUM_TASKS)[0])

    threads = [threading.Thread(target=draw, args=(number,)) for number in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        found = [[player.act(x, previous, task=task) for x, previous, task in asked] for _ in range(40)]
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert all(each == expected for each in found)
    for number, skills in enumerate(drawn_by):
        shares = np.bincount(skills, minlength=4) / len(skills)
        wanted = np.exp(policy.skill_log_probs(XS[0], DESCRIPTORS[number % NUM_TASKS], number))
        np.testing.assert_allclose(shares, wanted, atol=4 / np.sqrt(len(skills)))


def test_choices_by_themselves_leave_an_episode_alone():
    policy = new_policy(BASES["linear"], BASES["linear"], ("none", "none"), False, size=0, termination=0.1)
    player, other = Player(plan_of(policy, SIZE)), np.random.default_rng(5)

    def episode(disturbed: bool) -> list:
        player.begin(np.random.default_rng(1), False)
        chosen = []
        for x in np.tile(XS, (10, 1)):
            chosen.append(player.choose(x))
            if disturbed:
                player.act(-x, 3), player.act(-x, 2, False, other)
        return chosen

    assert episode(True) == episode(False)


def test_deterministic_play_takes_the_likeliest_skill_first():
    """Skills of 0.55 and 0.45 choose by (0.6, 0.4) and (0.1, 0.9): the first skill's first action, where the second is
    the likelier one of the whole policy, by 0.55 * 0.4 + 0.45 * 0.9 = 0.625."""
    constant = Features.of(Polynomial(0), (0,))
    planes = Partition(np.float32([[np.log(0.45 / 0.55)]]), np.float32(1))
    chances = np.float32([[[0.6], [0.4]], [[0.1], [0.9]]])
    policy = ASAPPolicy(planes, GibbsSkills(np.log(chances), np.float32(1)), constant, constant, None)
    x, m = np.zeros(1, np.float32), np.zeros(0, np.float32)
    np.testing.assert_allclose(np.exp(policy.action_log_probs(x, m)), [0.375, 0.625], rtol=1e-5)
    assert tuple(map(int, policy.likeliest(x, m, NO_SKILL))) == (0, 0)
    assert Player(plan_of(policy, 1)).act(x) == (0, 0)


def test_a_player_can_be_copied():
    policy = new_policy(BASES["linear"], BASES["linear"], ("none", "none"), False, size=0)
    player = Player(plan_of(policy, SIZE))
    assert copy.deepcopy(player).act(XS[0]) == player.act(XS[0])


def test_it_needs_no_jax():
    code = "import sys, asap.policy.host; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


@pytest.mark.parametrize(("chance", "kept"), [(0.55, True), (0.6, True), (0.65, False), (0.9, False)])
def test_the_likeliest_skill_of_a_policy_that_commits_is_the_same_on_the_host(chance, kept):
    """The other skill has this chance p anew. With termination 1/2 the one in force is kept, s = (1 - p) / 2 of the
    time: it has s + (1 - s) (1 - p) in all, and the other (1 - s) p: 0.52 to 0.48 at 0.6, 0.46 to 0.54 at 0.65."""
    beta = np.float32([[np.log(chance / (1 - chance)), 0, 0]])
    maps = [Features.of(Polynomial(degree), (0, 1)) for degree in (1, 0)]
    skills = GibbsSkills(np.zeros((2, ACTIONS, 1), np.float32), np.float32(1))
    policy = ASAPPolicy(Partition(beta, np.float32(1)), skills, *maps, 0.5)
    x = np.zeros(2, np.float32)
    assert Player(plan_of(policy, 2)).act(x, previous=0)[0] == (0 if kept else 1)
    assert policy.likeliest(x, np.zeros(0, np.float32), jnp.int32(0))[0] == (0 if kept else 1)
