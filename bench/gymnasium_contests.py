"""What gymnasium_table.py has both systems learn, and with which settings."""

from typing import Any, NamedTuple


class Contest(NamedTuple):
    """One environment: the budget of both systems, the return that counts as solved, and the settings of each
    system."""

    steps: int
    threshold: float
    asap: dict[str, Any]  # As ASAP(...) takes them.
    sb3: dict[str, Any]  # As gymnasium_sb3.build takes them.


# The settings of PPO are those of rl-baselines3-zoo, hyperparams/ppo.yml, commit 22e3ff2 (April 2026); what the zoo
# does not say is PPO's default. The zoo's own budgets: 100,000 (CartPole, Pendulum), 1,000,000 (Acrobot, MountainCar),
# 20,000 (MountainCarContinuous). A schedule "lin_" ends with the budget given here.
CONTESTS = {
    "CartPole-v1": Contest(
        150_000,
        475.0,
        {"hyperplanes": 1, "skills": "constant"},
        {
            "n_envs": 8,
            "ppo": {
                "n_steps": 32,
                "batch_size": 256,
                "gae_lambda": 0.8,
                "gamma": 0.98,
                "n_epochs": 20,
                "ent_coef": 0.0,
                "learning_rate": "lin_0.001",
                "clip_range": "lin_0.2",
            },
        },
    ),
    "Acrobot-v1": Contest(
        150_000,
        -100.0,
        {"hyperplanes": 1, "skills": "constant"},
        {
            "n_envs": 16,
            "normalize": True,
            "ppo": {"n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99, "n_epochs": 4, "ent_coef": 0.0},
        },
    ),
    "MountainCar-v0": Contest(
        500_000,
        -110.0,
        {"hyperplanes": 2, "skills": "constant", "features": "poly2", "settings": ["learn.batch_steps=1024"]},
        {
            "n_envs": 16,
            "normalize": True,
            "ppo": {"n_steps": 16, "gae_lambda": 0.98, "gamma": 0.99, "n_epochs": 4, "ent_coef": 0.0},
        },
    ),
    "Pendulum-v1": Contest(
        300_000,
        -200.0,
        {"hyperplanes": 2, "skills": "linear", "settings": ["learn.discount=0.95"]},
        {
            "n_envs": 4,
            "ppo": {
                "n_steps": 1024,
                "gae_lambda": 0.95,
                "gamma": 0.9,
                "n_epochs": 10,
                "ent_coef": 0.0,
                "learning_rate": 1e-3,
                "clip_range": 0.2,
                "use_sde": True,
                "sde_sample_freq": 4,
            },
        },
    ),
    "MountainCarContinuous-v0": Contest(
        50_000,
        90.0,
        {"hyperplanes": 1, "skills": "linear", "settings": ["run.search_share=0.6"]},
        {
            "n_envs": 1,
            "normalize": True,
            "ppo": {
                "batch_size": 256,
                "n_steps": 8,
                "gamma": 0.9999,
                "learning_rate": 7.77e-5,
                "ent_coef": 0.00429,
                "clip_range": 0.1,
                "n_epochs": 10,
                "gae_lambda": 0.9,
                "max_grad_norm": 5,
                "vf_coef": 0.19,
                "use_sde": True,
                "policy_kwargs": {"log_std_init": -3.29, "ortho_init": False},
            },
        },
    ),
}
