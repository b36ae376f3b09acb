"""Figure 2 f, g, j: what ASAP learns on R1, against a goalkeeper."""

import numpy as np

from asap.base import stats
from asap.paper.claims import Claim, Film, Finding, Picture, difference, interval
from asap.paper.laboratory import Laboratory
from asap.paper.strikers import CONTROLLER, distances_to_goal, learned, linear, shooting_places
from asap.show.figures.backgrounds import PITCH
from asap.show.figures.curves import compare_curves
from asap.show.figures.film import save_game
from asap.show.figures.policy_map import partition_gallery, policy_map

NEAR, FAR = 8.0, 20.0  # Metres: within NEAR all may be asked to shoot, beyond FAR to dribble.
SECTOR = 45.0  # Degrees to both sides of the pitch's middle line, seen from the goal: where attacks come from.
ENOUGH = 0.9
AS_GOOD = 0.95  # Of the goals of the best optimum: a kind that has as many is as good.


def partition(laboratory: Laboratory) -> Finding:
    """Figure 2 f: dribble far out, shoot near the goal."""
    record = learned(laboratory, "striker-r1")
    named, typical = record.tasks[0], record.typical_seed()
    policies = [record.policy(s) for s in range(laboratory.seeds)]
    shooting = [shooting_places(policy, named) for policy in policies]
    near, far = (np.asarray([places[zone].mean() for places in shooting]) for zone in zones())
    good = int(((near >= ENOUGH) & (far <= 1 - ENOUGH)).sum())
    claim = Claim(
        claim="R1: Dribble far from the goal, Shoot in a region around it",
        paper="dribble outside, shoot in a semi-circle near the goal (a picture)",
        ours=f"{good} of {laboratory.seeds} seeds",
        ci=None,
        seeds=laboratory.seeds,
        passed=good >= ENOUGH * laboratory.seeds,
        note=(
            f"a seed counts if deterministic play shoots on {ENOUGH:.0%} of places within {NEAR:g} m of the goal, and on "
            f"at most {1 - ENOUGH:.0%} of those beyond {FAR:g} m. Both are up to {SECTOR:g} degrees from the middle line. Median: "
            f"{np.median(near):.0%} and {np.median(far):.0%}. The controller dist:{CONTROLLER:g} has 100% and 0%"
        ),
    )
    goals = record.success()
    scored = Claim(
        claim="R1: goals per episode after learning",
        paper="0.79 (controller 0.91, start 0.18)",
        ours=f"{np.median(goals):.3f} (median; from {goals.min():.3f} to {goals.max():.3f})",
        ci=interval(goals),
        seeds=laboratory.seeds,
        passed=np.median(goals) >= 0.79,
        note="all seeds, the start and the controllers: goal-ratios",
    )
    seed = laboratory.seed
    title = f"striker-r1, seed {seed + typical}"
    titles = [f"seed {seed + s}: {value:.3f}" for s, value in enumerate(goals)]
    best = policy_map(policies[typical], named, title=title, usage=record.usage()[typical])
    every = partition_gallery(
        policies, [named] * laboratory.seeds, titles, "R1: what each seed learned, with its goals per episode"
    )
    return Finding(
        [claim, scored],
        {
            "fig2f": Picture(best, "The seed whose return is the median over seeds."),
            "fig2f-seeds": Picture(
                every, "Every seed. Numbers of skills are arbitrary: swapping them changes nothing."
            ),
            "fig2f-game": Film(
                lambda path: save_game(path, policies[typical], named, seed + typical, title),
                "A game of that seed; the trail of the ball has the colour of the skill.",
            ),
        },
    )


def zones() -> tuple[np.ndarray, np.ndarray]:
    """Places near the goal and places far from it."""
    away = distances_to_goal()
    in_sector = np.abs(PITCH.frame.y[:, None]) <= np.tan(np.radians(SECTOR)) * (
        PITCH.frame.right - PITCH.frame.x[None, :]
    )
    return in_sector & (away <= NEAR), in_sector & (away >= FAR)


def optima(laboratory: Laboratory) -> Finding:
    """Figure 2 g: polynomial hyperplanes end in different optima; and what a straight line can do."""
    curved, straight = learned(laboratory, "striker-r1"), linear(laboratory)
    kinds = np.asarray([kind_of(curved.policy(s).partition.beta[0]) for s in range(laboratory.seeds)])
    goals = curved.success()
    means = {str(kind): stats.iqm(goals[kinds == kind]) for kind in np.unique(kinds)}
    count = {kind: int((kinds == kind).sum()) for kind in means}
    as_good = [kind for kind, mean in means.items() if mean >= AS_GOOD * max(means.values())]
    low, high = difference(straight.success(), goals)
    claims = [
        Claim(
            claim="R1: the polynomial hyperplane attains different solutions, both near-optimal",
            paper="two different solutions, near-optimal",
            ours="; ".join(
                f"{kind}: {count[kind]} seeds, {mean:.3f} goals per episode (IQM)" for kind, mean in means.items()
            ),
            ci=None,
            seeds=laboratory.seeds,
            passed=len(as_good) >= 2,
            note=f"kinds by the conic that the hyperplane draws on the pitch; near-optimal: {AS_GOOD:.0%} of the goals of the best kind",
        ),
        Claim(
            claim="R1: the linear hyperplane outperforms the polynomial one",
            paper="near-optimal, outperforming the polynomial representation",
            ours=f"{stats.iqm(straight.success()):.3f} goals per episode against {stats.iqm(goals):.3f}",
            ci=interval(straight.success()),
            seeds=laboratory.seeds,
            passed=low > 0,
            note=f"holds if the 95 % interval of the difference, {low:.3f} to {high:.3f}, lies above 0",
        ),
    ]
    examples = [(curved, int(np.flatnonzero(kinds == kind)[0]), str(kind)) for kind in means]
    examples.append((straight, straight.typical_seed(), "line"))
    maps = partition_gallery(
        [record.policy(s) for record, s, _ in examples],
        [curved.tasks[0]] * len(examples),
        [f"{kind}, seed {laboratory.seed + s}: {record.success()[s]:.3f}" for record, s, kind in examples],
        "R1: kinds of solutions, with their goals per episode",
        columns=len(examples),
    )
    every = partition_gallery(
        [straight.policy(s) for s in range(laboratory.seeds)],
        [curved.tasks[0]] * laboratory.seeds,
        [f"seed {laboratory.seed + s}: {value:.3f}" for s, value in enumerate(straight.success())],
        "R1 with a linear hyperplane: every seed, with its goals per episode",
    )
    return Finding(
        claims,
        {
            "fig2g": Picture(maps, "The first seed of each kind, and the typical seed of the linear hyperplane."),
            "fig2g-linear": Picture(every, "Every seed of the linear hyperplane."),
        },
    )


def kind_of(beta: np.ndarray) -> str:
    """The conic b0 + b1 x + b2 y + b3 x^2 + b4 x y + b5 y^2 = 0: closed, or open on both sides."""
    _, _, _, xx, xy, yy = np.asarray(beta, float)
    return "ellipse" if xy**2 < 4 * xx * yy else "hyperbola"


def returns(laboratory: Laboratory) -> Finding:
    """Figure 2 j: return while learning, with polynomial and with linear hyperplanes."""
    records = {"polynomial": learned(laboratory, "striker-r1"), "linear": linear(laboratory)}
    reference = records["polynomial"].tasks[0].reference
    start, best = reference.misspecified, reference.approx_optimal
    claims = []
    for basis, record in records.items():
        reached = (record.iqm() - start) / (best - start)
        claims.append(
            Claim(
                claim=f"R1, {basis} hyperplane: the return comes near to that of the approximately optimal controller",
                paper="near-optimal (a picture)",
                ours=f"{record.iqm():.3f} against {best:.3f}, from {start:.3f}: {reached:.0%} of the way",
                ci=interval(record.returns()),
                seeds=laboratory.seeds,
                passed=reached >= 0.95,
                note="holds from 95% of the way from the misspecified start to dist:12",
            )
        )
    drawn = compare_curves(
        {name: record.curves() for name, record in records.items()}, reference, "striker-r1: return while learning"
    )
    return Finding(claims, {"fig2j": Picture(drawn, "Thin: seeds. Thick: interquartile mean with its 95 % interval.")})
