"""Episodes by their ids, and as they come back when they were played. Nothing here imports JAX.

An episode is a function of its id, of the policy and of the environment: who plays it, when, and how often it was tried
makes no difference. That is why any number of workers gives the same bits.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from asap.base.errors import UserError

MOST_INTEGER = 2**63 - 1  # In settings and their files.
MOST_EPISODES = 10_000_000  # To ask for at once: what they came to is kept in memory.
# What an episode is played for; numbers count anew in each stream.
TRAINING, SEARCH, EVALUATION, CHECK, COLLECTION, RANDOM, PAIRS, PICK = STREAMS = range(8)
_RESET, _CHOICES, _DRAWN, _VARIED = range(4)


def require_episodes(field: str, count: object) -> int:
    """How many episodes a user asks for."""
    return require_integer(field, count, 1, MOST_EPISODES)


def require_seed(field: str, seed: object) -> int:
    return require_integer(field, seed, 0)


def integer(field: str, value: object, cure: str = "leave it out for the default") -> int:
    """One of a user's program, which may be NumPy's, or a float such as 1e4."""
    is_float = isinstance(value, float | np.floating) and float(value).is_integer()
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (is_float or is_integer):
        raise UserError(field, "must be an integer", repr(value)[:80], cure)
    return int(value)


def integer_or_none(field: str, value: object) -> int | None:
    return None if value is None else integer(field, value)


def require_integer(field: str, value: object, low: int, high: int = MOST_INTEGER) -> int:
    number = integer(field, value)
    if not low <= number <= high:
        got = str(number) if number.bit_length() < 128 else "one of very many digits"
        raise UserError(field, f"must be an integer from {low} to {high}", got, "the default will do")
    return number


class EpisodeId(NamedTuple):
    """The root of all that is random in an episode, and the task it is played on.

    The task has no part in what is random: episodes of one number begin alike on all tasks, as far as these allow it.
    """

    seed: int  # Of the run.
    stream: int
    number: int  # From 0 within its stream.
    task: int = 0  # By its index in the run's TaskSet.

    @property
    def reset_seed(self) -> int:
        """What the environment's `reset` is given."""
        return int(self._words(_RESET).generate_state(1, np.uint32)[0] >> 1)

    def uniform(self) -> float:
        """A number in [0, 1) that decides what is drawn with the episode: its task, where there are several."""
        return float(np.random.Generator(np.random.Philox(self._words(_DRAWN))).random())

    def drawn(self, name: str) -> float:
        """A number in [0, 1) that decides a parameter of this name, where each episode draws its own; the same on all tasks."""
        words = self._words(_VARIED, *name.encode())
        return float(np.random.Generator(np.random.Philox(words)).random())

    def choices(self) -> np.random.Generator:
        """What the policy's draws are made with."""
        return np.random.Generator(np.random.Philox(self._words(_CHOICES)))

    def _words(self, purpose: int, *more: int) -> np.random.SeedSequence:
        # Two words for the seed, always: NumPy would take the ids for its upper half otherwise.
        seed = self.seed >> 32, self.seed & 0xFFFFFFFF
        return np.random.SeedSequence([*seed, self.stream, self.number, purpose, *more])


class Played(NamedTuple):
    """One complete episode."""

    episode: EpisodeId
    observations: Float[np.ndarray, "T+1 O"]  # The last one is where the episode ended.
    skills: Int[np.ndarray, "T"]
    actions: Int[np.ndarray, "T"] | Float[np.ndarray, "T A"]  # As drawn: bounds are for the environment to see.
    rewards: Float[np.ndarray, "T"]
    terminated: bool
    success: bool | None  # Where the environment tells, by "is_success" or "success" in its infos.
    notes: tuple[str, ...] = ()  # What the user should see once.

    @property
    def length(self) -> int:
        return len(self.rewards)

    @property
    def total(self) -> float:
        return float(self.rewards.sum(dtype=np.float64))
