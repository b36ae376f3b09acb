"""One training of a rival, for records.py: a JSON object comes in as argument, one goes out as a line.

Runs in the rivals' own environment. PPO and ARS are trained and played as in gymnasium_sb3.py. With PPO comes the tree
that is distilled from it (records_tree.py): it needs the network, and is measured in the same way.
"""

import json
import sys
import time
from typing import Any

import numpy as np
from gymnasium_sb3 import Act, fresh_seeds, greedy, returns_of, trained
from records_tree import imitated


def main() -> None:
    job = json.loads(sys.argv[1])
    model, learned = trained(job)
    report = learned | {"seconds": learned["busy_seconds"], "numbers": numbers_of(model, job)}
    report |= measured(job, greedy(model), greedy(model, False) if "ppo" in job["settings"] else None)
    if job.get("tree") is not None:
        began = time.process_time()
        act, size = imitated(model, job)
        seconds = learned["busy_seconds"] + time.process_time() - began
        shared = {"steps": learned["steps"] + size["further_steps"], "seconds": seconds}
        report["tree"] = {**size, **shared, "numbers": size["nodes"], **measured(job, act)}
    print(json.dumps(report))


def measured(job: dict[str, Any], act: Act, drawn: Act | None = None) -> dict[str, Any]:
    """Mean returns over so many episodes, and the share of starts below the threshold."""
    episodes, threshold = job["episodes"], job["threshold"]
    seeds = fresh_seeds(job["seed"], max(episodes, job["starts"]))
    returns = returns_of(act, job["env"], seeds)
    failed = None if threshold is None else float(np.mean(returns[: job["starts"]] < threshold))
    sampled = None if drawn is None else float(returns_of(drawn, job["env"], seeds[:episodes]).mean())
    return {"return": float(returns[:episodes].mean()), "sampled": sampled, "failed": failed}


def numbers_of(model: Any, job: dict[str, Any]) -> int:
    """Those of the actor. Scaled observations cost a linear policy a constant for each of its outputs, multiplied out."""
    outputs = ("mlp_extractor.policy_net.", "action_net.")
    weights = sum(values.numel() for name, values in model.policy.named_parameters() if name.startswith(outputs))
    if "ars" not in job["settings"] or not job["settings"].get("normalize"):
        return weights
    return weights + model.policy.action_net[0].out_features


if __name__ == "__main__":
    main()
