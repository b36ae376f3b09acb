"""One training of ASAP, for gymnasium_table.py: a JSON object comes in as argument, one goes out as a line.

Every training has a process of its own, so compiling counts in each.
"""

import json
import sys
import time

import gymnasium
import jax

import asap


def main() -> None:
    job = json.loads(sys.argv[1])
    model = asap.ASAP(job["env"], seed=job["seed"], **job["settings"])
    began, busy = time.perf_counter(), time.process_time()
    model.learn(total_timesteps=job["steps"])
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    report = {
        "return": model.evaluate(episodes=job["episodes"], deterministic=True)["return"],
        "steps": model.num_timesteps,
        "seconds": seconds,
        "busy_seconds": busy,
        "actor_parameters": model.num_parameters,
        "parameters": model.num_parameters + model.config.learn.critic_features + 1,  # Of the critic, the last layer.
        "versions": {module.__name__: module.__version__ for module in (asap, jax, gymnasium)},
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
