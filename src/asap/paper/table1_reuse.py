"""Whether a skill of any system is used in two places that do not touch, and what the system returns without it."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import compiled
from asap.base.keys import Key, fold, root, uniforms
from asap.base.spec import Task, TaskSet
from asap.experience.choose import counted_play
from asap.experience.counted_play import CountedPlay, StepCounter
from asap.experience.rollout import Actor
from asap.paper.reuse import components
from asap.paper.table1_marks import VISITS
from asap.policy.policy import NO_SKILL

CELLS = 50  # Of the grid, on each axis.
DRAWS = 15  # In each cell: the skill that is drawn most often rules there.
EPISODES = 64  # To see where a seed goes.
TRIES = 8  # Draws after which a system is taken to insist on the skill that is forbidden.


class Reuse(NamedTuple):
    """Of one seed: the skill with the largest second region, the shares of visits of its regions, and the return without it."""

    skill: int
    shares: list[float]
    without: float | None  # Mean return; None where no skill has two regions that count.

    @property
    def is_reused(self) -> bool:
        return sum(share >= VISITS for share in self.shares) >= 2


class Without(eqx.Module):
    """A system that may not use one skill: it draws again, and where it insists, it acts at random."""

    actor: Actor
    forbidden: Int[Array, ""]
    num_actions: int = eqx.field(static=True)

    def draws(self, key: Key) -> tuple[Any, ...]:
        again = tuple(self.actor.draws(fold(key, number)) for number in range(TRIES))
        return (*again, uniforms(fold(key, TRIES))[0])

    def choose(self, draws: tuple[Any, ...], x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]):
        previous = jnp.where(previous == self.forbidden, NO_SKILL, previous)
        skill = jnp.int32(NO_SKILL)
        action = (draws[-1] * self.num_actions).astype(jnp.int32)
        for own in reversed(draws[:-1]):  # The first draw that is allowed decides.
            drawn, chosen = self.actor.choose(own, x, m, previous)
            allowed = drawn != self.forbidden
            skill, action = jnp.where(allowed, drawn, skill), jnp.where(allowed, chosen, action)
        return skill, action


def reuse_of(actors: Actor, num_skills: int, task: Task, seeds: list[int], episodes: int) -> list[Reuse]:
    """Of every seed of a system with Discrete actions, on one of the rooms."""
    play = counted_play(TaskSet((task,), (1.0,)), seeds, StepCounter(len(seeds), 10**9))
    visits = _visits(play, actors)
    rulers = np.asarray(compiled(_rulers, static_argnames="num_skills")(actors, *_grid(task), num_skills=num_skills))
    found = [_most_reused(visits[s], rulers[s], num_skills) for s in range(len(seeds))]
    forbidden = jnp.asarray([reuse.skill for reuse in found], jnp.int32)
    returns = play.evaluate(Without(actors, forbidden, task.spec.num_actions), episodes, num_skills).returns
    means = returns[:, 0].mean(-1)
    return [one._replace(without=float(means[s])) if one.is_reused else one for s, one in enumerate(found)]


def _most_reused(visits: Float[np.ndarray, "X Y"], rulers: Int[np.ndarray, "X Y"], num_skills: int) -> Reuse:
    """The skill whose second largest region has most visits."""
    shares = [
        sorted((float(visits[part].sum()) for part in components(rulers == skill)), reverse=True)
        for skill in range(num_skills)
    ]
    skill = max(range(num_skills), key=lambda s: (shares[s] + [0.0, 0.0])[1])
    return Reuse(skill, [share for share in shares[skill] if share >= VISITS / 10], None)


def _visits(play: CountedPlay, actors: Actor) -> Float[np.ndarray, "seeds X Y"]:
    steps, _ = play.play(actors, EPISODES)
    places, counts = np.asarray(steps.observation)[:, :2], np.asarray(steps.counts)
    cell = np.clip((places * CELLS).astype(int), 0, CELLS - 1)
    visits = np.zeros((len(cell), CELLS, CELLS))
    for s in range(len(cell)):
        np.add.at(visits[s], tuple(cell[s][:, counts[s]]), 1)
    return visits / visits.sum((1, 2), keepdims=True)


def _grid(task: Task) -> tuple[Float[np.ndarray, "N O"], Float[np.ndarray, "Z"]]:
    """The centres of the cells as observations, and m."""
    centres = (np.arange(CELLS) + 0.5) / CELLS
    places = np.stack(np.meshgrid(centres, centres, indexing="ij"), -1).reshape(-1, 2)
    goal = np.broadcast_to(np.asarray(task.task.goal), places.shape)
    return np.float32(np.concatenate([places, goal], -1)), np.float32(task.descriptor)


def _rulers(
    actors: Actor, states: Float[Array, "N O"], m: Float[Array, "Z"], num_skills: int
) -> Int[Array, "seeds X Y"]:
    def votes(actor: Actor, x: Float[Array, "O"], number: Int[Array, ""]) -> Bool[Array, "S"]:
        skill, _ = actor.choose(actor.draws(fold(root(0), number)), x, m, jnp.int32(NO_SKILL))
        return jnp.arange(num_skills) == skill

    def rulers(actor: Actor) -> Int[Array, "X Y"]:
        of_state = jax.vmap(lambda x: jax.vmap(lambda number: votes(actor, x, number))(jnp.arange(DRAWS)).sum(0))
        counted = of_state(states)
        return jnp.where(counted.sum(-1) > 0, counted.argmax(-1), NO_SKILL).reshape(CELLS, CELLS)

    return jax.vmap(rulers)(actors)
