"""Figure 2 d: the sign of the hyperplane learned on Two Rooms is switched; the policy plays Flipped Two Rooms as it is."""

import jax
import numpy as np

from asap.envs import catalog
from asap.paper import fig2c
from asap.paper.claims import Claim, Finding, Picture, interval
from asap.paper.laboratory import Laboratory
from asap.show.figures.comparison import seed_dots
from asap.show.figures.gallery import partition_gallery
from asap.trained import play
from asap.transfer import flip

EPISODES = 1000


def run(laboratory: Laboratory) -> Finding:
    record, usual = fig2c.source(laboratory), laboratory.train("two-rooms", ["two-rooms"])
    target = catalog.find("flipped-two-rooms")
    policies, usual_policies = (
        jax.vmap(lambda policy: flip(policy, np.array([-1.0])))(r.result.policy) for r in (record, usual)
    )
    flipped, unflipped, sharper = (
        play(each, target, EPISODES, laboratory.seed) for each in (policies, record.result.policy, usual_policies)
    )
    success, returns = flipped.success.mean(-1), flipped.returns.mean(-1)
    solved, near = int((success >= 0.95).sum()), int((returns >= target.reference.near_optimal).sum())
    claims = [
        Claim(
            claim="flipped 2R is solved by switching the sign of the hyperplane, without learning",
            paper="solved",
            ours=f"success at least 0.95 in {solved} of {laboratory.seeds} seeds; unflipped: {unflipped.success.mean():.2f} on average",
            ci=interval(success),
            seeds=laboratory.seeds,
            passed=solved >= 0.9 * laboratory.seeds,
            note=(
                f"the interval is that of the success rate. Learned with entropy weight 0.15 on 2R; with the default of 0.07, "
                f"which makes sharper skills, {int((sharper.success.mean(-1) >= 0.95).sum())} of {laboratory.seeds} seeds"
            ),
        ),
        Claim(
            claim="and the return is near-optimal",
            paper="near-optimal",
            ours=f"{np.median(returns):.1f} (median); {near} of {laboratory.seeds} seeds at or above {target.reference.near_optimal:.1f}",
            ci=interval(returns),
            seeds=laboratory.seeds,
            passed=near >= 0.95 * laboratory.seeds,
            note=(
                "the learned planes lean towards the door of 2R, where they save steps; mirrored rooms would need them "
                "mirrored, and a switched sign leaves them leaning the wrong way"
            ),
        ),
    ]
    typical = int(np.argsort(returns)[len(returns) // 2])
    maps = partition_gallery(
        [record.policy(typical), jax.tree.map(lambda leaf: np.asarray(leaf)[typical], policies)],
        [record.tasks[0], target],
        ["learned on 2R", f"sign switched, on flipped 2R: {returns[typical]:.1f}"],
        f"seed {laboratory.seed + typical}",
        columns=2,
    )
    dots = seed_dots(
        {"unflipped": unflipped.returns.mean(-1).tolist(), "flipped": returns.tolist()},
        "return on flipped 2R, without learning",
        "flipped 2R played with what was learned on 2R",
        marks={"near-optimal": target.reference.near_optimal},
    )
    return Finding(
        claims,
        {
            "fig2d": Picture(maps, "The seed whose return after the switch is the median."),
            "fig2d-returns": Picture(dots, f"One dot per seed, {EPISODES:,} episodes each."),
        },
    )
