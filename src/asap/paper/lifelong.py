"""A sequence of ten rooms: what a new task costs a learner that knows others, and what it forgets of them."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from asap.base.stats import bootstrap_interval, iqm
from asap.config.defaults import complete
from asap.config.schema import Config
from asap.config.settings import override
from asap.envs import catalog
from asap.envs.core import CompiledTasks
from asap.paper.claims import Claim, Finding, Picture, interval
from asap.paper.laboratory import Laboratory
from asap.paper.task_sequence import LearnedSequence, Learner, TaskTrainer, final_returns, learn_sequence
from asap.policy.policy import ASAPPolicy
from asap.policy.surgery import planes_of, with_planes
from asap.sequence.measures import scaled
from asap.show.figures.palette import MUTED, method_colour

PAPER = "not in the paper"

# One wall in the middle: lower edge of the door, which is 0.3 high, and height of the goal's centre. The first is 2R.
ROOMS = (
    (0.7, 0.1), (0.0, 0.9), (0.35, 0.5), (0.6, 0.9), (0.1, 0.1), (0.5, 0.3), (0.2, 0.7), (0.7, 0.5), (0.0, 0.5), (0.35, 0.9),
)  # fmt: skip
DOOR_HEIGHT = 0.3
LEARNERS = [
    Learner("from scratch", carries=False),
    Learner("carried on as it is"),
    Learner("carried on, planes softened", plane_length=0.1),
    Learner("the same, skills frozen after 3 tasks", plane_length=0.1, freezes_after=3),
]
SCRATCH, HARD, SOFT, FROZEN = range(4)
SETTINGS = {
    "run.tasks": ["two-rooms"],
    # Two constant skills are enough for each room, but those of the first rooms are not for all others: frozen, they
    # failed on one task of four; four skills halved that and cost nothing from scratch (seeds 100-107).
    "policy.hyperplanes": 2,
    "run.search_episodes": 2,
    "run.chunk": 2,
    "run.eval_episodes": 32,
    "run.episodes": 1_000_000,  # The budget is one of updates, 100 per task, the same for all.
}
EVAL_CHUNKS = (*range(1, 9), 10, 12, 14, 17, 20, 25, 30, 35, 40, 50)  # Of updates, after which is evaluated.
LEARNED = 0.95  # Share of the way from the misspecified start to the best return known.


class Measures(NamedTuple):
    """Axes (learners, seeds, positions). Returns are 0 at the misspecified start and 1 at the best return known."""

    episodes: Float[np.ndarray, "L S P"]  # Until learned; infinite where it was not.
    steps: Float[np.ndarray, "L S P"]
    learned: Float[np.ndarray, "L S P"]  # Return right after the task.
    kept: Float[np.ndarray, "L S P"]  # After the last task, by the policy as it is then.
    kept_by_planes: Float[np.ndarray, "L S P"]  # By its skills under the hyperplanes that the task had.
    one_sided: Bool[np.ndarray, "S"]  # No frozen skill moves up, or none down, in at least half of its steps.


def run(laboratory: Laboratory) -> Finding:
    trainer = TaskTrainer(complete(override(Config(), SETTINGS)), catalog.find("two-rooms"), laboratory.stop)
    seeds = range(laboratory.seed, laboratory.seed + laboratory.seeds)
    tasks = [room(*heights) for heights in ROOMS]
    sequences = [learn_sequence(trainer, learner, tasks, seeds, EVAL_CHUNKS) for learner in LEARNERS]
    measures = measure(trainer, sequences)
    caption = (
        "Ten rooms in an order of each seed's own. A new task costs less when the skills are carried on and the "
        "hyperplanes made soft; with hard ones carried on it costs more. The policy of the last task fails on the others, "
        "but its skills still serve most of them under the hyperplanes that they had."
    )
    return Finding(claims(measures), {"lifelong": Picture(picture(measures), caption)})


def room(door: float, goal: float) -> CompiledTasks:
    named = catalog.find("two-rooms")
    edges = {"door_low": np.float32([door]), "door_high": np.float32([door + DOOR_HEIGHT])}
    return CompiledTasks.of(named.env, {"room": named.task._replace(**edges, goal=np.float32([0.9, goal]))})


def measure(trainer: TaskTrainer, sequences: list[LearnedSequence]) -> Measures:
    """Start and best return of a task are the same for all learners: the best of their IQMs over seeds."""
    order = sequences[SCRATCH].order
    after = np.stack([final_returns(trainer, one, one.policies) for one in sequences])
    start = per_task(sequences[SCRATCH].returns[..., 0], order, np.mean)
    best = np.max([per_task(returns, order, iqm) for returns in after], 0)
    reached = [one.returns >= (start + LEARNED * (best - start))[..., None] for one in sequences]

    def normalised(returns: np.ndarray) -> np.ndarray:
        return scaled(returns, start, best)

    return Measures(
        np.stack([until(at, one.episodes) for at, one in zip(reached, sequences)]),
        np.stack([until(at, one.steps) for at, one in zip(reached, sequences)]),
        normalised(after),
        normalised(np.stack([final_returns(trainer, one, one.policies[-1:] * len(one.policies)) for one in sequences])),
        normalised(np.stack([final_returns(trainer, one, with_own_planes(one.policies)) for one in sequences])),
        is_one_sided(sequences[FROZEN].policies[-1]),
    )


def until(reached: Bool[np.ndarray, "S P E"], spent: Int[np.ndarray, "S P E"]) -> Float[np.ndarray, "S P"]:
    """Spent at the first evaluation that reached the threshold."""
    first = np.take_along_axis(spent, reached.argmax(-1)[..., None], -1)[..., 0]
    return np.where(reached.any(-1), np.maximum(first, 1), np.inf)


def with_own_planes(policies: list[ASAPPolicy]) -> list[ASAPPolicy]:
    """The last policy, its hyperplanes replaced by those of each."""
    return [with_planes(policies[-1], planes_of(policy)) for policy in policies]


def is_one_sided(policy: ASAPPolicy) -> Bool[np.ndarray, "S"]:
    sigma = np.asarray(jax.nn.softmax(policy.skills.theta[..., 0], -1))
    return (sigma[..., :2].max(1) < 0.5).any(-1)


def per_task(values: Float[np.ndarray, "S P"], order: Int[np.ndarray, "S P"], statistic) -> Float[np.ndarray, "S P"]:
    """A statistic over the seeds of each task, put where the seeds met the task."""
    return np.asarray([statistic(values[order == task]) for task in range(order.shape[1])])[order]


def claims(measures: Measures) -> list[Claim]:
    since = LEARNERS[FROZEN].freezes_after
    failed = np.isinf(measures.episodes[FROZEN][:, since:])
    one_sided = measures.one_sided
    why = (
        f"{failed[one_sided].sum()} of the {failed.sum()} failures are in the {one_sided.sum()} seeds in which no skill, when "
        "frozen, moved up with probability 0.5 or more, or none down. Perhaps the tasks before did not ask for it"
    )
    return [
        cheaper(measures, SOFT, 1, True, "With skills carried on and hyperplanes softened, tasks 2 to 10 take fewer episodes than from scratch", "softening was devised when carrying on as it is had failed; its length was chosen on seeds 0-3 and 100-107"),
        cheaper(measures, HARD, 1, True, "So they do with the hyperplanes as they were", "a hard plane in the wrong place mixes its skills nowhere, so that nothing tells it where to go"),
        cheaper(measures, FROZEN, since, failed.mean() <= 0.05, f"With skills frozen, tasks {since + 1} to 10 take fewer episodes than from scratch, and 95 % of them are learned", why),
        forgetting(measures.learned, measures.kept_by_planes, "Freezing the skills forgets less, where each task keeps its own hyperplanes (six numbers)", f"after task {since} frozen skills cannot forget; what is lost is on the tasks before"),
        forgetting(measures.learned, measures.kept, "Freezing the skills forgets less, where only the last policy is kept", "either way nearly all is lost: it is the hyperplanes that are forgotten, and freezing leaves them free"),
    ]  # fmt: skip


def cheaper(measures: Measures, which: int, since: int, holds: bool, claim: str, note: str = "") -> Claim:
    """Medians over tasks and seeds; a task that was not learned took infinitely long."""
    ours, scratch = (measures.episodes[learner][:, since:] for learner in (which, SCRATCH))

    def ratios(seeds: np.ndarray, axis: int) -> np.ndarray:
        seeds = np.moveaxis(seeds, axis, -1).astype(int)
        return np.median(ours[seeds], (-2, -1)) / np.median(scratch[seeds], (-2, -1))

    seeds = np.arange(len(ours))
    ratio, ci = float(ratios(seeds, 0)), bootstrap_interval(seeds, statistic=ratios)
    text = (
        f"{ratio:.2f} times as many: {np.median(ours):.0f} against {np.median(scratch):.0f} episodes; "
        f"in steps {np.median(measures.steps[which][:, since:]) / np.median(measures.steps[SCRATCH][:, since:]):.2f} times; "
        f"not learned: {np.isinf(ours).sum()} against {np.isinf(scratch).sum()} of {ours.size}"
    )
    return Claim(claim, PAPER, text, ci if np.isfinite(ci).all() else None, ratio < 1 and holds, note)


def forgetting(learned: np.ndarray, kept: np.ndarray, claim: str, note: str = "") -> Claim:
    """Of the way that was learned, what is lost on tasks 1 to 9 after the last: IQM over seeds of the mean over
    tasks."""
    lost = 100 * (learned - kept)[:, :, :-1].mean(-1)
    frozen, soft, hard = (iqm(lost[learner]) for learner in (FROZEN, SOFT, HARD))
    text = f"{frozen:.1f} % of the way lost; {soft:.1f} % without freezing, {hard:.1f} % without softening too"
    return Claim(claim, PAPER, text, interval(lost[FROZEN]), frozen < soft, note)


COLOURS = tuple(method_colour(learner) for learner in range(len(LEARNERS)))
SMALL = {"fontsize": 9, "color": MUTED}


def picture(measures: Measures) -> Figure:
    _, seeds, count = measures.episodes.shape
    figure = Figure(figsize=(12.0, 5.8))
    cost, memory = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.06, right=0.99, bottom=0.09, top=0.74, wspace=0.16)
    figure.text(0.01, 0.96, f"{count} rooms, one after the other ({seeds} seeds)", fontsize=12)
    for place, learner, colour in zip((0.06, 0.17, 0.31, 0.505), LEARNERS, COLOURS):
        figure.text(place, 0.91, learner.name, color=colour, weight="bold", fontsize=10)
    for axes in (cost, memory):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set(xlabel="task, in the order in which it was met", xticks=range(1, count + 1), xlim=(0.5, count + 0.5))
    draw_cost(cost, measures.episodes)
    draw_memory(memory, measures)
    return figure


def draw_cost(axes: Axes, episodes: Float[np.ndarray, "L S P"]) -> None:
    """Failures are counted above; the line is broken where the median seed failed."""
    finite = episodes[np.isfinite(episodes)]
    axes.set(yscale="log", ylabel="episodes until 95 % of the way is learned", yticks=[10, 20, 50, 100, 200, 500, 1000])
    axes.set_ylim(finite.min() / 1.3, finite.max() * 1.3)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    for learner, values in enumerate(episodes):
        draw_seeds(axes, learner, values)
        for position, failures in enumerate(np.isinf(values).sum(0), 1):
            where = {"transform": axes.get_xaxis_transform(), "ha": "center", "fontsize": 8}
            axes.text(position, 1.14 - 0.04 * learner, str(failures), color=COLOURS[learner], **where)
    words = "numbers: seeds that did not learn the task; dots: the others"
    axes.text(0, 1.19, words, transform=axes.transAxes, **SMALL)


def draw_memory(axes: Axes, measures: Measures) -> None:
    for learner in (HARD, SOFT, FROZEN):
        draw_seeds(axes, learner, measures.kept_by_planes[learner])
        median = np.median(measures.kept[learner], 0)
        axes.plot(range(1, len(median) + 1), median, color=COLOURS[learner], linewidth=1.2, linestyle=(0, (4, 3)))
    axes.set(ylabel="share of the way kept after the last task", ylim=(-0.3, 1.08))
    axes.text(0, 1.1, "solid, and dots: under the hyperplanes that the task had", transform=axes.transAxes, **SMALL)
    axes.text(0, 1.05, "dashed: by the policy as it is after the last task", transform=axes.transAxes, **SMALL)


def draw_seeds(axes: Axes, learner: int, values: Float[np.ndarray, "S P"]) -> None:
    """Every seed as a dot, the median as a line."""
    positions = np.arange(1, values.shape[1] + 1)
    places = np.broadcast_to(positions + 0.16 * (learner - 1.5), values.shape)
    axes.plot(places.ravel(), values.ravel(), ".", color=COLOURS[learner], alpha=0.45, markersize=5, markeredgewidth=0)
    median = np.median(values, 0)
    axes.plot(positions, np.where(np.isfinite(median), median, np.nan), color=COLOURS[learner], linewidth=2.2)
