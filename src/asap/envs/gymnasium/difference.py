"""Whether parameters change anything: the variant is stepped beside the original, from the same seed and actions."""

from typing import NamedTuple

import numpy as np

from asap.envs.gymnasium.checked_env import CheckedEnv
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.envs.gymnasium.parameters import in_short
from asap.envs.gymnasium.variant import settable_of

STEPS = 200


class Difference(NamedTuple):
    """What came of it."""

    base: str
    numbers: dict[str, tuple[float, float | None]]  # By parameter: now, and before where that is known.
    step: int | None  # The first that differs, counted over episodes; 0 is the first reset. None: none did.

    @property
    def in_words(self) -> str:
        said = ", ".join(
            f"{name} {in_short(now)}{'' if before is None else f' (was {in_short(before)})'}"
            for name, (now, before) in self.numbers.items()
        )
        if self.step is None:
            return f"no difference from {self.base} in {STEPS} steps: {said}"
        at = "the reset" if not self.step else f"step {self.step}"
        return f"differs from {self.base} from {at} on: {said}"


def difference(source: EnvSource, limits: EnvLimits, seed: int) -> Difference:
    """Of a source with parameters, of a range the value in the middle."""
    settable, parameters = settable_of(source), source.named.of_episode(None).parameters
    numbers = {one.name: (one.low, settable.value(one.name)) for one in parameters}
    pair = [CheckedEnv(each, limits) for each in (source, source.without_parameters())]
    try:
        return Difference(source.base, numbers, _first_difference(pair, seed))
    finally:
        for env in pair:
            env.close()


def _first_difference(pair: list[CheckedEnv], seed: int) -> int | None:
    generator, step = np.random.default_rng(seed), 0
    while step < STEPS:
        if _differ(*(env.start(seed) for env in pair)):
            return step
        ended = False
        while step < STEPS and not ended:
            step, action = step + 1, pair[0].sample(generator)
            (x, reward, ended), (other_x, other_reward, other_ended) = (env.step(action) for env in pair)
            if _differ(x, other_x) or (reward, ended) != (other_reward, other_ended):
                return step
        seed += 1
    return None


def _differ(x: np.ndarray, other: np.ndarray) -> bool:
    return x.shape != other.shape or not np.array_equal(x, other)
