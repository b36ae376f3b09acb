"""Pinball, a ball among obstacles (Konidaris and Barto, 2009), as a Gymnasium environment around the package pynball-rl.

What the package leaves to its user is done here: it draws from Python's global random numbers, which are given back as they were,
and it is no Gymnasium environment. Rewards are its own: -1 for doing nothing, -5 for a push, and 10,000 more with the step that
reaches the goal. A random player reaches it once in about 4,000 steps on the easy board.
"""

import contextlib
import importlib.resources
import importlib.util
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

BOARDS = ("very_easy", "easy", "hard")
INSTALL = "pip install pynball-rl"


def is_installed() -> bool:
    return importlib.util.find_spec("pynball_rl") is not None


class Pinball(gymnasium.Env):
    """Place and velocity of the ball; five actions push it or let it roll."""

    observation_names = ("x", "y", "x velocity", "y velocity")
    action_names = ("push right", "push down", "push left", "push up", "roll")

    def __init__(self, board: str = "easy"):
        from pynball_rl.pynball_env import PynBall

        self.observation_space = spaces.Box(np.float32([0, 0, -1, -1]), np.float32([1, 1, 1, 1]))
        self.action_space = spaces.Discrete(len(self.action_names))
        self._random = random.Random(0).getstate()
        with self._own_random(), importlib.resources.as_file(_configs() / f"{board}_config.toml") as path:
            self._board = PynBall(Path(path))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        if seed is not None:
            self._random = random.Random(seed).getstate()
        with self._own_random():
            return np.float32(self._board.reset()), {}

    def step(self, action: int):
        with self._own_random():
            state, reward, is_goal, _ = self._board.step(int(action))
        return np.float32(state), float(reward), is_goal, False, {"is_success": is_goal}

    @contextlib.contextmanager
    def _own_random(self) -> Iterator[None]:
        """The package draws from the global generator, which others use too."""
        theirs = random.getstate()
        random.setstate(self._random)
        try:
            yield
        finally:
            self._random = random.getstate()
            random.setstate(theirs)


def _configs() -> Any:
    return importlib.resources.files("pynball_rl.configs")
