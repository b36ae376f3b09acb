"""Games side by side as still pictures: the way of the ball in the colours of the skills, and that of the defenders."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asap.base.errors import UserError
from asap.envs.catalog import CompiledTask
from asap.policy.policy import ASAPPolicy
from asap.show.figures.game import Game
from asap.show.figures.palette import INK, MUTED, skill_colour
from asap.show.figures.partition_map import legend_entry, pixel_regions, skill_in_words
from asap.show.figures.pitch import PITCH, draw_pitch

COLUMNS, SIDE = 3, 2.9  # Panels in a row, and their width in inches.
STARTS_AT, PASSES_AT = 26, 34  # Size of dots.


def draw_ways(games: Sequence[Game], policy: ASAPPolicy, named_task: CompiledTask, title: str) -> Figure:
    """A panel per game. Where the ball passes the first defender, a dot on either way shows how far apart they were."""
    if not games:
        raise UserError("games", "there is nothing to show", cure="give at least one game")
    columns = min(COLUMNS, len(games))
    rows = math.ceil(len(games) / columns)
    figure = Figure(figsize=(columns * SIDE + 0.2, rows * (SIDE * PITCH.height + 0.3) + 1.0), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, game in zip(panels, games):
        _draw_way(axes, game)
    for axes in panels[len(games) :]:
        axes.set_visible(False)
    m = named_task.env.descriptor(named_task.task)
    regions = pixel_regions(policy, named_task, m)
    used = sorted({int(skill) for game in games for skill in game.skills})
    entries = [legend_entry(s, f"ball, {skill_in_words(policy, named_task, m, regions, s)}") for s in used]
    entries += [
        Line2D([], [], color=INK, linewidth=1.4, label="defender"),
        Line2D([], [], color=MUTED, linewidth=1.0, linestyle=":", label="striker"),
    ]
    figure.legend(handles=entries, loc="outside lower left", ncols=2, fontsize=9, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    return figure


def _draw_way(axes: Axes, game: Game) -> None:
    draw_pitch(axes, MUTED)
    axes.set(xticks=[], yticks=[])
    axes.set_title(f"{game.status_name} after {game.cycles} cycles", loc="left", fontsize=9, pad=3)
    axes.plot(*game.players[0].T, color=MUTED, linewidth=1.0, linestyle=":", zorder=3)
    for defender in game.players[2:]:
        axes.plot(*defender.T, color=INK, linewidth=1.4, zorder=4)
        axes.scatter(*defender[0], s=STARTS_AT, color=INK, zorder=5)
    segments = np.stack([game.ball[:-1], game.ball[1:]], 1)
    colours = [skill_colour(skill) for skill in game.skills]
    axes.add_collection(
        LineCollection(list(segments), colors=colours, linewidths=2.4, capstyle="round", clip_on=False, zorder=6)
    )
    axes.scatter(*game.ball[0], s=STARTS_AT, facecolor="white", edgecolor=INK, linewidth=1.0, zorder=7)
    moment = game.passes_defender
    if moment is not None:
        both = np.stack([game.ball[moment], game.players[2, moment]])
        axes.plot(*both.T, color=INK, linewidth=1.0, zorder=7)
        axes.scatter(*both.T, s=PASSES_AT, facecolor="white", edgecolor=INK, linewidth=1.2, zorder=8)
