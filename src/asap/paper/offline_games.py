"""Learning R1 from logged games of the controller, without playing: five data sets."""

import numpy as np

from asap.base.stats import nested_interval
from asap.data.layout import Meta
from asap.data.npz import open_columns
from asap.envs import catalog
from asap.envs.controllers import find_controller
from asap.experience.collect import collect
from asap.paper.claims import Claim, Finding, Picture
from asap.paper.laboratory import Laboratory, TrainedRun
from asap.paper.strikers import CONTROLLER
from asap.show.figures.policy_map import partition_gallery
from asap.show.figures.strip_plot import strip_plot

TASK = "striker-r1"
DATA_SETS, GAMES = 5, 20_000
SHARE = 0.87  # Of the controller's goals: the paper's 79 % of 91 %.
SEEDS = 2  # Of each data set.


def run(laboratory: Laboratory) -> Finding:
    pairs = [_learn(laboratory, number) for number in range(DATA_SETS)]
    logged = np.asarray([goals for goals, _ in pairs])
    goals = np.stack([record.success() for _, record in pairs])  # (data sets, seeds)
    shares = goals / logged[:, None]
    enough = int((shares.min(-1) >= SHARE).sum())
    claim = Claim(
        claim=f"R1 from logged games: at least {SHARE} of the controller's goals, on every data set",
        paper="0.79 of 0.91, consistently over five data sets",
        ours=f"{enough} of {DATA_SETS} data sets; {np.median(shares):.3f} of the controller's goals (median)",
        ci=nested_interval(shares),
        seeds=shares.size,
        passed=enough == DATA_SETS,
        note=f"{GAMES:,} games of dist:{CONTROLLER:g} each, {SEEDS} seeds of each. The interval is of the IQM, drawn again by data set and then by seed. Goals per episode by data set, the controller's and then each seed's: "
        + "; ".join(f"{own:.3f}: {' '.join(f'{value:.3f}' for value in each)}" for own, each in zip(logged, goals)),
    )
    rows = {f"data set {number + 1}": list(map(float, each)) for number, each in enumerate(goals)}
    dots = strip_plot(
        rows, "goals per episode", "R1 from logged games", marks={f"dist:{CONTROLLER:g}": float(logged.mean())}
    )
    records = [record for _, record in pairs]
    maps = partition_gallery(
        [record.policy(0) for record in records],
        [catalog.find(TASK)] * DATA_SETS,
        [f"data set {number + 1}: {each[0]:.3f}" for number, each in enumerate(goals)],
        "R1 from logged games: what was learned, with its goals per episode",
    )
    return Finding(
        [claim],
        {
            "offline": Picture(dots, "A dot is a seed, 1,000 episodes played after learning."),
            "offline-partitions": Picture(maps, "The first seed of each data set."),
        },
    )


def _learn(laboratory: Laboratory, number: int) -> tuple[float, TrainedRun]:
    """Goals of the controller in a data set, and what was learned from it."""
    path = laboratory.out / "data" / f"{TASK}-{number + 1}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        task = catalog.find(TASK)
        collect(task, find_controller(task, f"dist:{CONTROLLER:g}"), 0.0, GAMES, laboratory.seed + number, path)
    record = laboratory.learn_from(f"{TASK}-offline-{number + 1}", path, SEEDS)
    return Meta.of(open_columns(path), path).behaviour_success, record
