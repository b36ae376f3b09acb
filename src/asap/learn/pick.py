"""Policies compared by the same fresh episodes: the finalists of a race, and at the end of a training the policy before the finish, the
last one and the mean of the finish. The best is the outcome.

Later is not always better: a search that follows noise can lose what the learner had. The episodes are paid from shares of the budget
that were set aside (`run.pick`), and nobody has played them before.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from asap.base.arrays import stack
from asap.base.episodes import PICK
from asap.config.schema import Config
from asap.experience.protocol import EpisodeIds, Evaluation, Experience
from asap.learn.ars import counted, surely_begun
from asap.learn.race import Racing
from asap.learn.search import totals_of
from asap.learn.state import TrainState
from asap.policy.policy import ASAPPolicy
from asap.policy.score import Parameters, parameters_of, with_parameters

LAST, MEAN, BEFORE = "the last one", "the mean", "the one before the finish"


class Compared(NamedTuple):
    """Policies of one seed that have played the same episodes."""

    state: TrainState  # With all that was played counted.
    returns: Float[np.ndarray, "policies episodes"]  # Tasks by their weights.
    played: Evaluation  # The last of them.


class Picked(NamedTuple):
    """The choice of one seed."""

    state: TrainState
    chosen: str
    returns: dict[str, float]
    episodes: int  # Of each, on every task.
    played: Evaluation  # Of the one that was chosen.


def compared(
    config: Config,
    experience: Experience,
    seed: int,
    state: TrainState,
    policies: list[ASAPPolicy],
    left: tuple[int, int],
) -> Compared:
    """As many episodes of each as begin before the budget is used up."""
    tasks, stacked = experience.tasks, stack(policies)
    first, parts, spent = int(state.totals.episodes.sum()), [], np.zeros(2, np.int64)
    while min(rest := np.asarray(left) - spent) > 0:
        most, episodes = config.run.eval_episodes, len(policies) * tasks.size
        count = surely_begun((int(rest[0]), int(rest[1])), episodes, tasks.spec.horizon, most)
        ids = EpisodeIds([seed] * len(policies), PICK, first + sum(part.returns.shape[-1] for part in parts))
        parts.append(experience.evaluate(stacked, ids, count, config.run.deterministic))
        totals = totals_of(parts[-1])
        spent += totals.episodes.sum(), totals.steps.sum()
        state = _counted(state, parts[-1], is_first=len(parts) == 1)
    returns = np.concatenate([np.einsum("m,pmn->pn", tasks.shares, part.returns) for part in parts], -1)
    return Compared(state, returns, parts[-1])


def candidates(state: TrainState) -> dict[str, Parameters]:
    """By name; of equal ones the first wins."""
    found = {LAST: parameters_of(state.policy)}
    if state.search is not None and int(state.search.updates):
        return found | {MEAN: state.search.mean, BEFORE: state.search.before}
    return found if state.average is None else found | {MEAN: state.average}


def pick(config: Config, experience: Experience, seed: int, state: TrainState, left: tuple[int, int]) -> Picked:
    """The candidate of the best mean return."""
    found = candidates(state)
    policies = [with_parameters(state.policy, parameters) for parameters in found.values()]
    state, each, played = compared(config, experience, seed, state, policies, left)
    best = int(each.mean(1).argmax())
    name, parameters = list(found.items())[best]
    state = eqx.tree_at(lambda s: s.policy, state, with_parameters(state.policy, parameters))
    if state.average is not None:
        state = eqx.tree_at(lambda s: s.average, state, parameters)
    returns = dict(zip(found, each.mean(1).round(3).tolist()))
    return Picked(jax.tree.map(np.asarray, state), name, returns, each.shape[1], _of_policy(played, best))


def decide(
    config: Config, experience: Experience, racing: Racing, seed: int, state: TrainState, left: tuple[int, int]
) -> tuple[TrainState, Evaluation]:
    """The end of a race between a search and a learner; what is shown is the learner's play."""
    state, each, played = compared(config, experience, seed, state, [*racing.finalists(state)], left)
    search, learner = each.mean(1).tolist()
    return jax.tree.map(np.asarray, racing.decided(state, (search, learner))), _of_policy(played, 1)


def _counted(state: TrainState, played: Evaluation, is_first: bool) -> TrainState:
    """All rounds together are one update."""
    after = counted(state, played, state.spoiled)
    return after if is_first else eqx.tree_at(lambda s: s.iteration, after, state.iteration)


def _of_policy(played: Evaluation, index: int) -> Evaluation:
    return Evaluation(*(values[index : index + 1] for values in played[:6]))
