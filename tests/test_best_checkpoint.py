"""Promise: the best checkpoint of a run is that of its best evaluation, also after the run was resumed."""

from types import SimpleNamespace

import numpy as np
import pytest

from asap.base.errors import RunError
from asap.config.schema import Config, LearnConfig
from asap.runs.directory import Run
from asap.session import MOST_WEIGHTLESS, Session

ARRAYS = {"beta": np.zeros(3, np.float32)}


def session_of(run: Run, returns: list[float], monkeypatch) -> Session:
    """One whose evaluations come to these returns, one per chunk; it saves after each."""
    session = Session.__new__(Session)
    left = iter(returns)
    step = iter(range(10, 100))
    session.run, session.callbacks = run, ()
    session.trainer = SimpleNamespace(
        advance=lambda states: (SimpleNamespace(iteration=np.int32(next(step)), outcome=None), None),
        look=lambda states: SimpleNamespace(returns=np.full((1, 1, 4), next(left))),
    )
    remaining = iter([True] * len(returns) + [False])
    monkeypatch.setattr("asap.session.SAVE_EVERY_SECONDS", -1.0)
    for name in ("_refuse_spoiled", "_refuse_weightless"):
        monkeypatch.setattr(Session, name, lambda *_: None)
    monkeypatch.setattr(Session, "_log", lambda *_: SimpleNamespace(_replace=lambda **_: None))
    monkeypatch.setattr(Session, "_any_active", lambda *_: next(remaining))
    monkeypatch.setattr(
        Session,
        "_save",
        lambda self, states, score, best: run.save(int(states.iteration), ARRAYS, {"score": score}, best=best),
    )
    return session


@pytest.mark.parametrize(("returns", "best"), [([90.0, 99.0], 3), ([90.0, 101.0, 100.5], 11)])
def test_only_a_better_evaluation_replaces_the_best(tmp_path, monkeypatch, returns, best):
    """The run was stopped with a best score of 100 at step 3."""
    run = Run.create(tmp_path / "run", "", notice=pytest.fail)
    with run.locked():
        run.save(3, ARRAYS, {"score": 100.0}, best=True)
        session = session_of(run, returns, monkeypatch)
        session._loop(SimpleNamespace(iteration=np.int32(3), outcome=None), SimpleNamespace(requested=False))
    assert run.best().step == best


def test_only_successive_chunks_without_weight_end_a_run():
    """Every second chunk has a say again: the count begins anew."""
    session = Session.__new__(Session)
    session.config, session.num_weightless = Config(learn=LearnConfig(learner="importance")), 0

    def chunk(ess: float) -> None:
        session._refuse_weightless(SimpleNamespace(from_data=SimpleNamespace(ess=np.full((2, 1), ess))))

    for _ in range(2 * MOST_WEIGHTLESS):
        chunk(0.001)
        chunk(0.5)
    for _ in range(MOST_WEIGHTLESS - 1):
        chunk(0.001)
    with pytest.raises(RunError, match="effective sample size"):
        chunk(0.001)
