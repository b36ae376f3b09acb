"""One colour per skill, the same in every picture and legend, and others for methods; colour-blind readers tell them
apart."""

import matplotlib.colors
import matplotlib.patheffects
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from asap.base.numbers import percent
from asap.policy.regions import OWNS, Regions

# Okabe and Ito (2008), ordered so that the first skills differ most; grey stands in for their black, which is kept for
# walls, lines and arrows.
SKILL_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#4D4D4D")
# Paul Tol's muted set: whole methods are compared in other colours than skills.
METHOD_COLOURS = ("#332288", "#CC6677", "#44AA99", "#882255", "#999933", "#117733", "#AA4499", "#88CCEE")
CONTROL_COLOURS = "viridis"  # Lightness grows along it: it can be read without colours, too.
LINE_STYLES = ("-", "--", ":", "-.")

INK = "#1A1A1A"  # Text, walls, arrows.
MUTED = "#6B6B6B"  # Reference lines and second-rank text.
CURVE = "#0B3C5D"  # What does not belong to one skill: returns.
GLOW = [matplotlib.patheffects.withStroke(linewidth=2.5, foreground="white")]  # Readable on any colour: words,
WIDE_GLOW = [matplotlib.patheffects.withStroke(linewidth=5.5, foreground="white")]  # and thick lines.

PALE = 0.35  # How much of its colour a skill has behind the states that were visited.
PALEST = 0.25  # How much of that it keeps where it is no likelier than any other.

_SHADES = ((INK, 0.0), ("#000000", 0.45), ("#FFFFFF", 0.5))


def skill_colour(skill: int) -> str:
    """The colour of a skill as hex.

    Skills 0-7 have the eight colours as they are, 8-15 the same darkened, 16-23 the same lightened; from 24 on the
    colours come again, and the line style tells them apart.
    """
    rounds, index = divmod(skill, len(SKILL_COLOURS))
    towards, amount = _SHADES[rounds % len(_SHADES)]
    return blend(SKILL_COLOURS[index], towards, amount)


def skill_line_style(skill: int) -> str:
    """Solid for skills 0-7, dashed for 8-15, dotted for 16-23, dash-dotted for 24-31, then again."""
    return LINE_STYLES[skill // len(SKILL_COLOURS) % len(LINE_STYLES)]


def method_colour(method: int) -> str:
    return METHOD_COLOURS[method % len(METHOD_COLOURS)]


def method_line_style(method: int) -> str:
    """Neighbours differ; from the ninth method on the colours come again, each with another style."""
    return LINE_STYLES[(method + method // len(METHOD_COLOURS)) % len(LINE_STYLES)]


def blend(colour: str, towards: str, amount: float) -> str:
    """The colour on the straight line between two, as hex."""
    start, end = (np.array(matplotlib.colors.to_rgb(c)) for c in (colour, towards))
    return matplotlib.colors.to_hex((1 - amount) * start + amount * end).upper()


def contrast(colour: Float[np.ndarray, "3"]) -> str:
    """What shows on a colour: dark on light ones, white on dark ones."""
    return INK if float(np.dot(colour, (0.299, 0.587, 0.114))) > 0.5 else "white"


def region_colours(regions: Regions, strength: float = 1.0) -> Float[np.ndarray, "N 3"]:
    """The colour of the most probable skill of each state: so much of it where that is certain, and PALEST of that where
    all skills are as probable."""
    count = regions.skill_probs.shape[-1]
    colours = np.array([matplotlib.colors.to_rgb(skill_colour(s)) for s in range(count)])
    certainty = (regions.skill_probs.max(-1) - 1 / count) / (1 - 1 / count) if count > 1 else 1.0
    paint = np.broadcast_to(strength * (PALEST + (1 - PALEST) * certainty), regions.rulers.shape)[:, None]
    return paint * colours[regions.rulers] + (1 - paint)


def point_colours(regions: Regions) -> np.ndarray:
    """The same for points on a paler background."""
    return np.array([blend(skill_colour(s), INK, 0.15) for s in range(regions.skill_probs.shape[-1])])[regions.rulers]


def control_scale(*values: Float[np.ndarray, "n"]) -> ScalarMappable:
    """Colours for one number of an action, from the lowest to the highest value in a picture."""
    low, high = float(min(each.min() for each in values)), float(max(each.max() for each in values))
    if high - low < 1e-3 * max(abs(low), abs(high), 1e-6):  # One value: its colour is that of the middle.
        margin = 0.5 * max(abs(low), 1e-6)
        low, high = low - margin, high + margin
    return ScalarMappable(matplotlib.colors.Normalize(low, high), CONTROL_COLOURS)


def draw_colour_bar(axes: Axes, scale: ScalarMappable, name: str) -> None:
    """Below the axes, where no boundary has a label."""
    ticks = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
    bar = axes.figure.colorbar(scale, ax=axes, location="bottom", aspect=45, pad=0.02, ticks=ticks)
    bar.set_label(name, fontsize=10)
    bar.outline.set_linewidth(0.6)


def shown_skills(regions: Regions, usage: np.ndarray | None) -> list[int]:
    """The skills that own area or are used."""
    weights = regions.shares if usage is None else np.maximum(regions.shares, usage)
    return np.flatnonzero(weights >= OWNS).tolist()


def legend_entry(skill: int, words: str, usage: np.ndarray | None = None) -> Patch:
    used = "" if usage is None else f" (used {percent(usage[skill])})"
    return Patch(facecolor=skill_colour(skill), edgecolor=INK, linewidth=0.6, label=words + used)
