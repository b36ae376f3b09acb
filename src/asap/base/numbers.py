"""How numbers and shares are written for people: two or three significant digits, whole percents."""

from collections.abc import Iterable, Sequence

import numpy as np


def number(value: float) -> str:
    """Three significant digits, without an exponent where it can be avoided."""
    text = f"{value:.3g}"
    if "e" in text and 1 < abs(value) < 1e6:
        text = f"{float(text):.0f}"
    return "0" if text == "-0" else text


def exact(value: float) -> str:
    """All digits of a number, which may have been rounded before."""
    if value and not 1e-4 <= abs(value) < 1e7:
        return np.format_float_scientific(value, trim="-", exp_digits=2)
    return np.format_float_positional(value + 0.0, trim="-")


def percent(share: float) -> str:
    """Whole percents; what would round to 0 though it is not is `<1 %`."""
    if 0 < share < 0.005:
        return "<1 %"
    return f"{100 * share:.0f} %"


def main_actions(names: Iterable[str], probabilities: Iterable[float], smallest: float) -> str:
    """`right 55 %, up 44 %`: by probability, without those below `smallest`."""
    ordered = sorted(zip(names, map(float, probabilities)), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {percent(p)}" for name, p in ordered if p >= smallest)


def play_in_words(episodes: int | None, deterministic: bool) -> str:
    """What a mean return is of; None are the episodes at the end of training."""
    count = "in the last fifth of training" if episodes is None else f"over {counted(episodes, 'episode')}"
    return f"{count}, {'most probable actions' if deterministic else 'actions drawn'}"


def counted(count: int, noun: str) -> str:
    """`1 episode`, `1,000 episodes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]]))


def ranges_in_words(numbers: Sequence[str]) -> str:
    """`0, 2 to 5`."""
    runs: list[list[int]] = []
    for number in map(int, numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
