"""The figures in one place. Each function returns a `matplotlib.figure.Figure`, which the caller saves: no pyplot."""

from asap.show.compare import compare_curves
from asap.show.curves import learning_curves
from asap.show.dots import seed_dots
from asap.show.gallery import partition_gallery
from asap.show.partition_map import partition_map
from asap.show.usage import skill_usage

__all__ = ["compare_curves", "learning_curves", "partition_gallery", "partition_map", "seed_dots", "skill_usage"]
