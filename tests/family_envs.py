"""Tiny environments whose numbers can be varied, and some that make it hard. Workers import them as "family_envs:Name"."""

import gymnasium
import numpy as np

LENGTH = 20


class Swapped(gymnasium.Env):
    """Name the sign of the number that is seen, or the other one: `order` alone decides which, and is not seen."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, order: float = 1.0):
        self.order = order

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._observed(), {}

    def step(self, action):
        is_right = (action == 1) == (self.x * self.order > 0)
        self.time += 1
        return self._observed(), float(is_right), False, self.time >= LENGTH, {}

    def _observed(self):
        self.x = self.np_random.uniform(-1, 1)
        return np.float32([self.x])


class Derived(Swapped):
    """Numbers that come from others: in the constructor, at the end of it, by a property, or by a way around."""

    scale = 2.0

    def __init__(self, flag: bool = False, count: int = 3):
        super().__init__()
        self.flag, self.count = flag, count
        self.width = 1.0
        self.area = self.width * self.scale
        self.twice = 2 * self.area
        self._depth = 1.0
        vars(self)["hidden"] = 5.0
        self.deeper = 2 * vars(self)["hidden"]

    @property
    def depth(self):
        return self._depth

    @depth.setter
    def depth(self, value):
        self._depth = value

    @property
    def fixed(self):
        return 7.0


class Wider(Swapped):
    """With a number more to see where `size` is 2, and other bounds of an action that is set."""

    def __init__(self, size: int = 1):
        super().__init__()
        self.observation_space = gymnasium.spaces.Box(-1, 1, (size,), np.float32)


def any_order(**named):
    """A factory that takes whatever its class takes."""
    return Swapped(**named)


class Timed(Swapped):
    """Its constructor sets the time, and so does every reset."""

    def __init__(self):
        super().__init__()
        self.time = 0
