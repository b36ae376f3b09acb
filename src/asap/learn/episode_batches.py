"""Complete episodes, as workers bring them, in one batch, and the update it gives.

Episodes stand one after the other in the order of their ids and are filled up to one of a few sizes, so that few programs
are compiled: the sums, and so the bits, are the same whoever played.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from asap.base.episodes import Played
from asap.base.types import EpisodeTotals, Transition
from asap.config.schema import Config
from asap.learn.advantage import fit, lambda_advantages
from asap.learn.train import CRITIC_RIDGE, Improved, Metrics, TrainState, take_over, weights_of
from asap.learn.updates import UPDATES
from asap.policy.policy import NO_SKILL

SMALLEST, GROWTH = 2048, 4


def batch_size(num_steps: int) -> int:
    """The size that so many steps are filled up to."""
    size = SMALLEST
    while size < num_steps:
        size *= GROWTH
    return size


def packed(episodes: Sequence[Played]) -> Transition:
    """One step per column."""
    num_steps = sum(episode.length for episode in episodes)
    missing = batch_size(num_steps) - num_steps

    def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
        rows = np.concatenate(parts)
        return np.moveaxis(np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), rows.dtype)]), 0, -1)

    def last(flags: Sequence[bool]) -> np.ndarray:
        """The flag of each episode, at its last step."""
        column = np.zeros(num_steps + missing, bool)
        column[np.cumsum([episode.length for episode in episodes]) - 1] = flags
        return column

    start = np.int32([NO_SKILL])
    return Transition(
        observation=joined([episode.observations[:-1] for episode in episodes]),
        descriptor=np.zeros((0, num_steps + missing), np.float32),
        previous_skill=joined([np.concatenate([start, episode.skills[:-1]]) for episode in episodes]),
        skill=joined([episode.skills for episode in episodes]),
        action=joined([episode.actions for episode in episodes]),
        reward=joined([episode.rewards for episode in episodes]),
        terminated=last([episode.terminated for episode in episodes]),
        truncated=last([not episode.terminated for episode in episodes]),
        next_observation=joined([episode.observations[1:] for episode in episodes]),
        of_task=np.arange(num_steps + missing)[None] < num_steps,
        played=np.arange(num_steps + missing) < num_steps,
    )


def totals_of(episodes: Sequence[Played]) -> EpisodeTotals:
    """Of one task."""
    return EpisodeTotals(
        episodes=np.int32([len(episodes)]),
        returns=np.float32([sum(episode.total for episode in episodes)]),
        successes=np.int32([sum(bool(episode.success) for episode in episodes)]),
        steps=np.int32([sum(episode.length for episode in episodes)]),
    )


def update_from_episodes(
    config: Config,
    discount: float,
    state: TrainState,
    batch: Transition,
    totals: EpisodeTotals,
    shift: Float[Array, "O"],
    scale: Float[Array, "O"],
) -> tuple[TrainState, Metrics]:
    """Judge and improve; the critic sees observations scaled, as the policy does."""
    learn, critic = config.learn, state.critic

    def features(x: Float[Array, "O N"]) -> Float[Array, "G N"]:
        return critic.features((x - shift[:, None]) * scale[:, None], batch.descriptor)

    seen, next_seen = features(batch.observation), features(batch.next_observation)
    values, next_values = critic.weights @ seen, critic.weights @ next_seen
    # One lane in which episodes follow each other; none is cut.
    lane = batch._replace(
        reward=batch.reward[:, None], terminated=batch.terminated[:, None], truncated=batch.truncated[:, None]
    )
    advantages = lambda_advantages(lane, values[:, None], next_values[:, None], discount, learn.trace)[:, 0]
    targets = jnp.where(batch.played, advantages + values, 0.0)
    explained = 1 - jnp.var(advantages, where=batch.played) / (jnp.var(targets, where=batch.played) + 1e-8)
    share = batch.played.mean()
    # Gaps have features of 0, and so no part in the fit.
    critic = fit(
        critic, seen * batch.played / jnp.sqrt(share), targets / jnp.sqrt(share), learn.critic_memory, CRITIC_RIDGE
    )
    weights = weights_of(learn, advantages, batch.played)
    step = UPDATES[learn.learner](learn, state.policy, batch, weights, state.optimizer, state.iteration)
    return take_over(config, state, Improved(step, critic, None, totals, totals.steps.sum(), explained))
