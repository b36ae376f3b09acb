"""Labels for axes that are not linear."""

from collections.abc import Sequence

from matplotlib.axis import Axis

from asap.show.labels import Label


def on_scale(axis: Axis, labels: Sequence[Label]) -> list[Label]:
    """The labels moved to where a linear axis with the same limits would have them: labels are placed linearly."""
    scale = axis.get_transform().transform
    low, high = axis.get_view_interval()
    first, last = scale([low, high])
    shares = [(scale([label.at])[0] - first) / (last - first) for label in labels]
    return [label._replace(at=low + share * (high - low)) for label, share in zip(labels, shares)]
