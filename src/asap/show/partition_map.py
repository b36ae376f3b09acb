"""The partition and the skills of a rooms policy in one picture (paper, Figure 1 f-i)."""

import jax
import matplotlib.colors
import matplotlib.patheffects
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike

from asap.envs.catalog import NamedTask
from asap.envs.rooms import Position, Rooms, RoomsTask
from asap.errors import UserError
from asap.policy.policy import ASAPPolicy
from asap.show.labels import Label, label_right, label_top
from asap.show.palette import INK, skill_colour
from asap.show.regions import OWNS, Regions, actions_at, mean_actions, one_per_skill, regions_at, require_one_seed
from asap.show.rooms import draw_rooms, rose_places
from asap.show.words import main_actions, percent

PIXELS = 240
TICKS = (np.arange(PIXELS) + 0.5) / PIXELS  # Centres of the pixels.
PALEST = 0.25  # How much of its colour a skill keeps where it is no likelier than any other.
AT_THE_EDGE = 1 - 1.5 / PIXELS
DIRECTIONS = {"up": (0, 1), "down": (0, -1), "right": (1, 0), "left": (-1, 0)}
LONGEST_ARROW = 0.11
SHORTEST_DRAWN = 0.06  # Probabilities below would be dots.


def partition_map(
    policy: ASAPPolicy,
    named_task: NamedTask,
    m: ArrayLike | None = None,
    title: str | None = None,
    usage: ArrayLike | None = None,
) -> Figure:
    """Colour: the most probable skill, pale where it is uncertain. Arrows: its action probabilities. Lines: planes."""
    m = named_task.env.descriptor(named_task.task) if m is None else m
    regions = pixel_regions(policy, named_task, m)
    usage = None if usage is None else one_per_skill("usage", usage, policy.num_skills)
    shown = _shown(regions, usage)
    figure, axes = _paper(len(shown))
    draw_partition(axes, policy, named_task, m, regions)
    axes.set_title(named_task.name if title is None else title, loc="left", fontsize=12, pad=22)
    entries = [_legend_entry(policy, regions, m, named_task.env.spec.action_names, s, usage) for s in shown]
    _draw_legend(axes, entries)
    return figure


def pixel_regions(policy: ASAPPolicy, named_task: NamedTask, m: ArrayLike) -> Regions:
    """The partition at every pixel of the map."""
    if not isinstance(named_task.env, Rooms):
        raise UserError("task", "has no map of rooms", named_task.name, "use explain() for other tasks")
    require_one_seed(policy)
    return regions_at(policy, _observations(named_task, _pixel_centres()), m)


def draw_partition(
    axes: Axes,
    policy: ASAPPolicy,
    named_task: NamedTask,
    m: ArrayLike,
    regions: Regions,
    thickness: float = 1.0,
    words: bool = True,
) -> None:
    """The map on given axes; `regions` as from `pixel_regions`. Small maps take thinner lines and go without words."""
    _draw_colours(axes, regions)
    draw_rooms(axes, named_task.task)
    _draw_planes(axes, regions, thickness)
    _draw_roses(axes, policy, named_task, regions, m)
    for artist in (*axes.lines, *axes.patches, *axes.collections):
        artist.set_linewidth(np.multiply(thickness, artist.get_linewidth()))
    if not words:
        for text in tuple(axes.texts):
            text.remove()


def _paper(num_entries: int) -> tuple[Figure, Axes]:
    """A square of fixed size with room for a legend below: maps of any number of skills can stand side by side."""
    side, left, right, top = 4.5, 0.75, 0.75, 0.65
    bottom = 0.95 + 0.2 * num_entries
    width, height = left + side + right, bottom + side + top
    figure = Figure(figsize=(width, height))
    return figure, figure.add_axes((left / width, bottom / height, side / width, side / height))


def _shown(regions: Regions, usage: np.ndarray | None) -> list[int]:
    """The skills that own area or are used."""
    weights = regions.shares if usage is None else np.maximum(regions.shares, usage)
    return np.flatnonzero(weights >= OWNS).tolist()


def _pixel_centres() -> np.ndarray:
    """(N, 2), row by row from below. Centres, because a feature may vanish exactly on the frame."""
    return np.stack(np.meshgrid(TICKS, TICKS), -1).reshape(-1, 2)


def _observations(named_task: NamedTask, places: np.ndarray) -> np.ndarray:
    return np.asarray(_observe(named_task.env, named_task.task, *places.T.astype(np.float32)))


# Compiled once for all maps of a kind: a gallery has many.
@jax.jit
def _observe(env: Rooms, task: RoomsTask, x: Float[Array, "N"], y: Float[Array, "N"]) -> Float[Array, "N O"]:
    return jax.vmap(lambda x, y: env.observe(Position(x, y), task))(x, y)


def _draw_colours(axes: Axes, regions: Regions) -> None:
    num_skills = regions.skill_probs.shape[-1]
    colours = np.array([matplotlib.colors.to_rgb(skill_colour(s)) for s in range(num_skills)])
    certainty = (regions.skill_probs.max(-1, keepdims=True) - 1 / num_skills) / (1 - 1 / num_skills)
    strength = PALEST + (1 - PALEST) * certainty
    pixels = strength * colours[regions.rulers] + (1 - strength)
    axes.imshow(
        pixels.reshape(PIXELS, PIXELS, 3), origin="lower", extent=(0, 1, 0, 1), interpolation="nearest", zorder=0
    )


def _draw_planes(axes: Axes, regions: Regions, thickness: float) -> None:
    """The line where both sides of a plane are equally probable, with the plane's number where it leaves the square."""
    glow = [matplotlib.patheffects.withStroke(linewidth=3.2 * thickness, foreground="white")]  # Readable on any colour.
    above, right = [], []
    for k, margins in enumerate(regions.margins.T):
        if (margins > 0).all() or (margins <= 0).all():
            continue
        lines = axes.contour(TICKS, TICKS, margins.reshape(PIXELS, PIXELS), levels=[0.0], colors=[INK])
        # Under the walls, with which a good partition may coincide.
        lines.set(linestyle="dashed", linewidth=1.8, path_effects=glow, zorder=3)
        for line in lines.allsegs[0]:
            highest, rightmost = line[line[:, 1].argmax()], line[line[:, 0].argmax()]
            if highest[1] > AT_THE_EDGE:
                above.append(Label(highest[0], f"plane {k + 1}", INK))
            elif rightmost[0] > AT_THE_EDGE:
                right.append(Label(rightmost[1], f"plane {k + 1}", INK))
            else:
                middle = line[len(line) // 2]
                axes.text(*middle, f"plane {k + 1}", ha="center", va="center", fontsize=9, path_effects=glow, zorder=8)
    label_top(axes, above, gap=0.14)
    label_right(axes, right, gap=0.04)


def _draw_roses(axes: Axes, policy: ASAPPolicy, named_task: NamedTask, regions: Regions, m: ArrayLike) -> None:
    """At each place, one arrow per action of the skill that rules there, as long as the action is probable."""
    column, row = np.floor(PIXELS * rose_places(named_task.task)).astype(int).T
    pixel = row * PIXELS + column
    probabilities = actions_at(policy, regions.rulers[pixel], regions.observations[pixel], m)
    directions = np.array([DIRECTIONS[name] for name in named_task.env.spec.action_names])
    place, action = np.nonzero(probabilities >= SHORTEST_DRAWN)
    arrows = LONGEST_ARROW * probabilities[place, action, None] * directions[action]
    in_metres = {"angles": "xy", "scale_units": "xy", "units": "xy", "scale": 1, "minlength": 0}
    shape = {"width": 0.0075, "headwidth": 3.6, "headlength": 3.4, "headaxislength": 3.2}
    colours = {"color": "white", "edgecolor": INK, "linewidth": 0.5}
    axes.quiver(TICKS[column[place]], TICKS[row[place]], *arrows.T, **in_metres, **shape, **colours, zorder=6)


def _legend_entry(
    policy: ASAPPolicy,
    regions: Regions,
    m: ArrayLike,
    action_names: tuple[str, ...],
    skill: int,
    usage: np.ndarray | None,
) -> Patch:
    does = main_actions(action_names, mean_actions(policy, regions, skill, m).tolist(), smallest=0.05)
    used = "" if usage is None else f" (used {percent(usage[skill])})"
    return Patch(facecolor=skill_colour(skill), edgecolor=INK, linewidth=0.6, label=f"skill {skill}: {does}{used}")


def _draw_legend(axes: Axes, entries: list[Patch]) -> None:
    axes.legend(
        handles=entries,
        loc="upper left",
        bbox_to_anchor=(0, -0.115),
        borderaxespad=0,
        borderpad=0,
        title="most probable skill, pale where uncertain; arrows: its actions",
        alignment="left",
        fontsize=9,
        title_fontsize=9,
        frameon=False,
    )
