"""What is lost on the way from a learned policy to its printed rules, in numbers and in words."""

from dataclasses import dataclass

import numpy as np

from asap.base.numbers import number, percent
from asap.base.spec import TaskSet
from asap.experience.protocol import Evaluation

LOSS_COUNTS = 2.0  # Standard errors.


@dataclass(frozen=True)
class MeanReturn:
    mean: float
    error: float  # Standard error.


@dataclass(frozen=True)
class Pair:
    """The same episodes, as learned and as printed."""

    learned: MeanReturn
    printed: MeanReturn
    difference: MeanReturn  # Printed less learned, episode by episode.

    @property
    def loses(self) -> bool:
        """Whether the printed rules return less than the interval of what was learned, and not by chance."""
        least = self.learned.mean - LOSS_COUNTS * self.learned.error
        return self.printed.mean < least - 1e-9 and self.difference.mean < -LOSS_COUNTS * self.difference.error


@dataclass(frozen=True)
class Returns:
    drawn: Pair  # Skills and actions are drawn.
    likeliest: Pair  # Always the most probable skill, and of it the most probable action.
    episodes: int  # Of each.

    @property
    def loses(self) -> bool:
        return self.drawn.loses or self.likeliest.loses


def returns_of(
    tasks: TaskSet, drawn: Evaluation, likeliest: Evaluation, printed_drawn: Evaluation, printed_likeliest: Evaluation
) -> Returns:
    def pair(learned: Evaluation, printed: Evaluation) -> Pair:
        each = [np.einsum("m,mn->n", tasks.shares, played.returns[0]) for played in (learned, printed)]
        return Pair(*(_mean(values) for values in (*each, each[1] - each[0])))

    return Returns(pair(drawn, printed_drawn), pair(likeliest, printed_likeliest), drawn.returns.shape[-1])


def _mean(values: np.ndarray) -> MeanReturn:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return MeanReturn(float(values.mean()), float(error))


def returns_in_words(returns: Returns) -> list[str]:
    drawn, likeliest = returns.drawn.learned, returns.likeliest.learned
    lines = [
        f"Mean return of {returns.episodes} episodes each, +- its standard error:",
        f"  skills and actions drawn:        {_pair_in_words(returns.drawn)}",
        f"  most probable skill and action:  {_pair_in_words(returns.likeliest)}",
    ]
    if drawn.mean - likeliest.mean > LOSS_COUNTS * np.hypot(drawn.error, likeliest.error):
        lines.append(
            f"Draw skills and actions: always the most probable ones return {number(drawn.mean - likeliest.mean)} less."
        )
    return lines


def _pair_in_words(pair: Pair) -> str:
    learned, printed = (f"{number(each.mean)} +- {number(each.error)}" for each in (pair.learned, pair.printed))
    return f"{learned} as learned, {printed} as printed{'' if learned == printed else _lost(pair)}"


def _lost(pair: Pair) -> str:
    """Where the difference is within twice its standard error, it may as well be chance."""
    change, error = pair.difference.mean, pair.difference.error
    words = f"{number(abs(change))} {'less' if change < 0 else 'more'}"
    if abs(change) <= LOSS_COUNTS * error:
        return f" ({words}, which may be chance)"
    are_positive = pair.learned.mean > 0 and pair.printed.mean >= 0  # A share of a negative return says nothing.
    return f" ({words}, {percent(abs(change / pair.learned.mean))})" if are_positive else f" ({words})"
