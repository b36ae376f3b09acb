"""Returns in words, as several commands print them."""

from collections.abc import Mapping
from typing import Any


def number(value: float) -> str:
    """Returns of the rooms are tens, those of soccer are about one."""
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def in_words(returns: Mapping[str, Any]) -> list[str]:
    """The mean return with what it is of; and that of each seed, where there are several."""
    from asap.base.numbers import play_in_words

    how, seeds, interval = play_in_words(returns["episodes"], returns["deterministic"]), returns["seeds"], ""
    if returns["ci"] is not None:
        interval = ", 95 % interval {} to {}".format(*map(number, returns["ci"]))
    if len(seeds) == 1:
        return [f"{number(returns['iqm'])} {how} (one seed{interval})"]
    of_seeds = f"interquartile mean (IQM) of {len(seeds)} seeds{interval}"
    each = ", ".join(map(number, returns["all"]))
    return [f"{number(returns['iqm'])} {how} ({of_seeds})", f"seeds {seeds[0]} to {seeds[-1]}: {each}"]


def other_in_words(verdict: Mapping[str, Any] | None, deterministic: bool) -> str | None:
    """What is known of the return with actions chosen the other way."""
    from asap.base.numbers import play_in_words
    from asap.base.stats import iqm

    for one in (verdict["evaluated"], verdict["trained"]) if verdict else ():
        if one is not None and one["deterministic"] != deterministic:
            of_seeds = "" if len(one["return"]) == 1 else f" (IQM of {len(one['return'])} seeds)"
            how = play_in_words(one["episodes"], one["deterministic"])
            return f"{number(float(iqm(one['return'])))} {how}{of_seeds}"
    return None


def references_in_words(reference: Mapping[str, Any]) -> str:
    best = "" if reference["dp_optimal"] is None else f", dynamic programming {number(reference['dp_optimal'])}"
    start, good = number(reference["misspecified"]), number(reference["approx_optimal"])
    return f"misspecified start {start}, approximately optimal partition {good}{best}"
