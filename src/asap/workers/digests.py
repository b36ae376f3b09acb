"""A fingerprint of an episode, to tell whether two are the same to the bit."""

import hashlib

from asap.workers.work import Played


def digest(played: Played) -> str:
    """Of all but the notes: those are made once, in whichever episode came first at a worker."""
    total = hashlib.sha256(repr((*played.episode, played.terminated, played.success)).encode())
    for array in (played.observations, played.skills, played.actions, played.rewards):
        total.update(f"{array.dtype.name}{array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()
