"""Carrying a policy to another task: hyperplanes with their signs flipped, and the search for the signs that fit."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.keys import Key, fold
from asap.base.types import EpisodeTotals
from asap.envs.core import CompiledTasks
from asap.evaluate import evaluate
from asap.policy.partition import skill_bits
from asap.policy.policy import ASAPPolicy
from asap.policy.score import Parameters, parameters_of, with_parameters


def flip(policy: ASAPPolicy, signs: Float[Array, "K"]) -> ASAPPolicy:
    """Planes with sign -1 change sides: their two half-spaces swap skills (paper, Figure 2d)."""
    parameters = parameters_of(policy)
    return with_parameters(policy, parameters._replace(beta=parameters.beta * jnp.asarray(signs)[:, None]))


def sign_patterns(num_planes: int) -> Float[Array, "S K"]:
    """All 2^K of them; the first flips nothing."""
    return 1.0 - 2.0 * skill_bits(num_planes)


def search_symmetries(
    policy: ASAPPolicy, tasks: CompiledTasks, key: Key, num_episodes: int
) -> tuple[ASAPPolicy, Int[Array, "K"], EpisodeTotals]:
    """The sign pattern with the best mean return over a few episodes of each task, and what the trials cost."""
    patterns = sign_patterns(policy.partition.num_planes)

    def trial(signs: Float[Array, "K"], key: Key) -> tuple[Float[Array, ""], EpisodeTotals]:
        flipped = flip(policy, signs)
        played = [
            evaluate(flipped, tasks.only(name), fold(key, index), num_episodes)
            for index, name in enumerate(tasks.names)
        ]
        episodes = jax.tree.map(lambda *leaves: jnp.stack(leaves), *played)
        totals = EpisodeTotals(
            episodes=jnp.full(tasks.size, num_episodes),
            returns=episodes.returns.sum(-1),
            successes=episodes.success.sum(-1),
            steps=episodes.lengths.sum(-1),
        )
        return tasks.weights @ episodes.returns.mean(-1), totals

    returns, totals = jax.vmap(trial)(patterns, fold(key, jnp.arange(len(patterns))))
    best = patterns[jnp.argmax(returns)]
    return flip(policy, best), best.astype(jnp.int32), jax.tree.map(lambda leaf: leaf.sum(0), totals)


def repeat_seeds(parameters: Parameters, count: int) -> Parameters:
    """Parameters for each of `count` seeds: as they are, or the only ones again and again."""
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (count, *leaf.shape[1:])), parameters)
