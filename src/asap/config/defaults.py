"""What a config that leaves things open is run with."""

import dataclasses

from asap.config.schema import Config

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
