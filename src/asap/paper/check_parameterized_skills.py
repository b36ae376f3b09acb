"""Whether our parameterized skills do what theirs are for: find charts, and solve tasks that were never practised.

Two surfaces with a jump between them, where the truth is known; and the arm that throws darts, where policies are learned by PoWER.
"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from asap.base.arrays import compiled
from asap.base.keys import host_generator, root
from asap.base.stats import bootstrap_interval
from asap.paper.claims import Claim
from asap.rivals import dart_arm
from asap.rivals.charts import fit_skill
from asap.runs.loggers import Phase

PAPER = "da Silva, Konidaris, Barto (2012)"
JUMP, NEAR_JUMP = 0.5, 0.1
SAMPLES, NOISE, DIMENSIONS, TESTED = 40, 0.01, 5, 1000
NUM_TASKS = (5, 10, 20, 40)  # From which the arm learns; the third is the one of the claims.
AT = 2
NUM_TARGETS = 100  # On which it is tested.
SURFACES, TARGETS = 80, 81  # Streams of a seed.


class FoundSurfaces(NamedTuple):
    """Of one seed. Errors are those near the jump, of the charts and of one chart for all."""

    num_charts: int
    accuracy: float
    error: float
    error_of_one: float


class Misses(NamedTuple):
    """Median miss on new targets in metres, axes (seeds, numbers of tasks)."""

    zero_shot: Float[np.ndarray, "S N"]
    nearest: Float[np.ndarray, "S N"]
    mean: Float[np.ndarray, "S N"]
    num_charts: np.ndarray


def check(seeds: int, quick: bool, tell: Phase) -> list[Claim]:
    """`quick` leaves the tolerances as they are, and takes few seeds."""
    count = min(seeds, 4) if quick else seeds
    tell("two surfaces")
    claims = surface_claims([found_surfaces(seed) for seed in range(count)])
    tell("the arm that throws darts")
    return claims + arm_claims(misses(range(count)))


def surfaces(tau: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n P"]:
    """theta(tau): smooth on either side of the jump."""
    number = np.arange(DIMENSIONS)
    below = np.sin(3 * tau[:, None] + number) + 0.5 * number * tau[:, None]
    above = 3 + np.cos(2 * tau[:, None] - number) + 0.3 * number * tau[:, None] ** 2
    return np.where(tau[:, None] > JUMP, above, below)


def found_surfaces(seed: int) -> FoundSurfaces:
    """Errors between the two samples on either side of the jump are left out: no data say where in between it is."""
    generator = host_generator(seed, SURFACES)
    tau, tested = generator.uniform(size=SAMPLES), generator.uniform(size=TESTED)
    theta = surfaces(tau) + NOISE * generator.standard_normal((SAMPLES, DIMENSIONS))
    skill, one = fit_skill(tau[:, None], theta), fit_skill(tau[:, None], theta, gap=np.inf)
    # Charts have numbers, not names: each stands for the side on which most of its samples are.
    sides = np.array([np.mean(tau[skill.labels == d] > JUMP) > 0.5 for d in range(skill.num_charts)])
    accuracy = np.mean(sides[skill.charts(tested[:, None])] == (tested > JUMP))
    is_known = (tested < tau[tau <= JUMP].max()) | (tested > tau[tau > JUMP].min())
    near = tested[is_known & (abs(tested - JUMP) < NEAR_JUMP)]
    errors = [np.sqrt(np.mean((each(near[:, None]) - surfaces(near)) ** 2)) for each in (skill, one)]
    return FoundSurfaces(skill.num_charts, float(accuracy), float(errors[0]), float(errors[1]))


def surface_claims(found: list[FoundSurfaces]) -> list[Claim]:
    charts, accuracies, errors, errors_of_one = map(np.asarray, zip(*found))
    better = errors_of_one / errors
    told = ", ".join(f"{np.sum(charts == d)} of {len(charts)} seeds: {d}" for d in np.unique(charts))
    return [
        Claim("two surfaces are two charts", PAPER, told, None, bool(np.median(charts) == 2)),
        _claim("the classifier finds the side of the jump (> 0.95)", accuracies, np.median(accuracies) > 0.95),
        _claim("errors at the jump, one surface against charts (> 10)", better, np.median(better) > 10),
    ]


def misses(seeds: range, num_tasks: tuple[int, ...] = NUM_TASKS) -> Misses:
    """For each seed and number of tasks: Theta, the policy of the nearest task, and the mean policy."""
    keys = jax.tree.map(lambda *words: np.stack(words), *map(root, seeds))
    drawn = [host_generator(seed, TARGETS).uniform(size=max(num_tasks) + NUM_TARGETS) for seed in seeds]
    every = np.stack([np.float32(dart_arm.target(uniform)) for uniform in drawn])
    tau, tested = every[:, : max(num_tasks)], every[:, max(num_tasks) :]
    throws = jax.tree.map(np.asarray, compiled(jax.vmap(dart_arm.learn_throws))(keys, tau))
    median = compiled(lambda theta, tau: jax.numpy.median(jax.vmap(dart_arm.miss)(theta, tau)))
    rows = []
    for s in range(len(seeds)):
        for count in num_tasks:
            solved = throws.solved[s, :count]
            known = np.flatnonzero(solved | ~solved.any())  # Where none is hit, all that there is.
            theta = throws.theta[s, known]
            skill = fit_skill(tau[s, known], theta)
            nearest = ((tested[s][:, None] - tau[s, known]) ** 2).sum(-1).argmin(1)
            tried = skill(tested[s]), theta[nearest], np.tile(theta.mean(0), (NUM_TARGETS, 1))
            rows.append([*(float(median(np.float32(each), tested[s])) for each in tried), skill.num_charts])
    return Misses(*np.moveaxis(np.reshape(rows, (len(seeds), len(num_tasks), 4)), -1, 0))


def arm_claims(found: Misses) -> list[Claim]:
    medians, limit = np.median(found.zero_shot, 0), 0.1 * dart_arm.WIDTH
    falls = f"{', '.join(f'{miss:.3f} m' for miss in medians)} after {', '.join(map(str, NUM_TASKS))} tasks"
    zero_shot, nearest, mean = found.zero_shot[:, AT], found.nearest[:, AT], found.mean[:, AT]
    charts = f"charts at {NUM_TASKS[AT]} tasks: {', '.join(f'{count:.0f}' for count in found.num_charts[:, AT])}"
    return [
        Claim("the median miss falls with the number of tasks", PAPER, falls, None, bool((np.diff(medians) < 0).all())),
        _claim(f"miss after 20 tasks in metres (< {limit:.1f})", zero_shot, np.median(zero_shot) < limit, charts),
        _beats("the nearest task's policy misses by more, times (> 1)", nearest / zero_shot),
        _beats("the mean policy misses by more, times (> 1)", mean / zero_shot),
    ]


def _claim(words: str, values: np.ndarray, passed: bool | np.bool_, note: str = "") -> Claim:
    return Claim(words, PAPER, f"{np.median(values):.3f}", _interval(values), bool(passed), note, len(values))


def _beats(words: str, ratios: np.ndarray) -> Claim:
    return _claim(words, ratios, _interval(ratios)[0] > 1)


def _interval(values: np.ndarray) -> tuple[float, float]:
    low, high = bootstrap_interval(values, statistic=np.median)
    return float(low), float(high)
