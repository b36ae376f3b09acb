"""The one compiled playing loop: lanes of episodes with auto-reset, and a collector that keeps what is wanted of them.

What the next step needs that is costly, its random numbers and the chosen (skill, action), is computed at the end of a
step and carried through the loop. The CPU compiler computes a value anew inside each of its consumers; a loop carry is
the one place where it stores it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import anyone, pick
from asap.base.keys import Key, fold, uniforms
from asap.base.types import EpisodeTotals, Transition
from asap.envs.core import CompiledTasks, Episode, Outcome, advance, begin
from asap.policy.policy import NO_SKILL, ASAPPolicy

Uniforms = tuple[Float[Array, "*batch"], ...]  # The random numbers of one choice.
Choice = tuple[Int[Array, ""], Array]  # Skill and action.
Whole = tuple[EpisodeTotals, Bool[Array, "*rows L"]]  # Of complete episodes so far, and which lanes still play.


@runtime_checkable
class Actor(Protocol):
    """Who chooses: a policy, a policy without chance, or a hand-written controller."""

    def draws(self, key: Key) -> Uniforms: ...

    def choose(
        self, draws: Uniforms, x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]
    ) -> Choice: ...


class Likeliest(eqx.Module):
    """A policy without chance: the likeliest skill, then its likeliest action."""

    policy: ASAPPolicy

    def draws(self, key: Key) -> tuple[()]:
        return ()

    def choose(self, draws: Uniforms, x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]) -> Choice:
        return self.policy.likeliest(x, m, previous)


class Controlled(NamedTuple):
    """A controller as an actor: what it does is all the skill it has."""

    probabilities: Callable[[Float[Array, "O *batch"]], Float[Array, "A *batch"]]

    def draws(self, key: Key) -> Uniforms:
        return uniforms(key)[:1]

    def choose(self, draws: Uniforms, x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]) -> Choice:
        chances = self.probabilities(x)
        action = jnp.minimum(pick(draws[0], chances), chances.shape[0] - 1)
        return action, action


class Lane(NamedTuple):
    """A place where one episode after the other is played."""

    episode: Episode
    previous_skill: Int[Array, ""]


class Draws(NamedTuple):
    """All random numbers of one step of one lane."""

    noise: Any
    reset: Key
    task: Key
    choice: Uniforms


class Moment(NamedTuple):
    """A lane about to make its step: the choice is made, the dice are cast."""

    lane: Lane
    skill: Int[Array, ""]
    action: Int[Array, ""] | Float[Array, "A"]
    draws: Draws


@runtime_checkable
class Collector(Protocol):
    """What is kept of the steps of all lanes."""

    def start(self, moment: Moment) -> Any:
        """What it has gathered before the first step."""
        ...

    def add(self, gathered: Any, before: Moment, outcome: Outcome, step: Int[Array, ""]) -> tuple[Any, Any]:
        """What it has gathered after one more step, and what is stacked over time."""
        ...


@runtime_checkable
class EndingCollector(Collector, Protocol):
    """One that knows when it has enough."""

    def goes_on(self, gathered: Any) -> Bool[Array, "L"]:
        """Which lanes are wanted on; it has enough when none is."""
        ...


def play(
    tasks: CompiledTasks,
    actor: Actor,
    keys: Key,
    moment: Moment,
    collector: Collector | EndingCollector,
    num_steps: int | None = None,
    stacked: bool = False,
    most_steps: int | None = None,
) -> tuple[Moment, Any, Any]:
    """Plays all lanes: the moment after the last step, what was gathered, and what was stacked over time.

    Without `num_steps` it goes on while the collector wants more, and stacks nothing, or up to `most_steps`: steps that
    were not needed are zeros. `stacked` actors, keys and moments have a first axis and play in one loop: a loop per
    actor under `vmap` would select its whole carry each step.
    """

    def one_step(actor: Actor, keys: Key, moment: Moment, gathered: Any, step: Int[Array, ""]):
        make = jax.vmap(lambda key, at: make_step(tasks, actor, key, step, at), in_axes=-1, out_axes=-1)
        after, outcome = make(keys, moment)
        return after, *collector.add(gathered, moment, outcome, step)

    start = collector.start
    if stacked:
        one_step, start = jax.vmap(one_step, in_axes=(0, 0, 0, 0, None)), jax.vmap(start)

    def body(carry: tuple[Moment, Any], step: Int[Array, ""]):
        moment, gathered, kept = one_step(actor, keys, *carry, step)
        return (moment, gathered), kept

    carry = (moment, start(moment))
    if num_steps is not None:
        carry, kept = jax.lax.scan(body, carry, jnp.arange(num_steps))
        return *carry, kept
    if most_steps is not None:
        return _play_into(body, carry, collector, most_steps)

    def one_more(now: tuple[Int[Array, ""], tuple[Moment, Any]]):
        return now[0] + 1, body(now[1], now[0])[0]

    _, carry = jax.lax.while_loop(lambda now: collector.goes_on(now[1][1]).any(), one_more, (jnp.int32(0), carry))
    return *carry, None


def _play_into(body: Callable, carry: tuple[Moment, Any], collector: EndingCollector, most_steps: int):
    """Each step is written into its row. Under `vmap` all go on until the last has enough, which the collector's own
    mask leaves out: else each step would select, and so copy, all rows."""
    kept = jax.eval_shape(lambda: body(carry, jnp.int32(0))[1])
    rows = jax.tree.map(lambda leaf: jnp.zeros((most_steps, *leaf.shape), leaf.dtype), kept)

    def one_more(now: tuple[Int[Array, ""], Any, Any]):
        step, carry, rows = now
        carry, kept = body(carry, step)
        rows = jax.tree.map(lambda all, row: jax.lax.dynamic_update_index_in_dim(all, row, step, 0), rows, kept)
        return step + 1, carry, rows

    def is_wanted(now: tuple[Int[Array, ""], Any, Any]) -> Bool[Array, ""]:
        return (now[0] < most_steps) & anyone(collector.goes_on(now[1][1]).any())

    _, carry, rows = jax.lax.while_loop(is_wanted, one_more, (jnp.int32(0), carry, rows))
    return *carry, rows


def cast(tasks: CompiledTasks, actor: Actor, lane_key: Key, step: Int[Array, ""] | int) -> Draws:
    reset = fold(lane_key, step, 1)
    task = reset if tasks.size == 1 else fold(lane_key, step, 2)  # Not drawn where it decides nothing.
    return Draws(tasks.env.noise(fold(lane_key, step, 0)), reset, task, actor.draws(fold(lane_key, step, 3)))


def look(tasks: CompiledTasks, episode: Episode) -> tuple[Float[Array, "O"], Float[Array, "Z"]]:
    """Observation and task descriptor of an episode."""
    task = tasks[episode.task]
    return tasks.env.observe(episode.state, task), tasks.env.descriptor(task)


def look_lanes(tasks: CompiledTasks, moment: Moment) -> tuple[Float[Array, "O L"], Float[Array, "Z L"]]:
    return jax.vmap(lambda lane: look(tasks, lane.episode), in_axes=-1, out_axes=-1)(moment.lane)


def start_lanes(tasks: CompiledTasks, key: Key, ids: Int[Array, "L"]) -> Lane:
    """Lanes with fresh episodes."""

    def start(lane: Int[Array, ""]) -> Lane:
        return Lane(begin(tasks, fold(key, lane, 0), fold(key, lane, 1)), jnp.int32(NO_SKILL))

    return jax.vmap(start, out_axes=-1)(ids)


def lane_keys(key: Key, ids: Int[Array, "L"]) -> Key:
    return jax.vmap(lambda lane: fold(key, lane))(ids)


def start_moments(tasks: CompiledTasks, actor: Actor, keys: Key, lanes: Lane) -> Moment:
    """The first choice of a window is made by the actor of that window, with the id of the step before its first."""

    def start(lane_key: Key, lane: Lane) -> Moment:
        x, m = look(tasks, lane.episode)
        skill, action = actor.choose(actor.draws(fold(lane_key, -1, 3)), x, m, lane.previous_skill)
        return Moment(lane, skill, action, cast(tasks, actor, lane_key, 0))

    return jax.vmap(start, in_axes=-1, out_axes=-1)(keys, lanes)


def fresh_episodes(tasks: CompiledTasks, actor: Actor, key: Key, ids: Int[Array, "L"]) -> tuple[Key, Moment]:
    """One lane for each id, at the start of an episode that depends on nothing but key and id."""
    keys = lane_keys(fold(key, 0), ids)
    return keys, start_moments(tasks, actor, keys, start_lanes(tasks, fold(key, 1), ids))


def make_step(
    tasks: CompiledTasks, actor: Actor, lane_key: Key, step: Int[Array, ""], moment: Moment
) -> tuple[Moment, Outcome]:
    """One step of one lane, up to and including the next choice."""
    draws = moment.draws
    episode, outcome = advance(tasks, draws.noise, draws.reset, draws.task, moment.lane.episode, moment.action)
    previous = jnp.where(outcome.terminated | outcome.truncated, NO_SKILL, moment.skill)
    x, m = look(tasks, episode)
    skill, action = actor.choose(draws.choice, x, m, previous)
    return Moment(Lane(episode, previous), skill, action, cast(tasks, actor, lane_key, step + 1)), outcome


def count_ended(outcome: Outcome, num_tasks: int, counted: Bool[Array, "L"] | bool = True) -> EpisodeTotals:
    """Totals of the episodes that ended in this step, per task, over lanes."""
    ended = (outcome.terminated | outcome.truncated) & counted
    of_task = ended & (jnp.arange(num_tasks)[:, None] == outcome.task)
    return EpisodeTotals(
        episodes=of_task.sum(-1),
        returns=jnp.where(of_task, outcome.total, 0.0).sum(-1),
        successes=(of_task & outcome.success).sum(-1),
        steps=jnp.where(of_task, outcome.elapsed, 0).sum(-1),
    )


def add(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.add, a, b)


def no_episodes(num_tasks: int) -> EpisodeTotals:
    zero = jnp.zeros(num_tasks, jnp.int32)
    return EpisodeTotals(zero, jnp.zeros(num_tasks), zero, zero)


class Window(NamedTuple):
    """Keeps every step of every lane; gathers the totals of episodes that ended."""

    tasks: CompiledTasks
    decided: bool = True  # Whether it keeps at which steps all actions are the same.
    timed: bool = False  # Whether it keeps how old the episode is.

    def start(self, moment: Moment) -> EpisodeTotals:
        return no_episodes(self.tasks.size)

    def add(
        self, gathered: EpisodeTotals, before: Moment, outcome: Outcome, step: Int[Array, ""]
    ) -> tuple[EpisodeTotals, Transition]:
        return add(gathered, count_ended(outcome, self.tasks.size)), self.transition(before, outcome)

    def transition(self, before: Moment, outcome: Outcome) -> Transition:
        tasks, lane = self.tasks, before.lane
        x, m = look_lanes(tasks, before)
        of_task = None if tasks.size == 1 else jnp.arange(tasks.size)[:, None] == lane.episode.task
        return Transition(
            observation=x,
            descriptor=m,
            previous_skill=lane.previous_skill,
            skill=before.skill,
            action=before.action,
            reward=outcome.reward,
            terminated=outcome.terminated,
            truncated=outcome.truncated,
            next_observation=outcome.next_observation,
            of_task=of_task,
            decides=jax.vmap(tasks.env.decides, in_axes=-1)(lane.episode.state) if self.decided else None,
            elapsed=lane.episode.elapsed if self.timed else None,
        )


class WholeEpisodes(NamedTuple):
    """Keeps every step of one episode per lane; what a step led to only if asked, because the next row has it."""

    window: Window
    keeps_next: bool = False

    def start(self, moment: Moment) -> Whole:
        return self.window.start(moment), jnp.ones(moment.skill.shape, bool)

    def add(self, gathered: Whole, before: Moment, outcome: Outcome, step: Int[Array, ""]) -> tuple[Whole, Transition]:
        totals, playing = gathered
        kept = self.window.transition(before, outcome)._replace(counts=playing)
        kept = kept if self.keeps_next else kept._replace(next_observation=None)
        totals = add(totals, count_ended(outcome, self.window.tasks.size, playing))
        return (totals, playing & ~kept.ended), kept

    def goes_on(self, gathered: Whole) -> Bool[Array, "*rows L"]:
        return gathered[1]


def time_before_lanes(steps: Transition) -> Transition:
    """What was stacked over time has it first."""
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -2), steps)


def play_window(
    policy: ASAPPolicy, tasks: CompiledTasks, lanes: Lane, key: Key, num_steps: int, timed: bool = False
) -> tuple[Lane, Transition, EpisodeTotals]:
    """`num_steps` steps of every lane with auto-reset; transitions have axes (..., time, lane)."""
    keys = lane_keys(key, jnp.arange(lanes.previous_skill.shape[-1]))
    moment = start_moments(tasks, policy, keys, lanes)
    # A policy that commits decides also by the skill it enters.
    window = Window(tasks, policy.termination is None, timed)
    moment, totals, transitions = play(tasks, policy, keys, moment, window, num_steps)
    return moment.lane, time_before_lanes(transitions), totals


def play_episodes(
    policy: ASAPPolicy, tasks: CompiledTasks, key: Key, num_episodes: int
) -> tuple[Transition, EpisodeTotals]:
    """So many complete episodes side by side, one in each lane from its first step; what comes after does not count.

    What a step led to is not kept: the next row has it.
    """
    keys, moment = fresh_episodes(tasks, policy, key, jnp.arange(num_episodes))
    whole = WholeEpisodes(Window(tasks, policy.termination is None))
    _, (totals, _), steps = play(tasks, policy, keys, moment, whole, most_steps=tasks.env.spec.horizon)
    steps = time_before_lanes(steps)
    return steps._replace(next_observation=steps.observation), totals
