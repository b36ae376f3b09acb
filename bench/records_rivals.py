"""The rivals of records.py and their settings on each environment.

PPO: rl-baselines3-zoo, hyperparams/ppo.yml, commit 22e3ff2 (April 2026); those of classic control stand in
gymnasium_contests.py. ARS: hyperparams/ars.yml of that commit, where it has a linear policy. Where it has a network there,
the linear settings of its earlier commit 0103d98 are taken; for Pendulum, whose earlier setting is a network too, the
present one with a linear policy in its place. What the zoo does not say is the default of the algorithm: all of it on
numbered states, and for ARS on InvertedPendulum. Its budgets differ: here all have those of records_rows.py.
"""

from typing import Any

from gymnasium_contests import CONTESTS
from trainings import TORCH

# Of the rivals' environment, installed one after the other.
PACKAGES = (TORCH, "stable-baselines3", "sb3-contrib", "scikit-learn", "gymnasium[box2d,mujoco]")
TREE = {"rounds": 20, "episodes": 8, "leaves": 32}  # Of the tree that is distilled from PPO; 32 leaves are 63 nodes.

_LANDER = {
    "n_envs": 16,
    "ppo": {"n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4, "ent_coef": 0.01},
}
_LARGE = {
    "log_std_init": -2,
    "ortho_init": False,
    "activation_fn": "ReLU",
    "net_arch": {"pi": [256, 256], "vf": [256, 256]},
}
_OBSERVATIONS_ALONE = {"norm_obs": True, "norm_reward": False}

PPO: dict[str, dict[str, Any]] = {
    **{name: contest.sb3 for name, contest in CONTESTS.items()},
    "LunarLander-v3": _LANDER,
    "LunarLanderContinuous-v3": _LANDER,
    "FrozenLake-v1": {"n_envs": 1, "ppo": {}},
    "CliffWalking-v1": {"n_envs": 1, "ppo": {}},
    "Taxi-v4": {"n_envs": 1, "ppo": {}},
    "InvertedPendulum-v5": {
        "n_envs": 1,
        "normalize": True,
        "ppo": {
            "batch_size": 64,
            "n_steps": 32,
            "gamma": 0.999,
            "learning_rate": 0.000222425,
            "ent_coef": 1.37976e-7,
            "clip_range": 0.4,
            "n_epochs": 5,
            "gae_lambda": 0.9,
            "max_grad_norm": 0.3,
            "vf_coef": 0.19816,
        },
    },
    "Swimmer-v5": {
        "n_envs": 4,
        "normalize": True,
        "ppo": {"n_steps": 1024, "batch_size": 256, "gamma": 0.9999, "gae_lambda": 0.98, "learning_rate": 6e-4},
    },
    "Hopper-v5": {
        "n_envs": 1,
        "normalize": True,
        "ppo": {
            "batch_size": 32,
            "n_steps": 512,
            "gamma": 0.999,
            "learning_rate": 9.80828e-5,
            "ent_coef": 0.00229519,
            "clip_range": 0.2,
            "n_epochs": 5,
            "gae_lambda": 0.99,
            "max_grad_norm": 0.7,
            "vf_coef": 0.835671,
            "policy_kwargs": _LARGE,
        },
    },
    "HalfCheetah-v5": {
        "n_envs": 1,
        "normalize": True,
        "ppo": {
            "batch_size": 64,
            "n_steps": 512,
            "gamma": 0.98,
            "learning_rate": 2.0633e-5,
            "ent_coef": 0.000401762,
            "clip_range": 0.1,
            "n_epochs": 20,
            "gae_lambda": 0.92,
            "max_grad_norm": 0.8,
            "vf_coef": 0.58096,
            "policy_kwargs": _LARGE,
        },
    },
}

ARS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"n_envs": 1, "ars": {"n_delta": 2}},
    "Acrobot-v1": {"n_envs": 2, "normalize": True, "ars": {}},
    "MountainCar-v0": {"n_envs": 4, "normalize": True, "ars": {}},
    "Pendulum-v1": {
        "n_envs": 1,
        "normalize": _OBSERVATIONS_ALONE,
        "ars": {"learning_rate": 0.018, "n_delta": 4, "n_top": 1, "delta_std": 0.1, "zero_policy": False},
    },
    "MountainCarContinuous-v0": {"n_envs": 4, "normalize": True, "ars": {"n_delta": 16}},
    "LunarLander-v3": {"n_envs": 1, "normalize": _OBSERVATIONS_ALONE, "ars": {}},
    "LunarLanderContinuous-v3": {"n_envs": 1, "normalize": True, "ars": {}},
    "FrozenLake-v1": {"n_envs": 1, "ars": {}},
    "CliffWalking-v1": {"n_envs": 1, "ars": {}},
    "Taxi-v4": {"n_envs": 1, "ars": {}},
    "InvertedPendulum-v5": {"n_envs": 1, "ars": {}},
    "Swimmer-v5": {"n_envs": 1, "ars": {"learning_rate": 0.02, "delta_std": 0.01, "n_delta": 1, "n_top": 1}},
    "Hopper-v5": {
        "n_envs": 1,
        "normalize": _OBSERVATIONS_ALONE,
        "ars": {"learning_rate": 0.01, "delta_std": 0.025, "n_delta": 8, "n_top": 4, "alive_bonus_offset": -1},
    },
    "HalfCheetah-v5": {
        "n_envs": 1,
        "normalize": _OBSERVATIONS_ALONE,
        "ars": {"learning_rate": 0.02, "delta_std": 0.03, "n_delta": 32, "n_top": 4},
    },
}

SETTINGS = {"ppo": PPO, "ars": ARS}
WORDS = {
    "ppo": "PPO, stable-baselines3",
    "tree": "tree distilled from that PPO (VIPER-style)",
    "ars": "ARS linear, sb3-contrib",
}
