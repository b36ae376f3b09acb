"""The figures in one place. Each function returns a `matplotlib.figure.Figure`, which the caller saves: no pyplot."""

from asap.show.figures.before_after import side_by_side
from asap.show.figures.curves import compare_curves, learning_curves, skill_usage
from asap.show.figures.policy_map import partition_gallery, policy_map
from asap.show.figures.strip_plot import strip_plot
from asap.show.figures.task_rows import task_rows

__all__ = [
    "compare_curves",
    "learning_curves",
    "partition_gallery",
    "policy_map",
    "side_by_side",
    "skill_usage",
    "strip_plot",
    "task_rows",
]
