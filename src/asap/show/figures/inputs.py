"""The two inputs that decide most, and the states that a map over them shows."""

import itertools

import numpy as np
from jaxtyping import Float

from asap.base.numbers import number
from asap.base.spec import Task
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import Regions, controls_at
from asap.show.figures.areas import Frame

MOST_CANDIDATES = 16
MOST_OTHERS = 4
COLUMNS, ROWS = 240, 180  # Pixels.
LEFT_OUT = 0.005  # Share of the states at each end that may lie outside of the picture.


def mean_controls(policy: ASAPPolicy, task: Task, regions: Regions) -> Float[np.ndarray, "N A"]:
    """What the skill that rules there sets on average."""
    return controls_at(policy, regions.rulers, regions.observations, task.descriptor, task.spec)


def deciding_inputs(visited: Regions, controls: Float[np.ndarray, "N A"] | None = None) -> tuple[int, int]:
    """The two inputs from which one can tell best on which side of the planes a state lies, and which numbers are set;
    without either the first two.

    Not those with the largest coefficients: inputs that go together may cancel each other.
    """
    observations = _standardized(visited.observations)
    decided = _standardized(np.tanh(visited.margins / 2))
    if controls is not None:
        decided = np.concatenate([decided, _standardized(controls)], 1)

    def explained(pair: tuple[int, int]) -> float:
        """How much of what is decided is linear in these inputs."""
        inputs = observations[:, pair]
        return float(np.square(inputs @ _slopes(inputs, decided)).sum())

    single = np.square(observations.T @ decided).sum(1)
    candidates = sorted(np.argsort(-single, kind="stable")[:MOST_CANDIDATES].tolist())
    return max(itertools.combinations(candidates, 2), key=explained)


def _standardized(values: Float[np.ndarray, "N n"]) -> Float[np.ndarray, "N n"]:
    deviations = values.std(0, dtype=float)
    return (values - values.mean(0, dtype=float)) / np.where(deviations > 0, deviations, 1.0)


def _slopes(inputs: Float[np.ndarray, "N n"], values: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "n m"]:
    return np.linalg.lstsq(inputs, values, rcond=1e-6)[0]


def span(values: Float[np.ndarray, "N"]) -> tuple[float, float]:
    """What was observed, with a margin."""
    low, high = np.quantile(values.astype(float), [LEFT_OUT, 1 - LEFT_OUT])
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def frame_over(observations: Float[np.ndarray, "N O"], across: int, up: int) -> Frame:
    return Frame(*span(observations[:, across]), *span(observations[:, up]), COLUMNS, ROWS)


def states_at(
    observations: Float[np.ndarray, "N O"], across: int, up: int, places: Float[np.ndarray, "n 2"]
) -> Float[np.ndarray, "n O"]:
    """At each place what is observed there on average, as far as that is linear in the two inputs."""
    mean, drawn = observations.mean(0, dtype=float), [across, up]
    usual = mean + (places - mean[drawn]) @ _slopes(observations[:, drawn] - mean[drawn], observations - mean)
    usual[:, drawn] = places
    return usual


def others_in_words(task: Task, observations: Float[np.ndarray, "N O"], drawn: tuple[int, int]) -> str:
    """A second line of a caption: where the inputs without an axis are. They go with the axes, around their means."""
    means = observations.mean(0, dtype=float)
    others = [f"{name} {number(means[j])}" for j, name in enumerate(task.spec.observation_names) if j not in drawn]
    more = len(others) - MOST_OTHERS
    shown = others[:MOST_OTHERS] + ([f"{more} more"] if more > 0 else [])
    return f"\nother inputs as is usual there; their means: {', '.join(shown)}" if others else ""
