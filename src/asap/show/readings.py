"""What can be read off a policy, as plain data: Python numbers and strings only, so that JSON can hold it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PlaneInTask:
    """A hyperplane when m is known."""

    inequality: str  # Its positive side, b_k = 1.
    soft_width: float | None  # Distance from 10 % to 90 %, if the plane is linear in the observations.
    positive_share: float | None  # Share of the observation box on the positive side, if there is a box.


@dataclass(frozen=True)
class PlaneReading:
    plane: int  # Counted from 1, as the paper does.
    beta: tuple[float, ...]  # As learned; an inequality may show it multiplied by a power of ten.
    features: tuple[str, ...]
    tasks: dict[str, PlaneInTask]


@dataclass(frozen=True)
class SkillReading:
    skill: int
    sides: tuple[int, ...]  # Per plane: 1 where it is positive, -1 where it is negative.
    actions: dict[str, float] | None  # Probabilities, if they are the same in every state.
    scores: dict[str, dict[str, str]] | None  # Otherwise, per task and action: log of the chance, up to a common term.
    usage: float | None  # Share of the steps.
    duration: float | None  # Mean number of steps at a time.
    used: bool


@dataclass(frozen=True)
class PolicyReading:
    tasks: tuple[str, ...]
    unit: str
    alpha_beta: float
    termination: float | None
    planes: tuple[PlaneReading, ...]
    skills: tuple[SkillReading, ...]
