"""Figure 2 h, i: what ASAP learns on R2, against a goalkeeper and a defender."""

import numpy as np

from asap.base.stats import difference_interval
from asap.envs.soccer.half_field import GOAL, NORMALISED_HALF_LENGTH, NORMALISED_HALF_WIDTH
from asap.paper.claims import Claim, Film, Finding, Picture, interval, maps_of
from asap.paper.laboratory import Laboratory, TrainedRun
from asap.paper.strikers import area, learned, shooting_places
from asap.show.figures.backgrounds import PITCH
from asap.show.figures.film import draw_paths, save_game
from asap.show.figures.game import Game, play_games
from asap.show.figures.strip_plot import strip_plot

BALL = ("ball x", "ball y")
SEEN = {"nothing": (), "x": ("defender x",), "y": ("defender y",), "x and y": ("defender x", "defender y")}
BUDGET = 20_000  # Episodes of those that see the defender; half of the task's own, to save time.
MOVED = 5.0  # Metres by which the defender is moved, to see what follows.
SHOWN = 6
ROUNDS = 4  # Of games for each seed.


def partitions(laboratory: Laboratory) -> Finding:
    """Figure 2 h: how the partition changes with what the hyperplane sees of the defender."""
    records = {seen: variant(laboratory, seen) for seen in SEEN}
    goals = {seen: record.success() for seen, record in records.items()}
    aside = sensitivities(records["x and y"], "defender y", MOVED / NORMALISED_HALF_WIDTH)
    along = sensitivities(records["x and y"], "defender x", MOVED / NORMALISED_HALF_LENGTH)
    shots = {
        seen: [shooting_places(record.policy(s), record.tasks[0]) for s in range(laboratory.seeds)]
        for seen, record in records.items()
    }
    depths, middles, areas = (
        {seen: np.asarray([abs(measure(places)) for places in each]) for seen, each in shots.items()}
        for measure in (depth, middle, area)
    )
    lost = difference_interval(goals["x and y"], goals["nothing"])

    claims = [
        Claim(
            claim="R2: the partition follows the defender where the hyperplane sees it",
            paper="shape changes with the features (pictures)",
            ours=f"{np.median(aside):.1%} of the pitch changes sides when the defender steps {MOVED:g} m aside, "
            f"{np.median(along):.1%} when it steps back",
            ci=interval(aside),
            passed=interval(aside)[0] > 0 and interval(along)[0] > 0,
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
            passed=lost[1] >= 0,
            note=f"medians; holds unless the 95 % interval of the difference from seeing nothing, {lost[0]:.3f} to "
            f"{lost[1]:.3f}, lies below 0",
        ),
    ]
    chosen = [(seen, record, record.typical_seed()) for seen, record in records.items()]
    title = "R2: what the hyperplane sees of the defender's place"
    maps = maps_of(
        [(record, s, f"{seen}: {goals[seen][s]:.3f}") for seen, record, s in chosen],
        f"{title}, with goals per episode",
        "For each the seed whose return is the median; the defender stands where its own rule puts it.",
        columns=4,
    )
    strips = strip_plot({f"sees {seen}": each.tolist() for seen, each in goals.items()}, "goals per episode", title)
    return Finding(claims, {"fig2h": maps, "fig2h-goals": Picture(strips, "Every seed, 1,000 episodes each.")})


def _medians(values: dict[str, np.ndarray], unit: str = "") -> str:
    return ", ".join(f"{seen}: {np.median(each):.3g}{unit}" for seen, each in values.items())


def _against_nothing(
    claim: str, paper: str, what: str, values: dict[str, np.ndarray], unit: str, seen: str, sign: int, holds: str
) -> Claim:
    """That seeing something of the defender makes a number larger (sign 1) or smaller (-1) than seeing nothing."""
    low, high = difference_interval(values[seen], values["nothing"])
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
    settings = {"policy.inputs": (*BALL, *SEEN[seen]), "run.episodes": BUDGET}
    return laboratory.train(f"striker-r2-{seen.replace(' ', '-')}", ["striker-r2"], settings)


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
    theirs, alone = (scoring_games(record, laboratory.seeds) for record in (with_defender, without))
    around, straight = (np.asarray([np.mean([detour(g) for g in each]) for each in some]) for some in (theirs, alone))
    longer = difference_interval(around, straight)
    passes = np.asarray([clearance(game) for each in theirs for game in each])
    passes = passes[np.isfinite(passes)]
    claim = Claim(
        claim="R2: the striker dribbles around the defender in order to score",
        paper="dribbles around the defender (a picture)",
        ours=f"ball's way {np.mean(around):.3f} times the straight line, against {np.mean(straight):.3f} on R1",
        ci=interval(around),
        passed=longer[0] > 0,
        note=f"holds if the 95 % interval of the difference, {longer[0]:.3f} to {longer[1]:.3f}, lies above 0. Games that ended with a goal, from the first touch on: {sum(map(len, theirs))} on R2, {sum(map(len, alone))} on R1. Where the ball "
        f"passed the defender ({len(passes)} games), it was {np.median(passes):.1f} m aside (median)",
    )
    typical, r2 = with_defender.typical_seed(), with_defender.tasks[0]
    seed, policy = laboratory.seed + typical, with_defender.policy(typical)
    title = f"striker-r2, sees the defender's y, seed {seed}"
    drawn = Picture(
        draw_paths(theirs[typical][:SHOWN], policy, r2, title),
        "Games with a goal. Coloured: the ball's way by skill; black: the defender's; dots: where they were when the ball passed.",
    )
    film = Film(lambda path: save_game(path, policy, r2, seed, title), "One of them.")
    return Finding([claim], {"fig2i": drawn, "fig2i-game": film})


def scoring_games(record: TrainedRun, seeds: int) -> list[list[Game]]:
    """Of each seed, the games that ended with a goal."""

    def games(s: int) -> list[Game]:
        first = record.config.run.seed + s
        rounds = (play_games(record.policy(s), record.tasks[0], 1000 * k + first) for k in range(ROUNDS))
        return [game for round_ in rounds for game in round_ if game.status == GOAL]

    return [games(s) for s in range(seeds)]


def detour(game: Game) -> float:
    """Length of the ball's way over that of the straight line between its ends."""
    steps = np.diff(game.ball, axis=0)
    straight = np.hypot(*(game.ball[-1] - game.ball[0]))
    return float(np.hypot(*steps.T).sum() / straight)


def clearance(game: Game) -> float:
    """Metres between ball and defender, across the pitch, when the ball passed; NaN if it never did."""
    moment = game.passes_defender
    return np.nan if moment is None else float(abs(game.ball[moment, 1] - game.players[2, moment, 1]))
