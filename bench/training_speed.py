"""How fast hosted training is, beside a bare loop over the same environment with a policy in NumPy.

Training counts from its first to its last update: the steps between them, divided by the seconds. The bare loop steps
`gymnasium.make(...)`, chooses by two rows of weights and Gumbel noise, and does nothing else. Both take turns on one
core, and each of our turns is divided by the bare turn just before it. The median of the rounds is given. Seconds are
processor time: by the clock, a busy machine alone moves the ratio. Run it as `taskset -c 1 python bench/training_speed.py`.
"""

import time
from statistics import median

import gymnasium
import numpy as np

from asap import ASAP

ENV, STEPS, BARE_STEPS, ROUNDS = "CartPole-v1", 300_000, 50_000, 5
CASES = {"defaults": {}, "batches of 4,096 steps": {"learn.batch_steps": 4096}}
CASES |= {f"{name}, env.vector=false": {**case, "env.vector": False} for name, case in CASES.items()}


def bare_speed() -> float:
    """Steps per second of the loop that anybody would write first."""
    env, generator = gymnasium.make(ENV), np.random.default_rng(0)
    weights, bias = generator.normal(size=(2, env.observation_space.shape[0])), generator.normal(size=2)
    x, _ = env.reset(seed=0)
    began = time.process_time()
    for _ in range(BARE_STEPS):
        action = int((weights @ x + bias + generator.gumbel(size=2)).argmax())
        x, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            x, _ = env.reset()
    return BARE_STEPS / (time.process_time() - began)


def training_speed(settings: dict) -> float:
    """Steps per second from the first to the last update."""
    marks = []
    model = ASAP(ENV, settings=settings)
    model.learn(STEPS, callback=lambda report: marks.append((time.process_time(), int(report.env_steps.sum()))))
    (began, first), (ended, last) = marks[0], marks[-1]
    return (last - first) / (ended - began)


def main() -> None:
    for name, settings in CASES.items():
        training_speed(settings)  # Compiles what has to be compiled; programs are kept.
        pairs = [(bare_speed(), training_speed(settings)) for _ in range(ROUNDS)]
        ratios = [ours / bare for bare, ours in pairs]
        bare, ours = (median(speeds) for speeds in zip(*pairs))
        print(f"{name}: {ours:,.0f} steps/s, bare loop {bare:,.0f}; ratio {median(ratios):.2f}", flush=True)


if __name__ == "__main__":
    main()
