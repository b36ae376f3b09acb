"""An environment of one's own in twenty lines, with names for the rules to use.

python examples/custom_env.py
"""

import gymnasium
import numpy as np

from asap import ASAP


class Thermostat(gymnasium.Env):
    """Keep a room at 20 degrees: it loses heat to the outside, the heater is on or off, and switching it on costs."""

    observation_space = gymnasium.spaces.Box(-50, 50, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    observation_names, action_names = ("room", "outside"), ("heater off", "heater on")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room, self.outside, self.minutes = self.np_random.uniform(10, 25), self.np_random.uniform(-10, 10), 0
        return self._observed(), {}

    def step(self, action):
        self.room += 0.05 * (self.outside - self.room) + 2.0 * action + 0.1 * self.np_random.standard_normal()
        self.minutes += 1
        return self._observed(), -abs(self.room - 20) - 0.1 * action, False, self.minutes == 100, {}

    def _observed(self):
        return np.float32([self.room, self.outside])


if __name__ == "__main__":
    model = ASAP(Thermostat, hyperplanes=1, seed=0).learn(30_000)
    print(model.explain())
    print(f"mean return of 100 episodes: {model.evaluate(episodes=100)['return']:.1f}")
