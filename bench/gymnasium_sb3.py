"""One training of stable-baselines3, for gymnasium_table.py: a JSON object comes in as argument, one goes out as a line.

Runs in an environment of its own, which has PyTorch and stable-baselines3 and knows nothing of ASAP. What the zoo's
trainer (rl-baselines3-zoo, rl_zoo3/exp_manager.py) does around PPO is done here too: environments side by side in one
process, `VecNormalize` with PPO's own discount, and schedules written "lin_0.001". records_sb3.py builds on it.
"""

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

FIRST_FRESH_SEED = 1_000_000  # Of resets in evaluation; training counts its own from the seed of the run.
LANES = 32  # Episodes that are played side by side.
LONGEST = 1000  # Steps of an episode where the environment has no limit of its own, as in ASAP.

Act = Callable[[np.ndarray], np.ndarray]  # Actions for n observations.


def main() -> None:
    job = json.loads(sys.argv[1])
    model, report = trained(job)
    returns = returns_of(greedy(model), job["env"], fresh_seeds(job["seed"], job["episodes"]))
    print(json.dumps({"return": float(returns.mean()), **report}))


def trained(job: dict[str, Any]) -> tuple[BaseAlgorithm, dict[str, Any]]:
    """The model, and what learning it took."""
    torch.set_num_threads(1)  # Networks this small only get slower with more.
    model = build(job["env"], job["seed"], **job["settings"])
    began, busy = time.perf_counter(), time.process_time()
    model.learn(job["steps"])
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    return model, {
        "steps": model.num_timesteps,
        "seconds": seconds,
        "busy_seconds": busy,
        "actor_parameters": num_parameters(model, is_of_actor),
        "parameters": num_parameters(model, lambda name: True),
        "versions": {module.__name__: module.__version__ for module in (stable_baselines3, torch, gymnasium)},
    }


def build(
    env: str,
    seed: int,
    n_envs: int,
    ppo: dict[str, Any] | None = None,
    ars: dict[str, Any] | None = None,
    normalize: bool | dict[str, bool] = False,
) -> BaseAlgorithm:
    """PPO with a network, or ARS with a linear policy. `normalize` may name the options of VecNormalize."""
    settings = dict(ars if ppo is None else ppo)
    venv: VecEnv = make_vec_env(env, n_envs, seed=seed, env_kwargs=limit_of(env))
    if normalize:
        discount = {"gamma": ppo["gamma"]} if ppo and "gamma" in ppo else {}
        venv = VecNormalize(venv, **(normalize if isinstance(normalize, dict) else {}), **discount)
    settings = {name: schedule(value) if str(value).startswith("lin_") else value for name, value in settings.items()}
    if "activation_fn" in settings.get("policy_kwargs", {}):
        named = settings["policy_kwargs"]["activation_fn"]
        settings["policy_kwargs"] = settings["policy_kwargs"] | {"activation_fn": getattr(torch.nn, named)}
    if ppo is not None:
        return PPO("MlpPolicy", venv, seed=seed, device="cpu", **settings)
    from sb3_contrib import ARS

    return ARS("LinearPolicy", venv, seed=seed, device="cpu", **settings)


def limit_of(env: str) -> dict[str, int]:
    return {"max_episode_steps": LONGEST} if gymnasium.spec(env).max_episode_steps is None else {}


def schedule(text: str) -> Callable[[float], float]:
    """From the number after "lin_" down to 0 at the end of training."""
    start = float(text.removeprefix("lin_"))
    return lambda remaining: remaining * start


def fresh_seeds(seed: int, episodes: int) -> range:
    return range(FIRST_FRESH_SEED + seed * episodes, FIRST_FRESH_SEED + (seed + 1) * episodes)


def greedy(model: BaseAlgorithm, deterministic: bool = True) -> Act:
    """The most probable actions, or drawn ones."""
    normalizer = model.get_vec_normalize_env()

    def act(x: np.ndarray) -> np.ndarray:
        seen = x if normalizer is None else normalizer.normalize_obs(x)
        return model.predict(seen, deterministic=deterministic)[0]

    return act


def returns_of(act: Act, name: str, seeds: Sequence[int]) -> np.ndarray:
    """The return of an episode from each seed, rewards as the environment gives them; some are played side by side."""
    waiting, totals = deque(enumerate(seeds)), np.zeros(len(seeds))
    with ExitStack() as stack:
        lanes = []
        for _ in range(min(LANES, len(seeds))):
            env = stack.enter_context(gymnasium.make(name, **limit_of(name)))
            number, seed = waiting.popleft()
            lanes.append((env, number, env.reset(seed=seed)[0]))
        while lanes:
            actions, going = act(np.stack([x for *_, x in lanes])), []
            for (env, number, _), action in zip(lanes, actions):
                x, reward, terminated, truncated, _ = env.step(action)
                totals[number] += float(reward)
                if (terminated or truncated) and waiting:
                    number, seed = waiting.popleft()
                    going.append((env, number, env.reset(seed=seed)[0]))
                elif not (terminated or truncated):
                    going.append((env, number, x))
            lanes = going
    return totals


def num_parameters(model: BaseAlgorithm, counts: Callable[[str], bool]) -> int:
    return sum(values.numel() for name, values in model.policy.named_parameters() if counts(name))


def is_of_actor(name: str) -> bool:
    return name.startswith(("mlp_extractor.policy_net.", "action_net.", "log_std"))


if __name__ == "__main__":
    main()
