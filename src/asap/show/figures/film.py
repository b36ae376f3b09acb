"""Games as pictures, with the ball's path in the colours of the skills: one as an animated GIF, several side by side."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from asap.base.errors import UserError
from asap.base.files import saving
from asap.envs.render import BALL_RADIUS, PLAYER_RADIUS, player_colours
from asap.envs.soccer.half_field import GOAL
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import Regions
from asap.show.figures.areas import paint
from asap.show.figures.backgrounds import PITCH, PlacedTask, draw_pitch
from asap.show.figures.game import Game, play_game
from asap.show.figures.palette import GLOW, INK, MUTED, legend_entry, region_colours, shown_skills, skill_colour
from asap.show.figures.policy_map import pixel_regions
from asap.show.words.skills import skill_in_words

DOTS_PER_INCH = 100
FRAME_MILLISECONDS, LAST_MILLISECONDS = 80, 2000
SHADE = 8  # Colours that are closer than this, of 255, count as one.
MOST_FRAMES = 160  # A longer game leaves out cycles.
BACKGROUND = 0.3  # Strength of the partition's colours under the game.
LEFT, RIGHT, TOP = 0.2, 0.4, 0.6  # Inches around the pitch.
LINE = 0.2  # Height of a line of the legend.
FILMED = ("pitch",)  # Places of which there are games to show.


def save_game(path: str | Path, policy: ASAPPolicy, task: PlacedTask, seed: int, title: str) -> None:
    """A game of this policy, chosen by the seed, on its partition."""
    regions = pixel_regions(policy, task)
    words = [skill_in_words(policy, task, regions, skill) for skill in range(policy.num_skills)]
    save_film(path, play_game(policy, task, seed), words, regions, title)


def save_film(
    path: str | Path, game: Game, words: Sequence[str], regions: Regions | None = None, title: str = ""
) -> None:
    """`words` say what each skill does; with `regions`, as from `pixel_regions`, the partition is the background."""
    pictures = _frames(game, words, regions, title)
    palette = _palette(pictures[-1])  # The last has the whole trail, hence all colours.
    frames = [Image.fromarray(pixels).quantize(palette=palette, dither=Image.Dither.NONE) for pixels in pictures]
    durations = [FRAME_MILLISECONDS] * (len(frames) - 1) + [LAST_MILLISECONDS]
    options = {"append_images": frames[1:], "duration": durations, "loop": 0, "optimize": True}
    with saving(Path(path), "picture") as file:
        frames[0].save(file, format="GIF", save_all=True, **options)


def _palette(pixels: np.ndarray) -> Image.Image:
    """The most frequent colours, as they are: means, or shades next to them, would turn white paper grey."""
    colours, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
    colours = colours[np.argsort(-counts, kind="stable")]
    _, first_of_shade = np.unique(colours // SHADE, axis=0, return_index=True)
    palette = Image.new("P", (1, 1))
    palette.putpalette(colours[np.sort(first_of_shade)[:256]].tobytes())
    return palette


def _frames(game: Game, words: Sequence[str], regions: Regions | None, title: str) -> list[np.ndarray]:
    """The pitch is drawn once; what moves is drawn on copies of it."""
    usage = np.bincount(game.skills, minlength=len(words)) / game.cycles
    shown = np.flatnonzero(usage) if regions is None else shown_skills(regions, usage)
    figure, axes = _paper(game, [legend_entry(skill, words[skill]) for skill in shown], title)
    if regions is not None:
        paint(axes, PITCH.frame, region_colours(regions, BACKGROUND))
    draw_pitch(axes, MUTED)
    axes.set(xticks=[], yticks=[])
    moving = _Moving(axes, game, words)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    still = canvas.copy_from_bbox(figure.bbox)

    def frame(cycle: int) -> np.ndarray:
        canvas.restore_region(still)
        for artist in moving.at(cycle):
            axes.draw_artist(artist)
        return np.array(canvas.buffer_rgba())[..., :3]

    stride = math.ceil(game.cycles / MOST_FRAMES)
    return [frame(cycle) for cycle in [*range(0, game.cycles, stride), game.cycles]]


def _paper(game: Game, skills: list[Artist], title: str) -> tuple[Figure, Axes]:
    legend = LINE * (len(skills) + 1)
    across, down = PITCH.inches, PITCH.inches * PITCH.frame.height
    width, height = LEFT + across + RIGHT, TOP + down + legend + 0.25
    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH)
    axes = figure.add_axes((LEFT / width, (legend + 0.2) / height, across / width, down / height))
    axes.set_title(title, loc="left", fontsize=12, pad=24)
    style = {"loc": "upper left", "borderaxespad": 0, "borderpad": 0, "fontsize": 9, "frameon": False}
    names = ["striker", "goalkeeper", "defenders" if len(game.players) > 3 else "defender"]
    colours = zip(names, _colours_of(len(game.players)))
    discs = [Line2D([], [], linestyle="", marker="o", markersize=8, color=c, label=name) for name, c in colours]
    left, up = LEFT / width, (legend + 0.1) / height
    figure.legend(handles=discs, bbox_to_anchor=(left, up), ncols=3, handletextpad=0.1, columnspacing=1.5, **style)
    figure.legend(handles=skills, bbox_to_anchor=(left, up - LINE / height), **style)
    return figure, axes


def _colours_of(num_players: int) -> list[str]:
    return [to_hex(np.divide(colour, 255)) for colour in player_colours(num_players)]


class _Moving:
    """What differs from frame to frame."""

    def __init__(self, axes: Axes, game: Game, words: Sequence[str]):
        self.game, self.words = game, words
        self.trail = axes.add_collection(LineCollection([], linewidth=3, capstyle="round", clip_on=False))
        self.players = _discs(axes, PLAYER_RADIUS, _colours_of(len(game.players)), "white")
        self.ball = _discs(axes, BALL_RADIUS, ["white"], INK)
        self.caption = axes.text(0, 1.02, "", transform=axes.transAxes, fontsize=10, color=INK)
        height = 0.12 if game.ball[:, 1].mean() < 0 else 0.88  # In the half with less of the trail: y points down.
        style = {"fontsize": 30 if game.status == GOAL else 18, "fontweight": "bold", "path_effects": GLOW}
        self.end = axes.text(0.5, height, "", transform=axes.transAxes, ha="center", va="center", color=INK, **style)
        self._artists = self.trail, self.players, self.ball, self.caption, self.end
        for artist in self._artists:
            artist.set_animated(True)

    def at(self, cycle: int) -> tuple[Artist, ...]:
        """The moment after so many cycles."""
        game, path = self.game, self.game.ball[: cycle + 1]
        self.trail.set(segments=_segments(path), color=[skill_colour(s) for s in game.skills[:cycle]])
        self.players.set_offsets(game.players[:, cycle])
        self.ball.set_offsets(game.ball[cycle])
        has_ended = cycle == game.cycles
        status = game.status_name.upper() if game.status == GOAL else game.status_name
        self.caption.set_text(f"cycle {cycle}: {status if has_ended else self.words[game.skills[cycle]]}")
        self.end.set_text(status if has_ended else "")
        return self._artists


def _segments(path: np.ndarray) -> list[np.ndarray]:
    return list(np.stack([path[:-1], path[1:]], 1))


def _discs(axes: Axes, radius: float, colours: list[str], edge: str) -> PathCollection:
    points_per_metre = 72 * PITCH.inches / (PITCH.frame.right - PITCH.frame.left)
    size, nowhere = (2 * radius * points_per_metre) ** 2, [np.nan] * len(colours)
    return axes.scatter(nowhere, nowhere, s=size, c=colours, edgecolors=edge, linewidths=1, clip_on=False)


COLUMNS, SIDE = 3, 2.9  # Panels in a row, and their width in inches.
STARTS_AT, PASSES_AT = 26, 34  # Size of points.


def draw_paths(games: Sequence[Game], policy: ASAPPolicy, task: PlacedTask, title: str) -> Figure:
    """A panel per game. Where the ball passes the first defender, points on either path show how far apart they were."""
    if not games:
        raise UserError("games", "there is nothing to show", cure="give at least one game")
    columns = min(COLUMNS, len(games))
    rows = math.ceil(len(games) / columns)
    height = rows * (SIDE * PITCH.frame.height + 0.3) + 1.0
    figure = Figure(figsize=(columns * SIDE + 0.2, height), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, game in zip(panels, games):
        _draw_path(axes, game)
    for axes in panels[len(games) :]:
        axes.set_visible(False)
    regions = pixel_regions(policy, task)
    used = sorted({int(skill) for game in games for skill in game.skills})
    entries = [legend_entry(s, f"ball, {skill_in_words(policy, task, regions, s)}") for s in used]
    entries += [Line2D([], [], color=INK, linewidth=1.4, label="defender")]
    entries += [Line2D([], [], color=MUTED, linewidth=1.0, linestyle=":", label="striker")]
    figure.legend(handles=entries, loc="outside lower left", ncols=2, fontsize=9, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    return figure


def _draw_path(axes: Axes, game: Game) -> None:
    draw_pitch(axes, MUTED)
    axes.set(xticks=[], yticks=[])
    axes.set_title(f"{game.status_name} after {game.cycles} cycles", loc="left", fontsize=9, pad=3)
    axes.plot(*game.players[0].T, color=MUTED, linewidth=1.0, linestyle=":", zorder=3)
    for defender in game.players[2:]:
        axes.plot(*defender.T, color=INK, linewidth=1.4, zorder=4)
        axes.scatter(*defender[0], s=STARTS_AT, color=INK, zorder=5)
    style = {"linewidths": 2.4, "capstyle": "round", "clip_on": False, "zorder": 6}
    axes.add_collection(LineCollection(_segments(game.ball), colors=[skill_colour(s) for s in game.skills], **style))
    axes.scatter(*game.ball[0], s=STARTS_AT, facecolor="white", edgecolor=INK, linewidth=1.0, zorder=7)
    moment = game.passes_defender
    if moment is not None:
        both = np.stack([game.ball[moment], game.players[2, moment]])
        axes.plot(*both.T, color=INK, linewidth=1.0, zorder=7)
        axes.scatter(*both.T, s=PASSES_AT, facecolor="white", edgecolor=INK, linewidth=1.2, zorder=8)
