"""The start of a training from given rules: no search, no shuffling of skills; made correctable by what is observed first."""

import dataclasses

import numpy as np

from asap.config.schema import Config
from asap.experience.protocol import Experience
from asap.learn.search import MARGIN, ROUNDING, Trials
from asap.learn.state import Start, drawn_policy
from asap.policy.policy import ASAPPolicy
from asap.policy.rules.from_policy import sample_states
from asap.policy.rules.given import given_rules
from asap.policy.scaling import rescaled, shift_and_scale
from asap.policy.surgery import uniform

FIRST_EPISODES, FIRST_SHARE = 4, 0.05  # Of the rules, and as many of random play, before they are learned from.


def start_from_rules(config: Config, experience: Experience, seed: int) -> tuple[Start, list[str]]:
    """Where a seed begins, and what was done to the rules so that they can be learned from."""
    tasks, trials = experience.tasks, Trials(config, experience, seed)
    given = given_rules(config.policy, tasks.tasks)
    exact = given.policy()
    longest = trials.share_of(2 * tasks.size, 2 * tasks.size * tasks.spec.horizon)
    count = int(min(FIRST_EPISODES, FIRST_SHARE / longest + ROUNDING)) or int(longest <= 1)
    seen = [trials.play([policy], count).observations for policy in (exact, uniform(exact)) if count]
    states = _first_states(experience, exact, [part for part in seen if part is not None])
    book, notes = given.correctable(given.book.vocabulary.values(states[0].T, states[1].T))
    moments = trials.start.moments
    if moments is None or not float(moments.count):
        policy = book.policy(given.shape)
    elif given.shape.scaling is None:
        policy = rescaled(book.policy(given.shape), moments)
    else:  # Features that are not linear are scaled once, before the weights: later it would change the policy.
        policy = book.policy(given.shape._replace(scaling=shift_and_scale(moments)))
    policy = given.grown(_with_usual_slopes(policy), states, seed)
    policy = dataclasses.replace(policy, kept=drawn_policy(config, tasks, seed).kept)
    return trials.start._replace(policy=policy), notes


def _with_usual_slopes(policy: ASAPPolicy) -> ASAPPolicy:
    """The same planes, with alpha_beta so large that their weights are as small as those of planes that are drawn.

    Step sizes are meant for such weights: a sharp plane with large ones would turn too slowly to be corrected.
    """
    partition = policy.partition
    margins = float(partition.alpha_beta) * partition.beta
    slopes = np.linalg.norm(margins[:, int(policy.psi.basis.has_bias) :], axis=-1)
    alpha_beta = np.float32(max(slopes.max(initial=0.0) / MARGIN, 1.0)) * partition.alpha_beta
    partition = dataclasses.replace(partition, beta=np.float32(margins / alpha_beta), alpha_beta=np.float32(alpha_beta))
    return dataclasses.replace(policy, partition=partition)


def _first_states(experience: Experience, policy: ASAPPolicy, seen: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(O, N) and (Z, N): what was seen, or else what random play of a compiled task sees, or what is usual."""
    random = None if seen else experience.random_states()
    if random is not None:
        return np.asarray(random[0]), np.asarray(random[1])
    task = experience.tasks.tasks[0]
    states = np.concatenate(seen) if seen else sample_states(policy, task)
    return states.T, np.tile(np.asarray(task.descriptor, float)[:, None], (1, len(states)))
