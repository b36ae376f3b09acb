"""What is asked of those who play, and what they give back.

An episode is a function of its id, of the policy and of the environment: who plays it, when, and how often it was tried
makes no difference. That is why any number of workers gives the same bits.
"""

import hashlib
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

# What an episode is played for; numbers count anew in each stream.
TRAINING, SEARCH, EVALUATION, CHECK = range(4)
_RESET, _CHOICES = range(2)


class EpisodeId(NamedTuple):
    """The root of all that is random in an episode."""

    seed: int  # Of the run.
    stream: int
    number: int  # From 0 within its stream.

    @property
    def reset_seed(self) -> int:
        """What the environment's `reset` is given."""
        return int(self._words(_RESET).generate_state(1, np.uint32)[0] >> 1)

    def choices(self) -> np.random.Generator:
        """What the policy's draws are made with."""
        return np.random.Generator(np.random.Philox(self._words(_CHOICES)))

    def _words(self, purpose: int) -> np.random.SeedSequence:
        # Two words for the seed, always: NumPy would take the ids for its upper half otherwise.
        return np.random.SeedSequence([self.seed >> 32, self.seed & 0xFFFFFFFF, self.stream, self.number, purpose])


class Plan(NamedTuple):
    """A policy for a player: what is fixed about it, as JSON has it, and its numbers."""

    static: dict[str, Any]
    arrays: dict[str, np.ndarray]


class Work(NamedTuple):
    """A chunk of episodes, all played by one policy. Chunks are the same whoever plays them."""

    number: int  # Tells this chunk from all others of its `Workers`.
    plan: Plan
    episodes: tuple[EpisodeId, ...]
    deterministic: bool = False


class Played(NamedTuple):
    """One complete episode."""

    episode: EpisodeId
    observations: Float[np.ndarray, "T+1 O"]  # The last one is where the episode ended.
    skills: Int[np.ndarray, "T"]
    actions: Int[np.ndarray, "T"] | Float[np.ndarray, "T A"]  # As drawn: bounds are for the environment to see.
    rewards: Float[np.ndarray, "T"]
    terminated: bool
    success: bool | None  # Where the environment tells, by "is_success" or "success" in its infos.
    notes: tuple[str, ...] = ()  # Remarks of the border, for the user to see once.

    @property
    def length(self) -> int:
        return len(self.rewards)

    @property
    def total(self) -> float:
        return float(self.rewards.sum(dtype=np.float64))


class Failed(NamedTuple):
    """Instead of an episode: what the environment did wrong, in one line, and how to see it again."""

    episode: EpisodeId
    field: str  # As in UserError.
    what: str
    value: str
    step: int
    actions: list[Any]  # Up to the failure, so that it can be played again.
    traceback: str  # Of the environment's exception, if there was one.


class Finished(NamedTuple):
    """What comes back for a chunk: its episodes in their order, or the first failure."""

    number: int
    played: tuple[Played, ...]
    failed: Failed | None = None


def digest(played: Played) -> str:
    """Of all but the notes: those are made once, in whichever episode came first at a worker."""
    total = hashlib.sha256(repr((*played.episode, played.terminated, played.success)).encode())
    for array in (played.observations, played.skills, played.actions, played.rewards):
        total.update(f"{array.dtype.name}{array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()
