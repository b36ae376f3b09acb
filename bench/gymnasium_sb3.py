"""One training of stable-baselines3's PPO, for gymnasium_table.py: a JSON object comes in as argument, one goes out as
a line.

Runs in an environment of its own, which has PyTorch and stable-baselines3 and knows nothing of ASAP. What the zoo's
trainer (rl-baselines3-zoo, rl_zoo3/exp_manager.py) does around PPO is done here too: environments side by side in one
process, `VecNormalize` with PPO's own discount, and schedules written "lin_0.001".
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

FIRST_FRESH_SEED = 1_000_000  # Of resets in evaluation; training counts its own from the seed of the run.


def main() -> None:
    job = json.loads(sys.argv[1])
    torch.set_num_threads(1)  # Networks this small only get slower with more.
    model = build(job["env"], job["seed"], **job["settings"])
    began, busy = time.perf_counter(), time.process_time()
    model.learn(job["steps"])
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    report = {
        "return": float(np.mean([play(model, job["env"], seed) for seed in fresh_seeds(job["seed"], job["episodes"])])),
        "steps": model.num_timesteps,
        "seconds": seconds,
        "busy_seconds": busy,
        "actor_parameters": num_parameters(model, is_of_actor),
        "parameters": num_parameters(model, lambda name: True),
        "versions": {module.__name__: module.__version__ for module in (stable_baselines3, torch, gymnasium)},
    }
    print(json.dumps(report))


def build(env: str, seed: int, n_envs: int, ppo: dict[str, Any], normalize: bool = False) -> PPO:
    venv: VecEnv = make_vec_env(env, n_envs, seed=seed)
    if normalize:
        venv = VecNormalize(venv, gamma=ppo["gamma"])
    settings = {name: schedule(value) if str(value).startswith("lin_") else value for name, value in ppo.items()}
    return PPO("MlpPolicy", venv, seed=seed, device="cpu", **settings)


def schedule(text: str) -> Callable[[float], float]:
    """From the number after "lin_" down to 0 at the end of training."""
    start = float(text.removeprefix("lin_"))
    return lambda remaining: remaining * start


def fresh_seeds(seed: int, episodes: int) -> range:
    return range(FIRST_FRESH_SEED + seed * episodes, FIRST_FRESH_SEED + (seed + 1) * episodes)


def play(model: PPO, name: str, seed: int) -> float:
    """The return of one episode, every action the most probable one, rewards as the environment gives them."""
    normalizer = model.get_vec_normalize_env()
    with gymnasium.make(name) as env:
        x, _ = env.reset(seed=seed)
        total, ended = 0.0, False
        while not ended:
            action, _ = model.predict(x if normalizer is None else normalizer.normalize_obs(x), deterministic=True)
            x, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            ended = terminated or truncated
    return total


def num_parameters(model: PPO, counts: Callable[[str], bool]) -> int:
    return sum(values.numel() for name, values in model.policy.named_parameters() if counts(name))


def is_of_actor(name: str) -> bool:
    return name.startswith(("mlp_extractor.policy_net.", "action_net.", "log_std"))


if __name__ == "__main__":
    main()
