"""What our checked and recorded play costs beside Gymnasium's own vector environments, which only step.

The environment takes a millisecond per step, asleep: so two of them can go side by side on any machine, and what is
added to the millisecond is the cost of playing. A ratio of 1 is for free. Each of our turns is divided by the turn of
Gymnasium just before it, and the median over the rounds is given.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from asap.base.episodes import TRAINING, EpisodeId
from asap.envs.gymnasium.make import EnvLimits, EnvSource, HostedSource
from asap.policy.host import Plan
from asap.workers.dispatch import Dispatcher
from asap.workers.failures import failure
from asap.workers.hire import InProcess
from asap.workers.pool import Pool
from asap.workers.work import Work, Workers

SECONDS_PER_STEP = 0.001
LENGTH, EPISODES_PER_CHUNK, CHUNKS = 100, 5, 2  # Steps per episode; chunks per turn and worker.
ROUNDS = 7
SOURCE = EnvSource(f"{Path(__file__).stem}:Sleeping")
HOSTED = (HostedSource(SOURCE, EnvLimits()),)
PLAN = Plan(
    {
        "psi": {"kind": "polynomial", "degree": 1, "inputs": [0, 1, 2, 3], "observations": 4},
        "phi": {"kind": "constant"},
        "skills": "gibbs",
        "termination": None,
    },
    {
        "psi.shift": np.zeros(4),
        "psi.scale": np.ones(4),
        "beta": np.ones((1, 5)),
        "alpha_beta": np.array(20.0),
        "theta": np.zeros((2, 2, 1)),
        "alpha_theta": np.array(1.0),
    },
)


class Sleeping(gymnasium.Env):
    """A millisecond of sleep per step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        time.sleep(SECONDS_PER_STEP)
        self.steps += 1
        return np.zeros(4, np.float32), 1.0, False, self.steps == LENGTH, {}


def play_speed(tell: Callable[[str], None]) -> dict[str, float]:
    """Steps per second of ours, Gymnasium = 1: one environment in this process, and two in processes of their own."""
    tell(f"playing: {ROUNDS} rounds of {SECONDS_PER_STEP * 1000:g} ms per step")
    with gymnasium_turn(SyncVectorEnv, 1) as theirs, our_turn(InProcess(HOSTED), tell) as ours:
        in_process = ratio(theirs, ours)
    with gymnasium_turn(AsyncVectorEnv, 2) as theirs, our_turn(Pool(HOSTED, 2), tell) as ours:
        in_pool = ratio(theirs, ours)
    return {"in process / SyncVectorEnv, 1 environment": in_process, "pool / AsyncVectorEnv, 2 environments": in_pool}


def ratio(theirs: Callable[[], float], ours: Callable[[], float]) -> float:
    theirs(), ours()  # The first turns start what has to be started.
    speeds = [(theirs(), ours()) for _ in range(ROUNDS)]
    return median(our_speed / their_speed for their_speed, our_speed in speeds)


@contextmanager
def gymnasium_turn(kind: type[VectorEnv], num_envs: int) -> Iterator[Callable[[], float]]:
    """A function that steps a vector environment as long as a turn lasts, and tells its steps per second."""
    with closing(kind([Sleeping] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)) as envs:
        actions, num_steps = np.zeros(num_envs, int), CHUNKS * EPISODES_PER_CHUNK * LENGTH
        envs.reset(seed=0)

        def turn() -> float:
            began = time.perf_counter()
            for _ in range(num_steps):
                envs.step(actions)
            return num_envs * num_steps / (time.perf_counter() - began)

        yield turn


@contextmanager
def our_turn(workers: Workers, tell: Callable[[str], None]) -> Iterator[Callable[[], float]]:
    """The same for workers of ours, by the dispatcher that training has, policy included."""
    numbers = itertools.count()
    with closing(Dispatcher(workers, partial(failure, name=SOURCE.name), tell)) as dispatcher:

        def turn() -> float:
            works = [next_work(next(numbers)) for _ in range(CHUNKS * workers.num_workers)]
            began = time.perf_counter()
            finished = dispatcher.play(works)
            seconds = time.perf_counter() - began
            return sum(played.length for chunk in finished for played in chunk.played) / seconds

        yield turn


def next_work(number: int) -> Work:
    first = number * EPISODES_PER_CHUNK
    return Work(number, PLAN, tuple(EpisodeId(0, TRAINING, first + i) for i in range(EPISODES_PER_CHUNK)))
