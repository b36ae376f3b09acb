"""What each logged step was worth: a value function fitted to the log, and the advantages by it.

The value of the behaviour is linear in random ramps, and has a closed form (least-squares temporal differences, Boyan, 2002), so
nothing is tuned and one pass over the log will do:

    A w = b,   A = sum_t z_t (phi(x_t) - gamma phi(x'_t))^T,   b = sum_t z_t r_t,   z_t = gamma lambda z_{t-1} + phi(x_t)

A step that terminated has no phi(x'_t); one that was cut off, by a time limit say, has the one of its final observation. The
advantage is the sum of discounted errors delta_t = r_t + gamma V(x'_t) - V(x_t), as in learning by play.

Why steps and not episodes: the return of a long episode says next to nothing about one of its hundreds of actions. One number per
row of the file is kept in memory.
"""

from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.arrays import compiled_when_called
from asap.data.dataset import Dataset
from asap.experience.critic import Critic, lambda_advantages, new_critic
from asap.experience.minibatches import Batches
from asap.experience.protocol import Batch
from asap.policy.scaling import Moments, merged, moments_of, shift_and_scale

RAMPS, LENGTH, SPAN = 128, 0.5, 2.0  # Of the value function, over observations scaled to deviation 1.
RIDGE = 1e-3
AT_ONCE = 1 << 16  # Steps, with what lanes are filled up with: it bounds memory.


class FittedValue(NamedTuple):
    """V of the behaviour, in the units of the rewards."""

    critic: Critic
    shift: Float[np.ndarray, "O"]
    scale: Float[np.ndarray, "O"]
    discount: float
    trace: float  # lambda


def moments_of_log(dataset: Dataset) -> Moments:
    """Of all observations that something was done in."""
    found = None
    for index in range(dataset.num_episodes):
        own = moments_of(np.asarray(dataset.read(index).observation, np.float32).T)
        found = own if found is None else merged(found, own)
    return Moments(*(np.float32(part) for part in found))


def fitted_value(
    dataset: Dataset, members: Int[np.ndarray, "E"], moments: Moments, discount: float, trace: float
) -> FittedValue:
    """The value function of these episodes."""
    shift, scale = (np.asarray(part, np.float32) for part in shift_and_scale(moments))
    edge, generator = np.full(len(shift), SPAN, np.float32), np.random.default_rng(0)
    critic = new_critic(-edge, edge, len(dataset.layout.descriptor), generator, RAMPS, LENGTH)
    value = FittedValue(critic, shift, scale, discount, trace)
    gram, moment, count = np.zeros((RAMPS + 1, RAMPS + 1)), np.zeros(RAMPS + 1), 0
    for _, batch in _in_lanes(dataset, members):
        sums = _sums(value, batch)
        gram, moment = gram + np.asarray(sums[0], float), moment + np.asarray(sums[1], float)
        count += int(batch.env_steps)
    weights = np.linalg.solve(gram / count + RIDGE * np.eye(RAMPS + 1), moment / count)
    return value._replace(critic=eqx.tree_at(lambda c: c.weights, critic, weights.astype(np.float32)))


def advantages(value: FittedValue, dataset: Dataset, members: Int[np.ndarray, "E"]) -> Float[np.ndarray, "rows"]:
    """Of every row of the file; 0 in rows of other episodes."""
    episodes = dataset.episodes
    found = np.zeros(int((episodes.start + episodes.length).max()), np.float32)
    for indices, batch in _in_lanes(dataset, members):
        grid = np.asarray(_advantages(value, batch))
        for lane, index in enumerate(indices):
            start, length = int(episodes.start[index]), int(episodes.length[index])
            found[start : start + length] = grid[:length, lane]
    return found


def _in_lanes(dataset: Dataset, members: Int[np.ndarray, "E"]) -> Iterator[tuple[Int[np.ndarray, "n"], Batch]]:
    """An episode in each lane."""
    lanes = max(1, min(AT_ONCE // dataset.longest, len(members)))
    batches = Batches(dataset, lanes, 1)
    for first in range(0, len(members), lanes):
        indices = members[first : first + lanes]
        yield indices, batches.fill([indices[i : i + 1] for i in range(len(indices))])


def _seen(value: FittedValue, x: Float[Array, "O T L"], m: Float[Array, "Z T L"]) -> Float[Array, "G T L"]:
    scaled = (x - value.shift[:, None, None]) * value.scale[:, None, None]
    flat = [part.reshape(part.shape[0], x.shape[1] * x.shape[2]) for part in (scaled, m)]
    return value.critic.features(*flat).reshape(-1, *x.shape[1:])


@compiled_when_called
def _sums(value: FittedValue, batch: Batch) -> tuple[Float[Array, "G G"], Float[Array, "G"]]:
    steps = batch.steps
    now = jnp.where(steps.counts, _seen(value, steps.observation, steps.descriptor), 0.0)
    after = _seen(value, steps.next_observation, steps.descriptor)
    after = jnp.where(steps.counts & ~steps.terminated, after, 0.0)

    def follow(trace: Float[Array, "G L"], features: Float[Array, "G L"]):
        trace = value.discount * value.trace * trace + features
        return trace, trace

    _, traces = jax.lax.scan(follow, jnp.zeros_like(now[:, 0]), jnp.moveaxis(now, 1, 0))
    traces = jnp.where(steps.counts, jnp.moveaxis(traces, 0, 1), 0.0)
    gram = jnp.einsum("gtl,htl->gh", traces, now - value.discount * after)
    return gram, jnp.einsum("gtl,tl->g", traces, steps.reward)


@compiled_when_called
def _advantages(value: FittedValue, batch: Batch) -> Float[Array, "T L"]:
    steps, weights = batch.steps, value.critic.weights
    values, after = (
        jnp.einsum("g,gtl->tl", weights, _seen(value, x, steps.descriptor))
        for x in (steps.observation, steps.next_observation)
    )
    return lambda_advantages(steps, values, after, value.discount, value.trace)
