"""Tiny environments for the tests of workers, which import them as "worker_envs:name"; most misbehave in one way."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np

LENGTH = 12


class Walk(gymnasium.Env):
    """A random walk of four numbers; everything in it comes from the seed."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, pause: float = 0.0):
        self.pause = pause

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.time = self.np_random.normal(size=4).astype(np.float32), 0
        return self.x.copy(), {}

    def step(self, action):
        time.sleep(self.pause)
        self.x = (self.x + self.np_random.normal(size=4) + 0.3 * action).astype(np.float32)
        self.time += 1
        return self.x.copy(), float(self.x.sum()), self.time >= LENGTH, False, {}


def walk(pause: float = 0.0) -> gymnasium.Env:
    return Walk(pause)


class LeavesMarks(Walk):
    """Files of a folder say that it was made, and that it was closed."""

    def __init__(self, folder: str, mark: str):
        super().__init__()
        self.folder, self.mark = Path(folder), mark
        (self.folder / f"{mark} made").touch()

    def close(self):
        (self.folder / f"{self.mark} closed").touch()


def leaves_marks(folder: str, mark: str) -> gymnasium.Env:
    return LeavesMarks(folder, mark)


def slow_to_make(seconds: float) -> gymnasium.Env:
    time.sleep(seconds)
    return Walk()


def tells_pids(folder: str, pause: float = 0.01) -> gymnasium.Env:
    """Leaves its process id, and those of two simulators it starts, as names of files; one has a session of its own."""
    sleep = [sys.executable, "-c", "import time; time.sleep(100)"]
    simulators = [subprocess.Popen(sleep, start_new_session=is_apart) for is_apart in (False, True)]
    for pid in (os.getpid(), *(simulator.pid for simulator in simulators)):
        (Path(folder) / str(pid)).touch()
    return Walk(pause)


class Fails(Walk):
    """Does `what` in step 3 of some episodes, or in another method.

    With `once` it does so for the first who comes there only: the file is the memory that all workers share.
    """

    def __init__(self, what: str, where: str = "step", once: str = ""):
        super().__init__()
        self.what, self.where, self.once = what, where, once
        if where == "make":
            self._fail()

    def reset(self, *, seed=None, options=None):
        answer = super().reset(seed=seed)
        self.is_chosen = bool(-1.36 < self.x[0] < -1.29)
        if self.where == "reset" and self.is_chosen:
            self._fail()
        return answer

    def step(self, action):
        if self.where == "step" and self.is_chosen and self.time == 2:
            self._fail()
        return super().step(action)

    def close(self):
        if self.where == "close":
            self._fail()

    def _fail(self):
        if self.once:
            try:
                os.close(os.open(self.once, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
        match self.what:
            case "hang":
                time.sleep(100)
            case "exit":
                os._exit(3)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "raise":
                raise RuntimeError("simulator gone")
            case "print":
                print("to stdout")
                os.write(1, b"to the descriptor\n")
                os.system("echo from a child")


def fails(what: str, where: str = "step", once: str = "") -> gymnasium.Env:
    return Fails(what, where, once)


def stubborn_exit() -> gymnasium.Env:
    raise SystemExit("no licence")


class Signals(Walk):
    """Sends a signal to the driver in the midst of one episode, by its reset seed; a file remembers that it has."""

    def __init__(self, driver: int, number: int, seed: int, once: str, hangs: bool):
        super().__init__()
        self.driver, self.number, self.chosen, self.once, self.hangs = driver, number, seed, once, hangs

    def reset(self, *, seed=None, options=None):
        self.seed = seed
        return super().reset(seed=seed)

    def step(self, action):
        if self.seed == self.chosen and self.time == 2 and not os.path.exists(self.once):
            Path(self.once).touch()
            os.kill(self.driver, self.number)
            time.sleep(100 if self.hangs else 0)
        return super().step(action)


def signals(**options) -> gymnasium.Env:
    return Signals(**options)
