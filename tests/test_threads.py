"""Promise: threads may share a model. Each gets the actions that it asks for, likeliest ones or drawn ones, whatever the
others ask.

PREDICT_SECONDS=10 makes it last longer.
"""

import itertools
import os
import sys
import threading
import time

import numpy as np
import pytest

from asap import ASAP
from asap.learn.search import draw
from asap.policy.policy import NO_SKILL

SECONDS = float(os.environ.get("PREDICT_SECONDS", "0.5"))
LEAST = 30
OBSERVATIONS = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
PREVIOUS = (None, 0, 1, 2, 3)


def new_model(termination: float | None) -> ASAP:
    """With planes and skills that are decided, so that states differ."""
    settings = () if termination is None else (f"policy.termination={termination}",)
    model = ASAP("CartPole-v1", hyperplanes=2, settings=settings)
    model.policy = draw(model.config, model.tasks, np.random.default_rng(1))
    return model


@pytest.fixture
def many_switches():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def run_together(works) -> None:
    """Each in a thread of its own, again and again until the time is over, but some times at least; what they raise is
    raised."""
    deadline, raised = time.monotonic() + SECONDS, []

    def repeat(work) -> None:
        try:
            for count in itertools.count():
                if raised or (count >= LEAST and time.monotonic() >= deadline):
                    return
                work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


@pytest.mark.parametrize("termination", [None, 0.2])
def test_eight_threads_get_what_they_ask_for(termination, many_switches):
    """Four ask for the likeliest, four draw, each for a state of its own; some of each give rows."""
    model = new_model(termination)
    asked = list(itertools.product(OBSERVATIONS, PREVIOUS))
    expected = [model.predict(x, state, deterministic=True) for x, state in asked]
    num_checked, drawn = itertools.count(), [[] for _ in range(4)]

    def check() -> None:
        assert [model.predict(x, state, deterministic=True) for x, state in asked] == expected
        next(num_checked)

    def check_rows() -> None:
        states = np.int32([NO_SKILL if state is None else state for _, state in asked])
        actions, skills = model.predict(np.stack([x for x, _ in asked]), states, deterministic=True)
        assert list(zip(actions, skills)) == expected
        next(num_checked)

    def draw_one(number: int) -> None:
        state = number if termination is not None else None
        drawn[number].append(model.predict(OBSERVATIONS[number], state))

    def draw_rows(number: int) -> None:
        states = np.full(8, number) if termination is not None else None
        actions, skills = model.predict(np.tile(OBSERVATIONS[number], (8, 1)), states)
        drawn[number].extend(zip(actions, skills))

    drawing = [lambda n=n: (draw_one, draw_rows)[n % 2](n) for n in range(4)]
    run_together([check, check, check_rows, check_rows, *drawing])
    assert next(num_checked) >= 4
    for number, chosen in enumerate(drawn):
        previous = number if termination is not None else NO_SKILL
        policy, x, m = model.policy, OBSERVATIONS[number], np.zeros(0, np.float32)
        shares = [np.bincount(column, minlength=size) / len(chosen) for column, size in zip(zip(*chosen), (2, 4))]
        margin = 4 / np.sqrt(len(chosen))  # Eight standard deviations of an even chance, and more of any other.
        np.testing.assert_allclose(shares[0], np.exp(policy.action_log_probs(x, m, previous)), atol=margin)
        np.testing.assert_allclose(shares[1], np.exp(policy.skill_log_probs(x, m, previous)), atol=margin)


class Slow(int):
    """Takes its time to be added to, so that another thread comes in between."""

    def __add__(self, other: int) -> "Slow":
        time.sleep(1e-4)
        return Slow(int(self) + other)


def test_no_two_calls_draw_the_same_rows(many_switches):
    """64 rows that are as good as coins: two calls that agree in all but the first have shared their random numbers."""
    model, rows, calls = ASAP("CartPole-v1", hyperplanes=2), np.zeros((64, 4), np.float32), []
    model._predictor._calls = Slow(0)
    run_together([lambda: calls.append(model.predict(rows)[0][1:].tobytes())] * 8)
    assert len(set(calls)) == len(calls) >= 8 * LEAST
