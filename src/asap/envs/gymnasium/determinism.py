"""Whether an episode of an environment depends on its seed and the actions, and on nothing else."""

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asap.base.episodes import CHECK, EpisodeId
from asap.envs.gymnasium.checked_env import CheckedEnv, EnvError
from asap.envs.gymnasium.errors import explained

MOST_STEPS = 1000


def check(make_env: Callable[[], CheckedEnv], seeds: Sequence[int]) -> str | None:
    """Plays each seed's episode twice, the second time in another environment and in reverse order.

    None where both times gave the same, otherwise a sentence about the first that did not; RunError where one failed.
    """
    first, second = digests(make_env, seeds), digests(make_env, seeds[::-1])
    changed = [number for number, seed in enumerate(seeds) if first[seed] != second[seed]]
    if not changed:
        return None
    number, seed = changed[0], seeds[changed[0]]
    reason = "the environment is not deterministic"
    if digests(make_env, [seed]) == digests(make_env, [seed]):
        reason = "state of the environment leaks into the next episode"
    return f"episode {number} gave two different digests for the same seed ({seed}): {reason}"


def digests(make_env: Callable[[], CheckedEnv], seeds: Sequence[int]) -> dict[int, bytes]:
    env, digests = make_env(), {}
    try:
        for seed in seeds:
            digests[seed] = _digest(env, seed)
    except EnvError as trouble:
        cure = "it was one of those played to see whether the environment is deterministic"
        raise explained(trouble, "an episode", seed, cure) from trouble
    finally:
        env.close()
    return digests


def _digest(env: CheckedEnv, seed: int) -> bytes:
    """Of an episode with actions that the seed gives, or of its first steps."""
    generator, digest = np.random.default_rng(seed), hashlib.sha256()
    digest.update(env.start(seed))
    for _ in range(MOST_STEPS):
        x, reward, ended = env.step(env.sample(generator))
        digest.update(x)
        digest.update(np.float64([reward, ended]))
        if ended:
            break
    return digest.digest()


EPISODES = 3
EVERY = 25  # Updates between two looks.


def watch_for_drift(task: Any, notice: Callable[[str], None]) -> Callable[[int], None]:
    """A callback between updates. Says at once where seed and actions do not decide an episode, and later where they
    lead elsewhere than at first. Neither is an error."""
    make_env = functools.partial(CheckedEnv, task.source, task.limits)
    seeds = [EpisodeId(0, CHECK, number).reset_seed for number in range(EPISODES)]
    found = check(make_env, seeds)
    if found is not None:
        notice(f"{found}; the same settings may not give the same result again")
        return lambda update: None
    first, said = digests(make_env, seeds[:1]), False

    def look(update: int) -> None:
        nonlocal said
        if not said and update % EVERY == 0 and digests(make_env, seeds[:1]) != first:
            said, changed = True, f"the same seed and actions led elsewhere at update {update} than at the start"
            notice(f"the environment drifts: {changed}")

    return look
