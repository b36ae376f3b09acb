"""What a config that leaves things open is run with."""

import dataclasses
from typing import Any

from asap.base.spec import Task
from asap.config.schema import Config
from asap.config.settings import Values

# What a learner uses where the config leaves it open.
OPEN = ("optimizer", "step_size_theta", "step_size_beta", "lanes", "schedule", "entropy")
LEARNER_DEFAULTS = {
    "reinforce": ("adam", 0.05, 0.05, 32, "constant", 0.05),
    "actor-critic": ("adam", 0.05, 0.05, 32, "constant", 0.07),
    "natural": ("sgd", 0.3, 0.3, 32, "constant", 0.07),
    # Small batches learn soonest, falling step sizes then steady the policy.
    "ppo": ("adam", 0.05, 0.05, 8, "robbins-monro", 0.07),
    # Nothing of this has a part in a search, which has settings of its own.
    "ars": ("sgd", 0.0, 0.0, 1, "constant", 0.0),
    "importance": ("adam", 0.1, 0.1, 32, "robbins-monro", 0.07),
    "likelihood": ("adam", 0.1, 0.1, 32, "robbins-monro", 0.07),
}
EPISODES = 2000


def complete(config: Config) -> Config:
    """The config with every open choice filled in, as it is run and recorded."""
    learner = config.learn.learner or "ppo"
    defaults = dict(zip(OPEN, LEARNER_DEFAULTS[learner], strict=True))
    open_ones = {name: value for name, value in defaults.items() if getattr(config.learn, name) is None}
    learn = dataclasses.replace(config.learn, learner=learner, **open_ones)
    weights = config.run.weights or (1.0,) * len(config.run.tasks)
    episodes = config.run.episodes
    if config.run.steps is None:
        episodes = episodes or EPISODES
    elif episodes == 2**31 - 1:  # In files of release 0.1: no budget of episodes.
        episodes = None
    run = dataclasses.replace(config.run, weights=weights, episodes=episodes)
    return dataclasses.replace(config, learn=learn, run=run)


def by_budget(config: Config, task: Task) -> Values:
    """Defaults for the budget of a run of one task that begins with nothing."""
    run, given = config.run, config.policy.rules or config.run.source is not None
    has_none = run.steps is None and run.episodes is None
    steps = task.budget.get("run.steps", 0) if has_none else run.steps or 0
    found: dict[str, Any] = {}
    if not given and not task.descriptor:
        for least, settings in task.budget_settings:
            found |= settings if steps >= least else {}
    return found


def keeps_learner(config: Config) -> bool:
    """Whether what the user has said leaves the learner and the skills that these defaults are for."""
    return (
        config.policy.skills == "linear" and config.learn.learner in (None, "ppo") and config.policy.termination is None
    )
