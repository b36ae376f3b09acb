"""Where the training of a seed starts, and what it takes over besides a policy: scaling, critic, optimizer.

Who transfers a policy to another task keeps the moments of its observations, so that its scaling stays what it was until
the new task has shown as much. The critic and the optimizer go along only where task and learner are the same.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
import optax

from asap.base.arrays import member
from asap.config.schema import Config
from asap.experience.critic import Critic
from asap.experience.protocol import Experience, OnProgress
from asap.learn.search import search
from asap.learn.state import Start, TrainState, drawn_start
from asap.learn.symmetries import Winner, search_symmetries
from asap.policy.images import MOST, as_it_is, image_of_moments
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import Moments, merged


class TakenOver(NamedTuple):
    """Of a training that another one goes on from; stacked over seeds."""

    moments: Moments | None = None
    critic: Critic | None = None
    optimizer: optax.OptState | None = None
    goals: tuple[float | None, ...] = ()  # The return of each seed that an image of its policy is to come up to.
    notes: tuple[str, ...] = ()  # What is taken over, and what not.

    def of_seed(self, index: int) -> "TakenOver":
        """Where there is one seed, it is for all."""
        moments, critic = (None if part is None else _at(part, index) for part in (self.moments, self.critic))
        goal = self.goals[min(index, len(self.goals) - 1)] if self.goals else None
        return TakenOver(moments, critic, None, (goal,))


NOTHING_TAKEN = TakenOver()


def _at(stacked, index: int):
    return member(stacked, min(index, len(jax.tree.leaves(stacked)[0]) - 1))


def with_optimizer(states: TrainState, source: TakenOver) -> TrainState:
    """States before their first update, with the optimizer's memory of the source."""
    if source.optimizer is None:
        return states
    own = jax.tree.map(lambda taken, fresh: np.broadcast_to(taken, np.shape(fresh)), source.optimizer, states.optimizer)
    return eqx.tree_at(lambda state: state.optimizer, states, own)


def found_start(
    config: Config,
    experience: Experience,
    seed: int,
    given: ASAPPolicy | None,
    on_progress: OnProgress,
    source: TakenOver = NOTHING_TAKEN,
) -> tuple[Start, Winner | None]:
    """Where a seed begins: from a given policy or its best image, from the best of some, or as it is drawn. `on_progress`
    hears how many policies have been tried."""
    if given is None and config.run.candidates:
        return search(config, experience, seed, on_progress), None
    start, winner = drawn_start(config, experience.tasks, seed, given), None
    if config.run.search_episodes:
        goal = source.goals[0] if source.goals else None
        start, winner = search_symmetries(config, experience, seed, start.policy, on_progress, goal)
    image = as_it_is(start.policy, experience.tasks.spec) if winner is None else winner.image
    if start.moments is not None and source.moments is not None:
        start = start._replace(moments=merged(image_of_moments(source.moments, image), start.moments))
    if source.critic is not None and image == as_it_is(start.policy, experience.tasks.spec):
        start = start._replace(critic=source.critic)
    return start, winner


def num_tried(config: Config, given: bool) -> int:
    """Policies that a search for a start is to try, at most; 0 where there is none."""
    if not given and config.run.candidates:
        return config.run.candidates
    if not config.run.search_episodes:
        return 0
    return MOST if config.run.symmetries == "all" else 2**config.policy.hyperplanes
