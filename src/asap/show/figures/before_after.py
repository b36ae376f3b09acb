"""Two pictures beside each other, as the partition of given rules and of what learning made of them."""

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DPI = 150


def side_by_side(figures: Sequence[Figure], title: str) -> Figure:
    """Each as it would be saved by itself: maps have legends, panels and colour bars of their own."""
    images = [_drawn(figure) for figure in figures]
    width = sum(image.shape[1] for image in images) / DPI
    height = max(image.shape[0] for image in images) / DPI + 0.7
    with matplotlib.rc_context({"text.parse_math": False}):  # A name may have a $ in it.
        whole = Figure(figsize=(width, height), layout="constrained")
        whole.suptitle(title, x=0.01, ha="left", fontsize=13)
        ratios = [image.shape[1] for image in images]
        panels = whole.subplots(1, len(images), width_ratios=ratios, squeeze=False)[0]
        for axes, image in zip(panels, images):
            axes.imshow(image, interpolation="antialiased")
            axes.set_anchor("N")
            axes.set_axis_off()
    return whole


def _drawn(figure: Figure) -> np.ndarray:
    """(height, width, 4)"""
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba()).copy()
