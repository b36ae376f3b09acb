"""What is marked [keep] in given rules, or frozen, is after training what it was, for every learner; all else has learned."""

import dataclasses

import numpy as np
import pytest

from asap import ASAP
from asap.policy.policy import Kept
from asap.policy.score import parameters_of
from asap.policy.surgery import drop_plane, grow, merge_sides, merge_skills, unshared

LEARNERS = ("reinforce", "actor-critic", "natural", "ppo")
SMALL = ["learn.batch_episodes=2", "learn.lanes=4", "run.chunk=2", "run.eval_episodes=2", "run.final_episodes=2"]
# Averages, entropy and softening reach parameters by other ways than the gradient of the return.
SETTINGS = [*SMALL, "learn.averaging=0.5", "learn.entropy=0.1", "learn.softening=0.1", "run.try_images=false"]

CARTPOLE = """
if pole angle + 0.2*pole angular velocity > 0.013 within 0.07 [keep] then push right (83 %) [keep]
if cart position > 0.3 within 0.5 then push left (62 %)
otherwise push left (88 %)
"""
ROOMS = """
if x > 0.45 m within 0.2 m [keep] then down (70 %), right (20 %)
if y > 0.71 m within 0.1 m then right (80 %) [keep]
otherwise up (60 %)
"""
PENDULUM = """
if cos angle > 0.81 within 0.3 [keep] then torque = -2.5*sin angle - 0.4*angular velocity (+- 0.7) [keep]
if angular velocity > 0.2 within 2 then torque = 1.5 (+- 0.9)
otherwise torque = -1.5 + 0.1*angular velocity (+- 0.9)
"""


def trained(env: str, rules: str, learner: str, settings=SETTINGS, **how) -> tuple[ASAP, ASAP]:
    """The rules, and what a few updates made of them."""
    given = ASAP(env, rules=rules, learner=learner, seed=3, settings=settings, **how)
    model = ASAP(env, rules=rules, learner=learner, seed=3, settings=settings, **how)
    model.learn(episodes=40) if env == "two-rooms" else model.learn(2400)
    assert min(model.result.updates) >= 2
    return given, model


def book_of(model: ASAP):
    """The rules of a policy with all digits, in the environment's units."""
    from asap.policy.rules.from_policy import Sample, read_policy, sample_states
    from asap.policy.rules.rulebook import Vocabulary

    task, policy = model.tasks.tasks[0], model.policy
    sample = Sample.of({task.descriptor: sample_states(policy, task)})
    return read_policy(policy, Vocabulary.of(task.spec, len(task.descriptor)), sample, None).book


def numbers_of(part) -> dict:
    """All numbers of a test or a skill by what they belong to."""
    if hasattr(part, "value"):
        return {"within": part.within, **dict(part.value.items)}
    if hasattr(part, "shares"):
        return dict(enumerate(part.probabilities(4)))
    if hasattr(part, "test"):
        return {"action": part.action, **numbers_of(part.test)}
    sums = part.means if hasattr(part, "means") else part.sums
    numbers = {(a, term): c for a, value in enumerate(sums) for term, c in value.items}
    return {**numbers, **dict(enumerate(getattr(part, "deviations", ())))}


def distance(before, after) -> float:
    first, second = numbers_of(before), numbers_of(after)
    return max(abs(first.get(name, 0.0) - second.get(name, 0.0)) for name in {*first, *second})


def require_kept(given: ASAP, model: ASAP, planes: tuple[int, ...], skills: tuple[int, ...]) -> None:
    """These are as the text says, to the digits that a number of 32 bits has; the others are not."""
    before, after = book_of(given), book_of(model)
    assert len(before.tests) == len(after.tests) and len(before.skills) == len(after.skills)
    for parts, kept in (((before.tests, after.tests), planes), ((before.skills, after.skills), skills)):
        for index, (old, new) in enumerate(zip(*parts)):
            assert new.keep == (index in kept), (index, new)
            assert (distance(old, new) < 1e-6) == (index in kept), (index, distance(old, new), old, new)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("env", ["CartPole-v1", "two-rooms", "Pendulum-v1"])
def test_what_is_kept_stays_and_the_rest_learns(env, learner):
    rules = {"CartPole-v1": CARTPOLE, "two-rooms": ROOMS, "Pendulum-v1": PENDULUM}[env]
    given, model = trained(env, rules, learner)
    require_kept(given, model, (0,), (1,) if env == "two-rooms" else (0,))
    assert model.rules().count("[keep]") == given.rules().count("[keep]") == 2


@pytest.mark.parametrize(("env", "learner", "finish"), [("CartPole-v1", "ars", 0.0), ("Pendulum-v1", "ppo", 0.4)])
def test_a_search_leaves_what_is_kept(env, learner, finish):
    """Far from the rules, so that not all trials return the same."""
    rules = {"CartPole-v1": CARTPOLE, "Pendulum-v1": PENDULUM}[env]
    settings = [*SETTINGS, "learn.perturbation=0.7", f"run.finish={finish}", "learn.directions=2"]
    require_kept(*trained(env, rules, learner, settings), (0,), (0,))


LINEAR = """
if cart position > 0.1 within 0.3 then push right if pole angle + 0.3*pole angular velocity > 0 within 0.2, else push left [keep]
otherwise push right if pole angle > 0.02 within 0.1, else push left
"""
SCORES = """
if velocity > 0.001 within 0.01 [keep] then the largest of [keep]
  accelerate left: -20*velocity
  do not accelerate: 0.2
  accelerate right: 30*velocity - 0.5*position
otherwise accelerate left (60 %)
"""
SQUARES = """
if pole angle^2 + 0.1*cart position*pole angle > 0.002 within 0.004 [keep] then push right (70 %)
otherwise push left (60 %) [keep]
"""


def test_linear_skills_are_kept():
    given, model = trained("CartPole-v1", LINEAR, "natural")
    require_kept(given, model, (), (0,))


def test_scores_are_kept():
    given, model = trained("MountainCar-v0", SCORES, "ppo")
    before, after = book_of(given).skills[0].sums, book_of(model).skills[0].sums
    # Only differences of scores matter: a skill may not change by what all of them have in common.
    for a in (1, 2):
        pair = [scores[a].plus(scores[0], -1.0) for scores in (before, after)]
        assert max(abs(c) for _, c in pair[0].plus(pair[1], -1.0).items) < 1e-5
    assert book_of(model).skills[0].keep and book_of(model).tests[0].keep


def test_products_on_a_learned_scaling_are_kept():
    given, model = trained("CartPole-v1", SQUARES, "actor-critic", features="poly2")
    require_kept(given, model, (0,), given.policy.kept.skills)
    assert np.ptp(model.policy.psi.scale) > 0


def test_text_that_keeps_all_learns_nothing():
    rules = "if pole angle > 0.01 within 0.1 [keep] then push right (80 %) [keep]\notherwise push left (90 %) [keep]"
    given, model = trained("CartPole-v1", rules, "ppo")
    assert model.rules(digits=6) == given.rules(digits=6)


@pytest.mark.parametrize("freeze", ["skills", "partition"])
@pytest.mark.parametrize("env", ["CartPole-v1", "two-rooms"])
def test_what_is_frozen_stays(env, freeze):
    """As it was given: neither softened before learning nor turned round."""
    rules = (CARTPOLE if env == "CartPole-v1" else ROOMS).replace(" [keep]", "")
    settings = {**dict(text.split("=") for text in SMALL), "policy.keep": freeze}
    settings = {key: value if key == "policy.keep" else int(value) for key, value in settings.items()}
    given, model = trained(env, rules, "actor-critic", settings)
    require_kept(given, model, (0, 1) if freeze == "partition" else (), (0, 1, 2) if freeze == "skills" else ())
    assert model.rules().count("[keep]") == (2 if freeze == "partition" else 3)


def test_sharp_rules_that_are_frozen_stay_sharp():
    rules = "if pole angle + 0.2*pole angular velocity > 0 then push right\notherwise push left\n"
    settings = [*SMALL, "policy.keep=partition"]
    given, model = trained("CartPole-v1", rules, "ppo", settings)
    before, after = book_of(given).tests[0], book_of(model).tests[0]
    assert before.within is None and after.within is None  # As sharp as a test without `within`.


def test_frozen_parts_of_another_run_are_those_of_that_run(tmp_path):
    """Not those of the rules that it was learned from."""
    from asap.model.source import transfer_settings

    rules = ROOMS.replace(" [keep]", "")
    source = ASAP("two-rooms", rules=rules, seed=3, settings=SMALL)
    source.learn(episodes=40, run=tmp_path / "run")
    config, tasks = transfer_settings(str(tmp_path / "run"), ["flipped-two-rooms"], {}, "partition", False, {})
    config = dataclasses.replace(config, learn=dataclasses.replace(config.learn, lanes=4))
    model = ASAP.of(config, tasks)
    model.learn(episodes=40)
    assert min(model.result.updates) >= 2
    learned, moved = book_of(source), book_of(model)
    for before, after in zip(learned.tests, moved.tests):
        assert distance(before, after) < 1e-6
    assert distance(book_of(ASAP("two-rooms", rules=rules, seed=3)).tests[0], moved.tests[0]) > 1e-3
    assert distance(learned.skills[0], moved.skills[0]) > 1e-6


def test_surgery_carries_the_marks(new_policy):
    policy = dataclasses.replace(new_policy(2, region_skills=(0, 1, 2, 1)), kept=Kept((1,), (2,)))
    grown = grow(policy, np.zeros(3, np.float32))
    assert grown.kept == Kept((1,), (2, 5))
    assert drop_plane(grown, 2, 0).kept == policy.kept and drop_plane(grown, 2, 1).kept == policy.kept
    assert drop_plane(policy, 0, 0).kept == Kept((0,), (1,))  # Skills 0 and 2 are left, and plane 1 is plane 0 now.
    assert drop_plane(policy, 1, 0).kept == Kept((), ())
    assert unshared(policy).kept == Kept((1,), (2,))
    usage = np.ones(3, np.float32)
    assert merge_skills(policy, [0, 1], usage).kept == Kept((1,), (1,))
    assert merge_skills(policy, [0, 2], usage).kept == Kept((1,), ())  # A mixture is no longer what was kept.
    assert merge_sides(policy, 0, usage).kept.planes == (0,)


def test_no_step_moves_what_is_kept(new_policy):
    """Whatever the gradient is."""
    from asap.policy.score import without_kept

    policy = dataclasses.replace(new_policy(2), kept=Kept((0,), (1, 3)))
    masked = without_kept(policy, parameters_of(policy))
    assert not masked.beta[0].any() and np.array_equal(masked.beta[1], policy.partition.beta[1])
    assert [bool(np.any(row)) for row in masked.theta] == [True, False, True, False]
