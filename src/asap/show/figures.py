"""The figures in one place. Each function returns a `matplotlib.figure.Figure`, which the caller saves: no pyplot."""

from asap.show.curves import learning_curves
from asap.show.partition_map import partition_map
from asap.show.usage import skill_usage

__all__ = ["learning_curves", "partition_map", "skill_usage"]
