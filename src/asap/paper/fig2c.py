"""Figure 2 c: Two Rooms first, then Flipped Two Rooms from what was learned, against learning it from scratch."""

import numpy as np

from asap.base.stats import median_with_failures
from asap.paper.claims import Claim, Finding, Picture, median_interval
from asap.paper.laboratory import Laboratory, Record
from asap.show.figures.comparison import compare_curves, seed_dots

SOURCE, TARGET = "two-rooms", "flipped-two-rooms"
# Skills that keep some probability for every move are not caught in a corner where a flipped plane leans the wrong way.
SOFT = ("learn.entropy=0.15", "learn.lanes=32", "learn.schedule=constant", "run.episodes=4000")
EVERY_UPDATE = ("run.chunk=1", "run.eval_episodes=32")  # An evaluation after each, since few are needed.
SCRATCH, SMALL_SCRATCH = "from scratch", "from scratch,\nsmall batches"
WARM, SEARCHED = "warm start", "warm start with\nsymmetry search"
SMALL = "learn.lanes=2"  # The batch of `asap transfer`.


def source(laboratory: Laboratory) -> Record:
    return laboratory.train("two-rooms-soft", [SOURCE], *SOFT)


def warm(laboratory: Laboratory) -> Record:
    return laboratory.transfer("transfer", source(laboratory), [TARGET], *EVERY_UPDATE, "run.episodes=300")


def run(laboratory: Laboratory) -> Finding:
    records = {
        SCRATCH: laboratory.train(f"{TARGET}-scratch", [TARGET], *EVERY_UPDATE, "run.episodes=300"),
        SMALL_SCRATCH: laboratory.train(f"{TARGET}-small", [TARGET], *EVERY_UPDATE, SMALL, "run.episodes=300"),
        WARM: warm(laboratory),
        SEARCHED: laboratory.transfer(
            "transfer-search", source(laboratory), [TARGET], *EVERY_UPDATE, "run.search_episodes=2", "run.episodes=300"
        ),
    }
    episodes = {name: record.episodes_to() for name, record in records.items()}
    scratch, small, plain, search = (median_with_failures(each) for each in episodes.values())
    claims = [
        Claim(
            claim="flipped 2R from the parameters of 2R: a seventh of the episodes",
            paper="5,000 instead of 35,000: 1/7",
            ours=f"{_median(plain)} instead of {_median(scratch)}: {_share(plain, scratch)}",
            ci=median_interval(episodes[WARM]),
            seeds=laboratory.seeds,
            passed=_share_number(plain, scratch) <= 1 / 7,
            note=(
                "median episodes to near-optimal. Each region has the skill that the other needs, and this must first be "
                "unlearned. The paper's 35,000 episodes contain the finding of a partition and of skills, which takes us about a hundred"
            ),
        ),
        Claim(
            claim="the same with a search over the signs of the hyperplanes: at most a seventh",
            paper="not in the paper",
            ours=f"{_median(search)} instead of {_median(scratch)}: {_share(search, scratch)}",
            ci=median_interval(episodes[SEARCHED]),
            seeds=laboratory.seeds,
            passed=_share_number(search, scratch) <= 1 / 7,
            note=(
                "the episodes of the search are counted. A warm start learns from batches of 2 lanes, `asap train` of 8: "
                f"from scratch with 2 lanes the median is {_median(small)} ({_share(search, small)}), "
                f"and {sum(e is None for e in episodes[SMALL_SCRATCH])} seeds did not get there within 300 episodes"
            ),
        ),
    ]
    reference = records[WARM].tasks[0].reference
    curves = compare_curves({n: r.curves() for n, r in records.items()}, reference, "flipped 2R: return while learning")
    dots = seed_dots(episodes, "episodes to near-optimal", "flipped 2R: episodes that each seed needs", log=True)
    return Finding(
        claims,
        {
            "fig2c": Picture(curves, "Thin: seeds. Thick: interquartile mean with its 95 % interval."),
            "fig2c-episodes": Picture(dots, "One dot per seed; the search's own episodes are counted."),
        },
    )


def _median(value: float | None) -> str:
    return "never" if value is None else f"{value:,.0f}"


def _share_number(part: float | None, whole: float | None) -> float:
    return np.inf if part is None else 0.0 if whole is None else part / whole


def _share(part: float | None, whole: float | None) -> str:
    return "no share" if part is None or whole is None or part == 0 else f"1/{whole / part:.1f}"
