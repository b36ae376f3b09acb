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


@dataclass(frozen=True)
class Sum:
    """Of coefficient times term, and a constant; all as rounded."""

    terms: dict[str, float]  # What makes the most difference from state to state comes first.
    constant: float


@dataclass(frozen=True)
class PlaneRule:
    plane: int  # Counted from 1.
    value: Sum  # The border is where it is 0.
    above: int  # 1 if the plane's positive side, b_k = 1, is where the value is positive, otherwise 0.
    reach: float  # The value from which on the side above has a chance of 90 %.


@dataclass(frozen=True)
class ControlRule:
    """A number that is set: drawn around `mean`, and then kept within its bounds."""

    mean: Sum
    deviation: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class SkillRule:
    skill: int
    sides: tuple[int, ...]  # Per plane: 1 where its value is positive, -1 where it is negative.
    states: tuple[str, ...] | None  # Where it is the likeliest, if states are numbered.
    actions: dict[str, float] | None  # One of these three: probabilities,
    scores: dict[str, Sum] | None  # logarithms of the chances, up to a common term,
    controls: dict[str, ControlRule] | None  # or numbers to set.
    usage: float | None
    duration: float | None
    used: bool


@dataclass(frozen=True)
class MeanReturn:
    mean: float
    error: float  # Standard error.


@dataclass(frozen=True)
class Losses:
    """What is lost on the way to rules that can be followed by hand."""

    stochastic: MeanReturn  # As learned.
    deterministic: MeanReturn  # Always the likeliest skill, and of it the likeliest action.
    rounded: MeanReturn  # The same with the printed numbers.
    episodes: int  # Of each.


@dataclass(frozen=True)
class RulesReading:
    """A policy as rules that can be followed by hand."""

    task: str
    termination: float | None
    planes: tuple[PlaneRule, ...]
    skills: tuple[SkillRule, ...]
    scaled: dict[str, tuple[float, float]]  # Inputs that count in deviations from their mean: mean and deviation.
    units: dict[str, dict[str, float]]  # Units of a network that occur, with the weight of each input.
    losses: Losses | None
    normalized: bool  # Observations are not in the environment's units, but in those of NormalizeObservation.
