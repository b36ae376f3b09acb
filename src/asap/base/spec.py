"""What is fixed about a task, for all who learn it, play it or show it. Nothing here imports JAX."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Spec:
    """What is fixed about a family of tasks."""

    observation_names: tuple[str, ...]
    observation_low: tuple[float, ...]
    observation_high: tuple[float, ...]
    unit: str
    action_names: tuple[str, ...]
    horizon: int
    discount: float
    continuous: bool = False  # Actions are vectors, and action_names their dimensions.

    @property
    def num_actions(self) -> int:
        return len(self.action_names)


@runtime_checkable
class Learnable(Protocol):
    """What a policy for a task is built from, whoever plays the task: we, or workers on the host."""

    name: str
    basis: str  # As in PolicyConfig, and so on.
    inputs: tuple[str, ...]
    frequencies: tuple[tuple[float, ...], ...]
    misspecified: tuple[float, ...]  # beta of the first hyperplane; empty where there is no such thing.
    approximate: tuple[float, ...]
    settings: tuple[str, ...]

    @property
    def spec(self) -> Spec: ...

    @property
    def descriptor_size(self) -> int: ...
