"""Makes the data of a release that `test_earlier_releases.py` reads, with the release that Python imports.

python tests/data/releases/make.py tests/data/releases/VERSION
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from asap import ASAP

QUICK = ["run.chunk=2", "run.eval_episodes=4", "run.final_episodes=8"]
RUNS = {
    "two-rooms": ["two-rooms", "--seeds", "2", "--episodes", "20"],
    "cartpole": ["CartPole-v1", "--hyperplanes", "1", "--steps", "6000", "--seed", "3"],
}
KEPT = ("config.toml", "events.jsonl", "checkpoints")


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    runs = {name: trained(folder / name, words) for name, words in RUNS.items()}
    rng = np.random.default_rng(0)
    rooms = ASAP("two-rooms", seed=1, settings=QUICK).learn(episodes=400)
    cartpole = ASAP("CartPole-v1", hyperplanes=1, seed=1, settings=QUICK).learn(20_000)
    models = {
        "two-rooms.asap": saved(rooms, folder / "two-rooms.asap", rng.uniform(0, 1, (24, 4))),
        "cartpole.asap": saved(cartpole, folder / "cartpole.asap", rng.uniform(-1, 1, (24, 4)) * [1.0, 1.0, 0.15, 1.0]),
    }
    (folder / "expected.json").write_text(json.dumps({"runs": runs, "models": models}, indent=1) + "\n")


def trained(path: Path, words: list[str]) -> dict:
    """A run with its newest checkpoints alone, and its digest."""
    settings = [word for setting in QUICK for word in ("--set", setting)]
    command = [sys.executable, "-m", "asap", "train", *words, *settings, "--out", str(path), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    for entry in path.iterdir():
        if entry.name not in KEPT:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for old in sorted((path / "checkpoints").glob("ckpt-*"))[:-1]:
        old.unlink()
    return {"parameters_sha256": json.loads(done.stdout.splitlines()[-1])["parameters_sha256"]}


def saved(model: ASAP, path: Path, observations: np.ndarray) -> dict:
    observations = observations.astype(np.float32)
    model.save(path)
    actions, skills = model.predict(observations, deterministic=True)
    return {"observations": observations.tolist(), "actions": actions.tolist(), "skills": skills.tolist()}


if __name__ == "__main__":
    main()
