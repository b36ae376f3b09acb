"""Whether our ELLA and PG-ELLA do what they are for: learn a task from less, because others were learned before.

Regression: 60 tasks of 13 numbers that are sums of 3 of 4 hidden columns, noise .5, learned one after the other from
n samples each. Expected are the relative errors of the parameters that a separate quick implementation gave, alone
and with ELLA, within 25 %; and ELLA below alone everywhere.

Rooms: PG-ELLA learns 10 variants of two rooms, then 20 more with a tenth of the policy gradient steps. What L s_t
returns then is compared with what as many steps from nothing return: it is to be better in 80 % of them.
"""

import contextlib
import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from asap.base.keys import host_generator
from asap.base.spec import Task, TaskSet
from asap.envs import catalog
from asap.experience.choose import counted_play
from asap.experience.counted_play import StepCounter
from asap.experience.rollout import Actor
from asap.paper.claims import Claim
from asap.rivals.ella import learn_first_task, learn_task, nothing_known, parameters, regression
from asap.rivals.families import with_doors
from asap.rivals.features import FourierBasis
from asap.rivals.pg_ella import PGELLA, PerTaskActor, alone, per_task
from asap.runs.loggers import Phase

# Samples per task: relative error alone, and with ELLA.
EXPECTED = {8: (0.67, 0.48), 12: (0.45, 0.21), 20: (0.20, 0.09), 50: (0.068, 0.042)}
TOLERANCE = 0.25  # Relative.
NUM_TASKS, NUM_NUMBERS, NUM_COLUMNS, NUM_USED, NOISE = 60, 13, 4, 3, 0.5
RIDGE = 1.0  # On the sum of squares.
MU, LAM = 1e-3, 1e-5

LEARNED, HELD_OUT, SHARE = 10, 20, 0.8  # Variants of the rooms, and of how many PG-ELLA must be better.
STEPS_PER_TASK = 100_000
DOORS = (0.6, 0.9)
EPISODES = 100


class Errors(NamedTuple):
    """Relative errors of the parameters, mean over tasks."""

    alone: float
    shared: float


def check(seeds: int, quick: bool, tell: Phase) -> list[Claim]:
    """`quick`: regression with one number of samples, and five variants of the rooms."""
    sizes = (20,) if quick else tuple(EXPECTED)
    tell("regression")
    claims = [regression_claim(n, seeds) for n in sizes]
    tell("rooms")
    return [*claims, rooms_claim(seeds, quick)]


def regression_claim(num_samples: int, seeds: int) -> Claim:
    errors = np.array([regression_errors(num_samples, seed) for seed in range(seeds)]).mean(0)
    expected = np.array(EXPECTED[num_samples])
    near, better = abs(errors / expected - 1).max() <= TOLERANCE, errors[1] < errors[0]
    words = f"ELLA, regression with {num_samples} samples: error of the parameters alone -> shared"
    said, note = "{:.3f} -> {:.3f} (another implementation of ours)".format(*expected), ""
    if num_samples < NUM_NUMBERS:
        bare = np.mean([regression_errors(num_samples, seed, ridge_in_gamma=False).shared for seed in range(seeds)])
        note = (
            f"the tolerance is 25 %, up and down. {num_samples} samples say nothing about {NUM_NUMBERS - num_samples} of the {NUM_NUMBERS} "
            "directions. Here Gamma has the ridge of the loss, so that L is still held near alpha there. With the data alone in Gamma, the "
            f"shared error is {bare:.3f}. Which of the two the expected number had is not known"
        )
    return Claim(words, said, "{:.3f} -> {:.3f}".format(*errors), None, bool(near and better), note, seeds)


def regression_errors(num_samples: int, seed: int, num_tasks: int = NUM_TASKS, ridge_in_gamma: bool = True) -> Errors:
    generator = host_generator(seed, num_samples)
    hidden = generator.standard_normal((NUM_NUMBERS, NUM_COLUMNS))
    known = nothing_known(np.zeros(hidden.shape))
    truths, single = [], []
    for task in range(num_tasks):
        used = generator.permutation(NUM_COLUMNS)[:NUM_USED]
        truths.append(hidden[:, used] @ generator.standard_normal(NUM_USED))
        X = generator.standard_normal((num_samples, NUM_NUMBERS))
        y = X @ truths[-1] + NOISE * generator.standard_normal(num_samples)
        alpha, gamma = regression(X, y, RIDGE / num_samples)
        single.append(alpha)
        if not ridge_in_gamma:
            gamma = X.T @ X / num_samples
        # From a drawn L it ends in a worse basis for one of ten seeds: the first task leaves columns that are all alike.
        if task < NUM_COLUMNS:
            known = learn_first_task(known, task, alpha, gamma, LAM)
        else:
            known = learn_task(known, task, alpha, gamma, MU, LAM, generator)
    shared = [parameters(known, task, MU) for task in range(num_tasks)]
    return Errors(_relative(single, truths), _relative(shared, truths))


def _relative(found: list[Float[np.ndarray, "d"]], truths: list[Float[np.ndarray, "d"]]) -> float:
    return float(np.mean([np.linalg.norm(f - t) / np.linalg.norm(t) for f, t in zip(found, truths)]))


def rooms_claim(seeds: int, quick: bool) -> Claim:
    learned, held_out = (3, 2) if quick else (LEARNED, HELD_OUT)
    gain = rooms_gains(learned, held_out, range(min(seeds, 3)))
    share = float((gain > 0).mean())
    ours = f"{share:.2f} of {gain.size}, by {np.median(gain):.0f} in the median"
    words = "PG-ELLA, rooms not seen before: L s_t after a tenth of the steps is better than learning alone"
    return Claim(words, f"at least {SHARE}", ours, None, share >= SHARE, seeds=min(seeds, 3))


def rooms_gains(
    learned: int, held_out: int, seeds: range, steps_per_task: int = STEPS_PER_TASK
) -> Float[np.ndarray, "tasks seeds"]:
    """Mean return of L s_t minus that of a policy that as many steps made from nothing, on tasks held out."""
    variants = rooms_variants(learned + held_out)
    system = PGELLA(num_columns=min(3, learned), num_episodes=5)
    family = TaskSet(variants[:learned], (1.0,) * learned)
    known = system.learn(family, tuple(seeds), StepCounter(len(seeds), steps_per_task * learned)).state
    gains = []
    for task in variants[learned:]:
        taught = system.learn(alone(task), tuple(seeds), StepCounter(len(seeds), steps_per_task // 10), known).actors
        untaught = learned_alone(system, known.basis, task, tuple(seeds), steps_per_task // 10)
        gains.append(returns_of(task, taught, tuple(seeds)) - returns_of(task, untaught, tuple(seeds)))
    return np.stack(gains)


def rooms_variants(count: int) -> tuple[Task, ...]:
    """Two rooms with the door at another height."""
    task = catalog.find("two-rooms")
    heights = host_generator(0, count).uniform(*DOORS, (count, 1))
    return tuple(dataclasses.replace(task, task=with_doors(task.task, height)) for height in heights)


def learned_alone(system: PGELLA, basis: FourierBasis, task: Task, seeds: tuple[int, ...], steps: int) -> PerTaskActor:
    """What so many steps make from theta = 0."""
    nothing = np.zeros((len(seeds), task.spec.num_actions, basis.size))
    with contextlib.closing(counted_play(alone(task), seeds, StepCounter(len(seeds), steps))) as play:
        found = system.gradient(basis, task.spec).improve(play, nothing, task.spec.horizon, steps)
    return per_task(found.theta[:, None], alone(task), basis)


def returns_of(task: Task, actors: Actor, seeds: tuple[int, ...]) -> Float[np.ndarray, "seeds"]:
    with contextlib.closing(counted_play(alone(task), seeds, StepCounter(len(seeds), 0))) as play:
        return np.asarray(play.evaluate(actors, EPISODES, 0).returns).reshape(len(seeds), -1).mean(-1)
