"""Promise: a model can be pickled, copied and sent to another process; there it is the same model."""

import copy
import multiprocessing
import pickle

import numpy as np
import pytest

from asap import ASAP
from asap.learn.state import parameter_digest

SETTINGS = (
    "run.candidates=2 run.final_episodes=2 run.eval_episodes=2 learn.critic_features=4 learn.batch_steps=32".split()
)
TINY = [*SETTINGS, "learn.lanes=2", "learn.window=8", "run.chunk=1"]


@pytest.fixture(scope="module")
def learned():
    return ASAP("CartPole-v1", settings=TINY).learn(64)


def actions(model: ASAP, observation, count: int = 30) -> list:
    """Drawn one after the other: the stream of draws must go on where it was."""
    return [[np.asarray(part).tolist() for part in model.predict(observation)] for _ in range(count)]


@pytest.mark.parametrize("through", [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy])
@pytest.mark.parametrize(
    "name", ["CartPole-v1", "MountainCarContinuous-v0", "FrozenLake-v1", "two-rooms", "striker-r1"]
)
def test_every_kind_of_model_comes_back(name, through):
    model = ASAP(name, settings=TINY, seed=3)
    size = len(model.tasks.spec.observation_names)
    observation = 3 if name == "FrozenLake-v1" else np.zeros(size, np.float32)
    actions(model, observation, 5)
    again = through(model)
    assert actions(again, observation) == actions(model, observation)
    assert (again.config, again.seed, again.num_parameters) == (model.config, model.seed, model.num_parameters)


def test_it_goes_on_as_the_first_would(learned, tmp_path):
    first, again = copy.deepcopy(learned), pickle.loads(pickle.dumps(learned))
    assert again.explain() == first.explain()
    for model, name in ((first, "first"), (again, "again")):
        model.save(tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "again").read_bytes()
    digests = {parameter_digest(model.learn(64).policies) for model in (first, again)}
    assert len(digests) == 1 and digests != {parameter_digest(learned.policies)}


def _play(model: ASAP, answers) -> None:
    answers.put((actions(model, np.zeros(4, np.float32)), model.evaluate(episodes=2)["return"], model.explain()))


def test_a_spawned_process_has_the_same_model(learned):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=_play, args=(learned, answers))
    process.start()
    told = answers.get(timeout=60)
    process.join(10)
    again = copy.deepcopy(learned)
    here = actions(again, np.zeros(4, np.float32)), again.evaluate(episodes=2)["return"], again.explain()
    assert told == here
