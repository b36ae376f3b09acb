"""The figures in one place. Each function returns a `matplotlib.figure.Figure`, which the caller saves: no pyplot."""

from asap.show.figures.comparison import compare_curves, seed_dots
from asap.show.figures.curves import learning_curves, skill_usage
from asap.show.figures.gallery import partition_gallery
from asap.show.figures.partition_map import partition_map, policy_map

__all__ = [
    "compare_curves",
    "learning_curves",
    "partition_gallery",
    "partition_map",
    "policy_map",
    "seed_dots",
    "skill_usage",
]
