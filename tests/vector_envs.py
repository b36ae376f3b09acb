"""Cart poles whose vector form misbehaves in one way, for the tests of lanes: `vector_envs:VectorCart-v0`."""

import time

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv, CartPoleVectorEnv
from gymnasium.vector import AutoresetMode

LATE = 70  # Steps: more than the comparison of both forms plays.


class Cart(CartPoleEnv):
    """With `how="fails late"`, episodes that begin far to the right raise in step 70."""

    def __init__(self, how: str = ""):
        super().__init__()
        self.how = how

    def reset(self, **options):
        answer = super().reset(**options)
        self.first, self.steps = self.state[0], 0
        return answer

    def step(self, action):
        self.steps += 1
        if self.how == "fails late" and self.steps == LATE and self.first > 0.03:
            raise ValueError("the pole broke")
        return super().step(action)


class Carts(CartPoleVectorEnv):
    def __init__(self, num_envs: int = 1, max_episode_steps: int = 500, how: str = ""):
        super().__init__(num_envs, max_episode_steps - (how == "limit"))
        self.how = how
        if how == "autoreset":
            self.metadata = {**self.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        if how == "spaces":
            self.single_action_space = gymnasium.spaces.Discrete(3)

    def reset(self, **options):
        answer = super().reset(**options)
        if self.how == "state":
            self.hidden, self.state = self.state, None
        return answer

    def step(self, action):
        observations, rewards, terminated, truncated, infos = super().step(action)
        if self.how == "drifts":
            observations = np.nextafter(observations, np.float32(1))
        if self.how == "rewards":
            rewards = rewards * np.float32(0.5)
        if self.how == "neighbours":  # A lane feels the one beside it.
            self.state[0] += 1e-5 * np.roll(self.state[0], 1)
        if self.how == "ends":
            terminated[0] = False
        if self.how == "prints":
            print("a step")
        if self.how == "tells":
            infos = {"is_success": terminated}
        is_late = (self.steps >= LATE).any()
        if is_late and self.how == "fails late":
            raise ValueError("a pole broke")
        if is_late and self.how == "nan late":
            observations[3] = np.nan
        if is_late and self.how == "hangs late":
            time.sleep(100)
        return observations, rewards, terminated, truncated, infos


gymnasium.register("VectorCart-v0", entry_point=Cart, vector_entry_point=Carts, max_episode_steps=500)
