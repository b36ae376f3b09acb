"""Whether skill chaining does what its paper says: a corridor whose initiation sets are known, and Pinball's easy board."""

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base import stats
from asap.base.keys import Key
from asap.base.types import Transition
from asap.experience.choose import counted_play
from asap.experience.counted_play import StepChoice, StepCounter, actor_of
from asap.paper.claims import Claim, interval
from asap.paper.corridor import STARTS, STEP, corridor, lower_ends
from asap.paper.pinball import INSTALL, is_installed, pinball
from asap.rivals.chain_learner import ChainLearner, ChainState
from asap.rivals.features import inputs_of
from asap.rivals.initiation import contained, products
from asap.rivals.option_chain import OptionChain
from asap.rivals.skill_chaining import SkillChaining
from asap.runs.loggers import Phase

IN_CORRIDOR = SkillChaining(tmax=5, gestation=10, log_size=500, refit_every=200)
LENGTH = 4  # Options that lead from the corridor's start to its goal.
TOLERANCE = 0.06  # A little more than one step.
CORRIDOR_STEPS, WATCHED_STEPS = 10_000, 2_000
# Chosen on seeds 100 to 115: with the rate of the choices inside options too, or with new options that look good everywhere, some
# seeds fall into options that lead nowhere, and do not get out again.
IN_PINBALL = SkillChaining(tmax=60, gestation=10, log_size=4000, epsilon=0.02, option_rate=0.01)
PINBALL_OPTIMISM = 0.0
PINBALL_STEPS, PINBALL_SEEDS = (
    150_000,
    50,
)  # Of an episode the return varies by thousands: few seeds can't show a difference.
NEVER = 10**9
FIRST, LAST = 100, 250  # Episodes whose returns are compared.


def check(seeds: int, quick: bool, tell: Phase) -> list[Claim]:
    """`quick` leaves Pinball out."""
    tell("corridor")
    claims = of_corridor(list(range(seeds)))
    if quick:
        return claims
    if not is_installed():
        note = f"pynball-rl is not installed: {INSTALL}"
        return [*claims, Claim("Pinball: options chain back to the start", "yes", "not run", None, False, note)]
    tell("Pinball")
    return [*claims, *of_pinball(list(range(max(seeds, PINBALL_SEEDS))), PINBALL_STEPS)]


# ---- The corridor -------------------------------------------------------------------------------------------------


class Endings(NamedTuple):
    """Of each option: how often it ended at its target, and how often that was in the interval where the target is."""

    state: ChainState
    successes: Int[Array, "N"]
    in_target: Int[Array, "N"]


@dataclass(frozen=True)
class Watched:
    """Goes on learning, and looks where options end that had time left and had not left their initiation sets."""

    learner: ChainLearner
    ends: tuple[float, ...]  # Lower ends of all targets, from the goal on.

    def begin(self, key: Key) -> Endings:
        none = jnp.zeros(self.learner.num_options, jnp.int32)
        return Endings(self.learner.begin(key), none, none)

    def choose(self, key: Key, state: Endings, x: Float[Array, "O"], m: Float[Array, "Z"]) -> StepChoice:
        inner, skill, action = self.learner.choose(key, state.state, x, m)
        return StepChoice(state._replace(state=inner), skill, action)

    def learn(self, key: Key, state: Endings, step: Transition) -> Endings:
        after, x = self.learner.learn(key, state.state, step), step.next_observation
        inside, _ = state.state.chain.sets_at(x, step.descriptor)
        had_time = after.force.steps < self.learner.bases.tmax
        ended = after.force.is_over & had_time & ~step.truncated & (inside[step.skill] | step.terminated)
        success = ended & (jnp.arange(self.learner.num_options) == step.skill)
        is_there = x[0] >= jnp.float32(self.ends)[: self.learner.num_options] - TOLERANCE
        return Endings(after, state.successes + success, state.in_target + (success & is_there))


def of_corridor(seeds: Sequence[int], system: SkillChaining = IN_CORRIDOR, steps: int = CORRIDOR_STEPS) -> list[Claim]:
    known = lower_ends(system.tmax, LENGTH)
    chains, successes, in_target = learn_corridor(system, seeds, steps, (known[0] + STEP * system.tmax, *known))
    found = np.stack([set_starts(actor_of(chains, s))[:LENGTH] for s in range(len(seeds))])
    worst, usable = abs(found - known).max(1), np.asarray(chains.usable)
    covers = usable[:, LENGTH - 1] & (found[:, -1] <= STARTS) & (usable.sum(1) == LENGTH)
    return [
        Claim("Corridor: initiation sets are the intervals tmax steps back", f"known within {TOLERANCE}",
              f"{worst.max():.3f} off at most", None, bool((worst <= TOLERANCE).all())),
        Claim("Corridor: the chain grows back to the start and stops", f"{LENGTH} options",
              f"{covers.mean():.0%} of seeds", None, bool(covers.all())),
        Claim("Corridor: successes of an option end in its parent's set", "all",
              f"{in_target} of {successes}", None, in_target == successes > 0),
    ]  # fmt: skip


def learn_corridor(
    system: SkillChaining, seeds: Sequence[int], steps: int, ends: Sequence[float]
) -> tuple[OptionChain, int, int]:
    """Chains of all seeds; and of further steps, the successes of their options and those that ended where they should."""
    tasks, counter = corridor(), StepCounter(len(seeds), steps + WATCHED_STEPS)
    with contextlib.closing(counted_play(tasks, seeds, counter)) as play:
        watched = Watched(system.learner(tasks, inputs_of(tasks, play)), (*ends, *[0.0] * system.num_options))
        before = play.learn(watched, steps)
        after = play.learn(watched, running=before)
    successes, in_target = (
        int((np.asarray(later) - np.asarray(earlier)).sum())
        for later, earlier in zip(after.state[1:], before.state[1:])
    )
    return after.state.state.chain, successes, in_target


def set_starts(chain: OptionChain) -> Float[np.ndarray, "N"]:
    """Where each initiation set of a corridor begins; NaN for an empty one."""
    xs = np.linspace(0, 1, 401, dtype=np.float32)
    inside = np.asarray(contained(chain.sets, jax.vmap(lambda x: products(x, chain.bases.degree))(xs[:, None])))
    return np.where(inside.any(0), xs[inside.argmax(0)], np.nan)


# ---- Pinball ------------------------------------------------------------------------------------------------------


def of_pinball(seeds: Sequence[int], steps: int, system: SkillChaining = IN_PINBALL) -> list[Claim]:
    """Flat Sarsa is the same system whose options are never used."""
    chain, returns = play_pinball(system, seeds, steps)
    _, flat = play_pinball(dataclasses.replace(system, gestation=NEVER), seeds, steps)
    num_options = np.asarray(chain.usable).sum(1)
    is_chained = (num_options >= 2) & contains_start(chain)
    gain = stats.difference_interval(returns, flat)
    ours = f"{stats.iqm(returns):.0f}, flat {stats.iqm(flat):.0f}"
    note = f"IQM over seeds of the mean return of episodes {FIRST} to {LAST}, or as far as {steps:,} steps lead."
    return [
        Claim("Pinball: two options or more lead back to the start", "in 80 % of seeds or more",
              f"{is_chained.mean():.0%} of seeds, {num_options.min()} to {num_options.max()} options", None,
              bool(is_chained.mean() >= 0.8), seeds=len(seeds)),
        Claim("Pinball: options beat flat Sarsa with as many steps", "yes", ours, interval(returns), gain[0] > 0,
              f"{note} The difference is {gain[0]:.0f} to {gain[1]:.0f} (95 %).", len(seeds)),
    ]  # fmt: skip


class RecordedReturns(NamedTuple):
    """What each of the first episodes returned."""

    state: ChainState
    total: Float[Array, ""]  # Of the episode that is on its way.
    count: Int[Array, ""]
    returns: Float[Array, "E"]


@dataclass(frozen=True)
class ReturnRecorder:
    """Learns, and writes down returns."""

    learner: ChainLearner

    def begin(self, key: Key) -> RecordedReturns:
        return RecordedReturns(self.learner.begin(key), jnp.float32(0), jnp.int32(0), jnp.zeros(LAST))

    def choose(self, key: Key, state: RecordedReturns, x: Float[Array, "O"], m: Float[Array, "Z"]) -> StepChoice:
        inner, skill, action = self.learner.choose(key, state.state, x, m)
        return StepChoice(state._replace(state=inner), skill, action)

    def learn(self, key: Key, state: RecordedReturns, step: Transition) -> RecordedReturns:
        total = state.total + step.reward
        returns = state.returns.at[jnp.where(step.ended, state.count, LAST)].set(total, mode="drop")
        inner = self.learner.learn(key, state.state, step)
        return RecordedReturns(inner, jnp.where(step.ended, 0.0, total), state.count + step.ended, returns)


def play_pinball(
    system: SkillChaining, seeds: Sequence[int], steps: int
) -> tuple[OptionChain, Float[np.ndarray, "seeds"]]:
    """What it has learned, and each seed's mean return of the episodes that count."""
    tasks, counter = pinball("easy"), StepCounter(len(seeds), steps)
    with contextlib.closing(counted_play(tasks, seeds, counter)) as play:
        learner = dataclasses.replace(system.learner(tasks, inputs_of(tasks, play)), optimism=PINBALL_OPTIMISM)
        found = play.learn(ReturnRecorder(learner)).state
    counts = np.minimum(found.count, LAST)
    means = [row[min(FIRST, count - 1) : count].mean() for row, count in zip(np.asarray(found.returns), counts)]
    return found.state.chain, np.asarray(means)


def contains_start(chains: OptionChain) -> Bool[np.ndarray, "seeds"]:
    """Whether the last usable option's initiation set contains the place where the ball starts."""
    x = jnp.concatenate([jnp.asarray(pinball("easy").tasks[0].task.starts[0]), jnp.zeros(2)])
    each = [actor_of(chains, s) for s in range(len(chains.usable))]
    inside = np.stack([np.asarray(chain.sets_at(x, jnp.zeros(0))[0]) for chain in each])
    last = np.asarray(chains.usable).sum(1) - 1
    return inside[np.arange(len(inside)), last] & (last >= 0)
