"""What is asked of those who play, and what they give back.

An episode is a function of its id, of the policy and of the environment: who plays it, when, and how often it was tried
makes no difference. That is why any number of workers gives the same bits.
"""

import hashlib
from typing import Any, NamedTuple

from asap.base.episodes import EpisodeId, Played
from asap.policy.host import Plan

MAKING = -1  # In place of a step: the environment is being made.


class Work(NamedTuple):
    """A chunk of episodes, all played by one policy. Chunks are the same whoever plays them."""

    number: int  # Tells this chunk from all others of its `Workers`.
    plan: Plan
    episodes: tuple[EpisodeId, ...]
    deterministic: bool = False


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
