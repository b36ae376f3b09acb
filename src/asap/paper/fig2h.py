"""Figure 2 h: how the partition on R2 changes with what the hyperplane sees of the defender."""

import numpy as np

from asap.envs.soccer.half_field import NORMALISED_HALF_LENGTH, NORMALISED_HALF_WIDTH
from asap.paper.claims import Claim, Finding, Picture, interval
from asap.paper.laboratory import Laboratory, Record
from asap.paper.strikers import area, learned, shooting_places
from asap.show.figures.comparison import seed_dots
from asap.show.figures.gallery import partition_gallery
from asap.show.figures.pitch import PITCH

BALL = ("ball x", "ball y")
SEEN = {"nothing": (), "x": ("defender x",), "y": ("defender y",), "x and y": ("defender x", "defender y")}
BUDGET = "run.episodes=20000"  # Of those that see the defender; half of the task's own, to save time.
MOVED = 5.0  # Metres by which the defender is moved, to see what follows.


def run(laboratory: Laboratory) -> Finding:
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

    claims = [
        Claim(
            claim="R2: the partition follows the defender where the hyperplane sees it",
            paper="shape changes with the features (pictures)",
            ours=f"{np.median(aside['x and y']):.1%} of the pitch changes sides when the defender steps {MOVED:g} m aside, "
            f"{np.median(along['x and y']):.1%} when it steps back",
            ci=interval(aside["x and y"]),
            seeds=seeds,
            passed=interval(aside["x and y"])[0] > 0 and interval(along["x and y"])[0] > 0,
            note="the hyperplane sees x and y; most probable action, the defender moved from where its own rule puts it; without the "
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
            passed=interval(goals["x and y"])[1] >= interval(goals["nothing"])[0],
            note="medians; holds unless the interval with x and y lies below that without",
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
    dots = seed_dots(rows, "goals per episode", "R2: what the hyperplane sees of the defender's place")
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
    (low, high), (least, most) = interval(values[seen]), interval(values["nothing"])
    return Claim(
        claim=f"R2: {claim}",
        paper=f"{paper} (a picture)",
        ours=f"{what} {_medians(values, f' {unit}')}",
        ci=(low, high),
        seeds=len(values[seen]),
        passed=low > most if sign > 0 else high < least,
        note=f"holds if {holds} than without the defender, beyond both intervals",
    )


def variant(laboratory: Laboratory, seen: str) -> Record:
    if not SEEN[seen]:
        return learned(laboratory, "striker-r2")
    names = ", ".join(f'"{name}"' for name in (*BALL, *SEEN[seen]))
    return laboratory.train(f"striker-r2-{seen.replace(' ', '-')}", ["striker-r2"], f"policy.inputs=[{names}]", BUDGET)


def shooting(record: Record) -> list[np.ndarray]:
    return [shooting_places(record.policy(s), record.tasks[0]) for s in range(record.config.run.seeds)]


def sensitivities(record: Record, name: str, amount: float) -> np.ndarray:
    """(seeds,): share of the pitch where Shoot comes or goes when the defender is moved, both ways taken together."""
    task = record.tasks[0]

    def change(s: int) -> float:
        here, there = (shooting_places(record.policy(s), task, {name: sign * amount}) for sign in (-1, 1))
        return float((here != there).mean())

    return np.asarray([change(s) for s in range(record.config.run.seeds)])


def depth(places: np.ndarray) -> float:
    """Metres on the middle line where the striker shoots."""
    middle_row = places[np.abs(PITCH.y).argmin()]
    return float(middle_row.sum() * (PITCH.x[1] - PITCH.x[0]))


def middle(places: np.ndarray) -> float:
    """y of the centre of the region; 0 where there is none."""
    return float((places * PITCH.y[:, None]).sum() / max(places.sum(), 1))
