"""The partition and the skills of a policy in one picture, seen from above (paper, Figure 1 f-i)."""

import functools

import jax
import matplotlib
import matplotlib.patheffects
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike

from asap.base.errors import UserError
from asap.base.spec import Task
from asap.base.types import TaskParameters
from asap.envs.core import Env
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import Regions, one_per_skill, regions_at, require_one_seed
from asap.show.figures.backgrounds import ROOMS, Ground, Observe, PlacedTask
from asap.show.figures.labels import Label, label_right, label_top
from asap.show.figures.observed_map import observed_map
from asap.show.figures.palette import INK, legend_entry, region_colours, shown_skills
from asap.show.figures.pitch import PITCH
from asap.show.words.skills import skill_in_words

BACKGROUNDS: dict[str, Ground] = {"rooms": ROOMS, "pitch": PITCH}  # By the place that a task's spec names.


def policy_map(
    policy: ASAPPolicy,
    task: Task,
    observations: Float[np.ndarray, "N O"] | None,
    usage: ArrayLike | None = None,
    title: str | None = None,
) -> Figure:
    """The map of any task: of its place where there is a background for it, otherwise over the states that were
    visited.

    `observations` are those states, in any order; a map of a place needs none. `usage` is the share of the steps of
    each skill.
    """
    if task.spec.place in BACKGROUNDS:
        return partition_map(policy, task, usage, title)
    with matplotlib.rc_context({"text.parse_math": False}):  # A name may have a $ in it.
        return observed_map(policy, task, observations, usage, title)


def partition_map(
    policy: ASAPPolicy, task: PlacedTask, usage: ArrayLike | None = None, title: str | None = None
) -> Figure:
    """Colour: the most probable skill, pale where it is uncertain. Arrows or words: its actions. Lines: planes."""
    ground = ground_of(task)
    regions = pixel_regions(policy, task)
    usage = None if usage is None else one_per_skill("usage", usage, policy.num_skills)
    shown = shown_skills(regions, usage)
    figure, axes = _paper(ground, len(shown))
    draw_partition(axes, policy, task, regions)
    axes.set_title(task.name if title is None else title, loc="left", fontsize=12, pad=22)
    entries = [legend_entry(s, skill_in_words(policy, task, regions, s), usage) for s in shown]
    _draw_legend(axes, entries, ground, policy.num_skills)
    return figure


def ground_of(task: Task) -> Ground:
    if task.spec.place not in BACKGROUNDS:
        raise UserError(
            "task", "its place has no background", task.name, "use policy_map() with states that were visited"
        )
    return BACKGROUNDS[task.spec.place]


def pixel_regions(policy: ASAPPolicy, task: PlacedTask) -> Regions:
    """The partition at every pixel of the map."""
    require_one_seed(policy)
    return regions_at(policy, map_observations(task), task.descriptor)


def map_observations(task: PlacedTask) -> Float[np.ndarray, "N O"]:
    """What is observed at every pixel, row by row from below."""
    ground = ground_of(task)
    x, y = (grid.ravel().astype(np.float32) for grid in np.meshgrid(ground.x, ground.y))
    return np.asarray(_observations(ground.observe, task.env, task.task, x, y))


# Compiled once for all maps of a kind: a gallery has many.
@functools.partial(jax.jit, static_argnums=0)
def _observations(
    observe: Observe, env: Env, task: TaskParameters, x: Float[Array, "N"], y: Float[Array, "N"]
) -> Float[Array, "N O"]:
    return jax.vmap(lambda x, y: observe(env, task, x, y))(x, y)


def draw_partition(
    axes: Axes,
    policy: ASAPPolicy,
    task: PlacedTask,
    regions: Regions,
    thickness: float = 1.0,
    words: bool = True,
) -> None:
    """The map on given axes; `regions` as from `pixel_regions`. Small maps take thinner lines and only the skills'
    words."""
    ground = ground_of(task)
    draw_colours(axes, ground, regions)
    ground.draw(axes, task.task)
    _draw_planes(axes, ground, regions, thickness)
    if not words:
        for text in tuple(axes.texts):
            text.remove()
    ground.draw_skills(axes, policy, task, regions)
    for artist in (*axes.lines, *axes.patches, *axes.collections):
        artist.set_linewidth(np.multiply(thickness, artist.get_linewidth()))
    if not words:
        for text in axes.texts:
            text.set_fontsize(thickness * text.get_fontsize())


def _paper(ground: Ground, num_entries: int) -> tuple[Figure, Axes]:
    """A map of fixed size with room for a legend below: maps of any number of skills can stand side by side."""
    across, left, right, top = ground.inches, 0.75, 0.75, 0.65
    down, bottom = across * ground.height, 0.95 + 0.2 * num_entries
    width, height = left + across + right, bottom + down + top
    figure = Figure(figsize=(width, height))
    return figure, figure.add_axes((left / width, bottom / height, across / width, down / height))


def draw_colours(axes: Axes, ground: Ground, regions: Regions, strength: float = 1.0) -> None:
    """`strength` is how much of its colour a skill has where it is certain: little makes a background."""
    pixels = region_colours(regions, strength)
    edges = (ground.left, ground.right, ground.bottom, ground.top)
    axes.imshow(
        pixels.reshape(ground.rows, ground.columns, 3), origin="lower", extent=edges, interpolation="nearest", zorder=0
    )


def _draw_planes(axes: Axes, ground: Ground, regions: Regions, thickness: float) -> None:
    """The line where both sides of a plane are equally probable, with the plane's number where it leaves the ground."""
    glow = [matplotlib.patheffects.withStroke(linewidth=3.2 * thickness, foreground="white")]  # Readable on any colour.
    above, right = [], []
    for k, margins in enumerate(regions.margins.T):
        if (margins > 0).all() or (margins <= 0).all():
            continue
        lines = axes.contour(
            ground.x, ground.y, margins.reshape(ground.rows, ground.columns), levels=[0.0], colors=[INK]
        )
        # Under the walls, with which a good partition may coincide.
        lines.set(linestyle="dashed", linewidth=1.8, path_effects=glow, zorder=3)
        for line in lines.allsegs[0]:
            across = (line[:, 0] - ground.left) / (ground.right - ground.left)
            up = (line[:, 1] - ground.bottom) / (ground.top - ground.bottom)
            if up.max() > 1 - 1.5 / ground.rows:
                above.append(Label(line[up.argmax(), 0], f"plane {k + 1}", INK))
            elif across.max() > 1 - 1.5 / ground.columns:
                right.append(Label(line[across.argmax(), 1], f"plane {k + 1}", INK))
            else:
                middle = line[len(line) // 2]
                axes.text(*middle, f"plane {k + 1}", ha="center", va="center", fontsize=9, path_effects=glow, zorder=8)
    label_top(axes, above, gap=0.14)
    label_right(axes, right, gap=0.04)


def _draw_legend(axes: Axes, entries: list[Patch], ground: Ground, num_skills: int) -> None:
    several = f"most probable skill, pale where uncertain; {ground.legend}"
    axes.legend(
        handles=entries,
        loc="upper left",
        bbox_to_anchor=(0, -0.5175 / (ground.inches * ground.height)),
        borderaxespad=0,
        borderpad=0,
        title=several if num_skills > 1 else ground.one_skill,
        alignment="left",
        fontsize=9,
        title_fontsize=9,
        frameon=False,
    )
