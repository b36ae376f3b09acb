"""Figure 2 f: the partition that ASAP learns on R1: dribble far out, shoot near the goal."""

import numpy as np

from asap.paper.claims import Claim, Film, Finding, Picture, interval
from asap.paper.laboratory import Laboratory
from asap.paper.strikers import CONTROLLER, distances_to_goal, learned, shooting_places
from asap.show.figures.film import save_game
from asap.show.figures.gallery import partition_gallery
from asap.show.figures.partition_map import partition_map
from asap.show.figures.pitch import PITCH

NEAR, FAR = 8.0, 20.0  # Metres: within NEAR all may be asked to shoot, beyond FAR to dribble.
SECTOR = 45.0  # Degrees to both sides of the pitch's middle line, seen from the goal: where attacks come from.
ENOUGH = 0.9


def run(laboratory: Laboratory) -> Finding:
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
            f"a seed counts if Shoot is the most probable action on {ENOUGH:.0%} of the places within {NEAR:g} m of the goal and on "
            f"at most {1 - ENOUGH:.0%} of those beyond {FAR:g} m, up to {SECTOR:g} degrees from the middle line; median "
            f"{np.median(near):.0%} and {np.median(far):.0%}; dist:{CONTROLLER:g} has 100% and 0%"
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
    best = partition_map(policies[typical], named, title=title, usage=record.usage()[typical])
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
    in_sector = np.abs(PITCH.y[:, None]) <= np.tan(np.radians(SECTOR)) * (PITCH.right - PITCH.x[None, :])
    return in_sector & (away <= NEAR), in_sector & (away >= FAR)
