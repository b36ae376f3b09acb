"""Figure 2 h, i: what ASAP learns on R2, against a goalkeeper and a defender."""

import numpy as np

from asap.envs import catalog
from asap.envs.catalog import CompiledTask
from asap.envs.soccer.half_field import GOAL, NORMALISED_HALF_LENGTH, NORMALISED_HALF_WIDTH
from asap.paper.claims import Claim, Film, Finding, Picture, difference, interval
from asap.paper.laboratory import Laboratory, TrainedRun
from asap.paper.strikers import area, learned, shooting_places
from asap.policy.policy import ASAPPolicy
from asap.show.figures.backgrounds import PITCH
from asap.show.figures.film import draw_paths, save_game
from asap.show.figures.game import Game, play_games
from asap.show.figures.policy_map import partition_gallery
from asap.show.figures.strip_plot import strip_plot

BALL = ("ball x", "ball y")
SEEN = {"nothing": (), "x": ("defender x",), "y": ("defender y",), "x and y": ("defender x", "defender y")}
BUDGET = "run.episodes=20000"  # Of those that see the defender; half of the task's own, to save time.
MOVED = 5.0  # Metres by which the defender is moved, to see what follows.
SHOWN = 6
ROUNDS = 4  # Of games for each seed.


def partitions(laboratory: Laboratory) -> Finding:
    """Figure 2 h: how the partition changes with what the hyperplane sees of the defender."""
    records = {seen: variant(laboratory, seen) for seen in SEEN}
    seeds = laboratory.seeds
    goals = {seen: record.success() for seen, record in records.items()}
    aside = {
        seen: sensitivities(record, "defender y", MOVED / NORMALISED_HALF_WIDTH) for seen, record in records.items()
    }
    along = {
        seen: sensitivities(record, "defender x", MOVED / NORMALISED_HALF_LENGTH) for seen, record in records.items()
    }
    depths = {seen: np.asarray([depth(places) for places in shooting(record)]) for seen, record in records.items()}
    middles = {
        seen: np.asarray([abs(middle(places)) for places in shooting(record)]) for seen, record in records.items()
    }
    areas = {seen: np.asarray([area(places) for places in shooting(record)]) for seen, record in records.items()}
    lost = difference(goals["x and y"], goals["nothing"])

    claims = [
        Claim(
            claim="R2: the partition follows the defender where the hyperplane sees it",
            paper="shape changes with the features (pictures)",
            ours=f"{np.median(aside['x and y']):.1%} of the pitch changes sides when the defender steps {MOVED:g} m aside, "
            f"{np.median(along['x and y']):.1%} when it steps back",
            ci=interval(aside["x and y"]),
            seeds=seeds,
            passed=interval(aside["x and y"])[0] > 0 and interval(along["x and y"])[0] > 0,
            note="the hyperplane sees x and y. Deterministic play, the defender moved from where its own rule puts it. Without the "
            "defender's place nothing changes, by construction",
        ),
        _against_nothing(
            "with the defender's x, flatter partitions",
            "flatter",
            "depth of the Shoot region on the middle line",
            depths,
            "m",
            "x",
            -1,
            "the region is less deep",
        ),
        _against_nothing(
            "with the defender's y, the partition is offset",
            "offset",
            "distance of the Shoot region's centre from the middle line",
            middles,
            "m",
            "y",
            1,
            "it lies further aside",
        ),
        _against_nothing(
            "with both, the Shoot region is squashed",
            "squashed",
            "area of the Shoot region",
            areas,
            "m2",
            "x and y",
            -1,
            "it is smaller",
        ),
        Claim(
            claim="R2: goals per episode do not suffer from seeing the defender",
            paper="not said",
            ours=_medians(goals),
            ci=interval(goals["x and y"]),
            seeds=seeds,
            passed=lost[1] >= 0,
            note=(
                f"medians; holds unless the 95 % interval of the difference from seeing nothing, {lost[0]:.3f} to "
                f"{lost[1]:.3f}, lies below 0"
            ),
        ),
    ]
    chosen = {seen: record.typical_seed() for seen, record in records.items()}
    maps = partition_gallery(
        [record.policy(chosen[seen]) for seen, record in records.items()],
        [record.tasks[0] for record in records.values()],
        [f"{seen}: {goals[seen][chosen[seen]]:.3f}" for seen in records],
        "R2: what the hyperplane sees of the defender's place, with goals per episode",
        columns=4,
    )
    rows = {f"sees {seen}": list(map(float, values)) for seen, values in goals.items()}
    dots = strip_plot(rows, "goals per episode", "R2: what the hyperplane sees of the defender's place")
    return Finding(
        claims,
        {
            "fig2h": Picture(
                maps, "For each the seed whose return is the median; the defender stands where its own rule puts it."
            ),
            "fig2h-goals": Picture(dots, "Every seed, 1,000 episodes each."),
        },
    )


def _medians(values: dict[str, np.ndarray], unit: str = "") -> str:
    return ", ".join(f"{seen}: {np.median(each):.3g}{unit}" for seen, each in values.items())


def _against_nothing(
    claim: str, paper: str, what: str, values: dict[str, np.ndarray], unit: str, seen: str, sign: int, holds: str
) -> Claim:
    """That seeing something of the defender makes a number larger (sign 1) or smaller (-1) than seeing nothing."""
    low, high = difference(values[seen], values["nothing"])
    return Claim(
        claim=f"R2: {claim}",
        paper=f"{paper} (a picture)",
        ours=f"{what} {_medians(values, f' {unit}')}",
        ci=interval(values[seen]),
        seeds=len(values[seen]),
        passed=low > 0 if sign > 0 else high < 0,
        note=f"holds if {holds} than without the defender; 95 % interval of the difference: {low:.3g} to {high:.3g} {unit}",
    )


def variant(laboratory: Laboratory, seen: str) -> TrainedRun:
    if not SEEN[seen]:
        return learned(laboratory, "striker-r2")
    names = ", ".join(f'"{name}"' for name in (*BALL, *SEEN[seen]))
    return laboratory.train(f"striker-r2-{seen.replace(' ', '-')}", ["striker-r2"], f"policy.inputs=[{names}]", BUDGET)


def shooting(record: TrainedRun) -> list[np.ndarray]:
    return [shooting_places(record.policy(s), record.tasks[0]) for s in range(record.config.run.seeds)]


def sensitivities(record: TrainedRun, name: str, amount: float) -> np.ndarray:
    """(seeds,): share of the pitch where Shoot comes or goes when the defender is moved, both ways taken together."""
    task = record.tasks[0]

    def change(s: int) -> float:
        here, there = (shooting_places(record.policy(s), task, {name: sign * amount}) for sign in (-1, 1))
        return float((here != there).mean())

    return np.asarray([change(s) for s in range(record.config.run.seeds)])


def depth(places: np.ndarray) -> float:
    """Metres on the middle line where the striker shoots."""
    middle_row = places[np.abs(PITCH.frame.y).argmin()]
    return float(middle_row.sum() * (PITCH.frame.x[1] - PITCH.frame.x[0]))


def middle(places: np.ndarray) -> float:
    """y of the centre of the region; 0 where there is none."""
    return float((places * PITCH.frame.y[:, None]).sum() / max(places.sum(), 1))


def detours(laboratory: Laboratory) -> Finding:
    """Figure 2 i: the way of the ball around the defender, under a partition that sees the defender's y."""
    with_defender, without = variant(laboratory, "y"), learned(laboratory, "striker-r1")
    r1, r2 = catalog.find("striker-r1"), catalog.find("striker-r2")
    first = laboratory.seed

    def games(policy: ASAPPolicy, task: CompiledTask, seed: int) -> list[Game]:
        return [
            game for k in range(ROUNDS) for game in play_games(policy, task, 1000 * k + seed) if game.status == GOAL
        ]

    seeds = range(laboratory.seeds)
    theirs = [games(with_defender.policy(s), r2, first + s) for s in seeds]
    alone = [games(without.policy(s), r1, first + s) for s in seeds]
    around, straight = (
        np.asarray([np.mean([detour(game) for game in each]) for each in some]) for some in (theirs, alone)
    )
    longer = difference(around, straight)
    passes = np.asarray([clearance(game) for each in theirs for game in each])
    passes = passes[np.isfinite(passes)]
    claim = Claim(
        claim="R2: the striker dribbles around the defender in order to score",
        paper="dribbles around the defender (a picture)",
        ours=f"ball's way {np.mean(around):.3f} times the straight line, against {np.mean(straight):.3f} on R1",
        ci=interval(around),
        seeds=laboratory.seeds,
        passed=longer[0] > 0,
        note=(
            f"holds if the 95 % interval of the difference, {longer[0]:.3f} to {longer[1]:.3f}, lies above 0. Games that ended with a goal, from the first touch on: {sum(map(len, theirs))} on R2, {sum(map(len, alone))} on R1. Where the ball "
            f"passed the defender ({len(passes)} games), it was {np.median(passes):.1f} m aside (median)"
        ),
    )
    typical = with_defender.typical_seed()
    policy, title = with_defender.policy(typical), f"striker-r2, sees the defender's y, seed {first + typical}"
    return Finding(
        [claim],
        {
            "fig2i": Picture(
                draw_paths(theirs[typical][:SHOWN], policy, r2, title),
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
