"""Rules in, corrected rules out: what operators of a tank do, checked, corrected by learning and compared.

python examples/correct_your_rules.py
"""

from pathlib import Path

import gymnasium
import numpy as np

from asap import ASAP, load_rules


class Tank(gymnasium.Env):
    """Keep the level of a tank at 1 m, while the demand jumps now and then. The valve has three positions."""

    observation_space = gymnasium.spaces.Box(np.float32([0, 0]), np.float32([2, 1]))
    action_space = gymnasium.spaces.Discrete(3)
    observation_names, action_names = ("level", "demand"), ("close valve", "half open", "open valve")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level, self.demand, self.minutes = self.np_random.uniform(0.2, 1.8), self.np_random.uniform(0.1, 0.9), 0
        return self._observed(), {}

    def step(self, action):
        self.level = float(np.clip(self.level + 0.1 * (action / 2 - self.demand), 0, 2))
        if self.np_random.random() < 0.05:
            self.demand = self.np_random.uniform(0.1, 0.9)
        self.minutes += 1
        return self._observed(), -abs(self.level - 1), False, self.minutes == 100, {}

    def _observed(self):
        return np.float32([self.level, self.demand])


RULES = """
# What the operators do.
if level > 1.2 then close valve
if level < 0.6 then open valve
otherwise half open
"""

if __name__ == "__main__":
    before = load_rules(RULES, Tank)
    print(f"mean return of the given rules: {before.evaluate(episodes=100)['return']:.1f}\n")

    model = ASAP(Tank, rules=RULES, seed=0).learn(30_000)
    print(model.changes())
    model.plot(changes=True).savefig("tank.png", dpi=150)

    Path("tank.txt").write_text(model.rules())
    after = load_rules(Path("tank.txt"), Tank)  # Edit the file, and load it again.
    print(f"\ntank.txt:\n{after.rules()}")
    print(f"mean return of 100 episodes: {after.evaluate(episodes=100)['return']:.1f}")
