"""Off-policy evaluation: what a policy is worth, judged from data of another behaviour, without playing.

Per-decision weighted importance sampling, with the weights of an ended episode kept at their last value:

    V = sum_t gamma^t (sum_e rho^e_{0:t} r^e_t) / (sum_e rho^e_{0:t})

It is consistent, and biased by O(1 / episodes) only. Its interval is a bootstrap over episodes, by Poisson weights:
they can be drawn while the data stream by. The effective sample size is that of the weights of whole episodes. Where
few episodes have nearly all the weight, resamples of them hardly differ, and the interval is far too narrow.

After many steps all weights may be too small for a number: they are summed in bins of their logarithms, and each step's
sums are relative to the highest bin that has any.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from asap.base.arrays import compiled
from asap.base.errors import UserError
from asap.base.keys import host_generator
from asap.data.dataset import Dataset
from asap.experience.logged import effective_sample_size
from asap.experience.minibatches import Batches
from asap.experience.protocol import Batch, Evaluation
from asap.policy.policy import ASAPPolicy
from asap.policy.score import MARGINAL, score

RESAMPLES = 200
EPISODES_AT_ONCE = 256
BIN = 500.0  # Sums of exp(0) to exp(BIN) neither vanish nor overflow.
FEWEST = 30  # Effective episodes below which neither the estimate nor its interval means much.
_BOOTSTRAP, _RESAMPLE_TRUE = 10, 11  # Streams of the seed.


class Value(NamedTuple):
    """Mean return of an episode with its 95 % interval; nan where there is none."""

    discounted: float
    discounted_ci: tuple[float, float]
    undiscounted: float
    undiscounted_ci: tuple[float, float]


class Estimate(NamedTuple):
    value: Value
    ess: float  # Episodes that count, of all those logged; 0 where weights do not exist.
    available: bool

    @property
    def is_trusted(self) -> bool:
        """Otherwise the interval, above all, is far too narrow."""
        return self.ess >= FEWEST


UNKNOWN = Value(np.nan, (np.nan, np.nan), np.nan, (np.nan, np.nan))


def estimate(policy: ASAPPolicy, dataset: Dataset, discount: float, seed: int = 0) -> Estimate:
    """The value of a policy from the data alone. A deterministic or unknown behaviour tells nothing about others."""
    if policy.termination is not None:
        what = "logged data do not tell the skill before"
        raise UserError("policy.termination", what, policy.termination, "judge it by playing")
    if not dataset.is_stochastic:
        return Estimate(UNKNOWN, 0.0, available=False)
    batches = Batches(dataset, EPISODES_AT_ONCE, 1)
    log_weights_of = compiled(_log_weights)
    draws = host_generator(seed, _BOOTSTRAP)
    sums: dict[int, Float[np.ndarray, "2 R T"]] = {}
    whole = []
    for first in range(0, dataset.num_episodes, EPISODES_AT_ONCE):
        members = np.arange(first, min(first + EPISODES_AT_ONCE, dataset.num_episodes))
        batch = batches.fill([members[i : i + 1] for i in range(len(members))])
        logs = np.asarray(log_weights_of(policy, batch), np.float64)[:, : len(members)]
        # Row 0 counts every episode once, the others as often as a resample has drawn it.
        times = np.concatenate([np.ones((1, len(members))), draws.poisson(1.0, (RESAMPLES, len(members)))])
        _add(sums, times, logs.T, batch.steps.reward.T[: len(members)])
        whole.append(logs[-1])
    per_step = _weighted_means(sums)
    values = [per_step @ gamma ** np.arange(batches.window) for gamma in (discount, 1.0)]
    relative = np.concatenate(whole) - np.max(np.concatenate(whole))
    return Estimate(_value(*values), float(effective_sample_size(np.exp(relative))), available=True)


def _log_weights(policy: ASAPPolicy, batch: Batch) -> Float[Array, "T L"]:
    """log rho_{0:t}, one episode per lane; after its end nothing is added."""
    log_ratio = score(policy, batch.steps, MARGINAL).log_prob - batch.behaviour.log_prob
    return jnp.cumsum(jnp.where(batch.steps.counts, log_ratio, 0.0), axis=0)


def _add(
    sums: dict[int, np.ndarray],
    times: Float[np.ndarray, "R n"],
    logs: Float[np.ndarray, "n T"],
    rewards: Float[np.ndarray, "n T"],
) -> None:
    """Adds, bin by bin, weighted rewards and weights of episodes that each resample has drawn so many times."""
    bins = np.floor(logs / BIN)
    for number in np.unique(bins):
        rho = np.where(bins == number, np.exp(np.clip(logs - BIN * number, 0.0, BIN)), 0.0)
        sums[int(number)] = sums.get(int(number), 0.0) + np.stack([times @ (rho * rewards), times @ rho])


def _weighted_means(sums: dict[int, Float[np.ndarray, "2 R T"]]) -> Float[np.ndarray, "R T"]:
    """Of the rewards at each step; NaN in a resample that has drawn no episode."""
    highest = np.max([np.where(one[1] > 0, number, -np.inf) for number, one in sums.items()], axis=0)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    relative = [one * np.exp(np.minimum(BIN * (number - highest), 0.0)) for number, one in sums.items()]
    rewards, weights = np.sum(relative, axis=0)
    return np.where(weights > 0, rewards / np.where(weights > 0, weights, 1.0), np.nan)


def _value(discounted: np.ndarray, undiscounted: np.ndarray) -> Value:
    """From the estimate, in row 0, and its resamples."""
    intervals = [tuple(np.nanquantile(values[1:], [0.025, 0.975]).tolist()) for values in (discounted, undiscounted)]
    return Value(float(discounted[0]), intervals[0], float(undiscounted[0]), intervals[1])


def true_value(evaluation: Evaluation, seed: int = 0) -> Value:
    """What playing tells of one policy on one task, to hold the estimate against."""
    returns = evaluation.discounted[0, 0], evaluation.returns[0, 0]
    picks = host_generator(seed, _RESAMPLE_TRUE).integers(len(returns[0]), size=(RESAMPLES, len(returns[0])))
    return _value(*(np.concatenate([[values.mean()], values[picks].mean(-1)]) for values in returns))
