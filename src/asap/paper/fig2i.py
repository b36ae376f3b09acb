"""Figure 2 i: the way of the ball around the defender, under a partition that sees the defender's y."""

import numpy as np

from asap.envs import catalog
from asap.envs.soccer.half_field import GOAL
from asap.paper.claims import Claim, Film, Finding, Picture, interval
from asap.paper.fig2h import variant
from asap.paper.laboratory import Laboratory
from asap.paper.strikers import learned
from asap.policy.policy import ASAPPolicy
from asap.show.figures.film import draw_ways, save_game
from asap.show.figures.game import Game, play_games

SHOWN = 6
ROUNDS = 4  # Of games for each seed.


def run(laboratory: Laboratory) -> Finding:
    with_defender, without = variant(laboratory, "y"), learned(laboratory, "striker-r1")
    r1, r2 = catalog.find("striker-r1"), catalog.find("striker-r2")
    first = laboratory.seed

    def games(policy: ASAPPolicy, task: catalog.CompiledTask, seed: int) -> list[Game]:
        return [
            game for k in range(ROUNDS) for game in play_games(policy, task, 1000 * k + seed) if game.status == GOAL
        ]

    seeds = range(laboratory.seeds)
    theirs = [games(with_defender.policy(s), r2, first + s) for s in seeds]
    alone = [games(without.policy(s), r1, first + s) for s in seeds]
    detours, straight = (
        np.asarray([np.mean([detour(game) for game in each]) for each in some]) for some in (theirs, alone)
    )
    passes = np.asarray([clearance(game) for each in theirs for game in each])
    passes = passes[np.isfinite(passes)]
    claim = Claim(
        claim="R2: the striker dribbles around the defender in order to score",
        paper="dribbles around the defender (a picture)",
        ours=f"ball's way {np.mean(detours):.3f} times the straight line, against {np.mean(straight):.3f} on R1",
        ci=interval(detours),
        seeds=laboratory.seeds,
        passed=interval(detours)[0] > interval(straight)[1],
        note=(
            f"games that ended with a goal, from the first touch on: {sum(map(len, theirs))} on R2, {sum(map(len, alone))} on R1; where the ball "
            f"passed the defender ({len(passes)} games), it was {np.median(passes):.1f} m aside (median)"
        ),
    )
    typical = with_defender.typical_seed()
    policy, title = with_defender.policy(typical), f"striker-r2, sees the defender's y, seed {first + typical}"
    return Finding(
        [claim],
        {
            "fig2i": Picture(
                draw_ways(theirs[typical][:SHOWN], policy, r2, title),
                "Games with a goal. Coloured: the ball's way by skill; black: the defender's; dots: where they were when the ball passed.",
            ),
            "fig2i-game": Film(lambda path: save_game(path, policy, r2, first + typical, title), "One of them."),
        },
    )


def detour(game: Game) -> float:
    """Length of the ball's way over that of the straight line between its ends."""
    steps = np.diff(game.ball, axis=0)
    straight = np.hypot(*(game.ball[-1] - game.ball[0]))
    return float(np.hypot(*steps.T).sum() / straight)


def clearance(game: Game) -> float:
    """Metres between ball and defender, across the pitch, when the ball passed; NaN if it never did."""
    moment = game.passes_defender
    return np.nan if moment is None else float(abs(game.ball[moment, 1] - game.players[2, moment, 1]))
