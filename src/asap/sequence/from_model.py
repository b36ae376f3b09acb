"""What `model.learn_sequence` does: tasks one after another, in a run directory or in one that is gone afterwards."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asap.base.errors import UserError
from asap.base.spec import TaskSet
from asap.config.schema import Config
from asap.config.toml import parse_settings, to_toml
from asap.envs.resolve import given_tasks
from asap.model.learning import with_budget_of_call
from asap.model.source import settings_for_tasks, weighed
from asap.model.training import run_at
from asap.runs.events import Callback
from asap.runs.loggers import Phase, loggers
from asap.runs.signals import StopRequest
from asap.sequence.report import SequenceResult
from asap.sequence.training import TaskSequence

if TYPE_CHECKING:
    from asap.model.model import ASAP


def learn_tasks(model: "ASAP", tasks: Any, budget: tuple[Any, Any], how: tuple, run: Path | None, said: Any) -> "ASAP":
    """`budget` is in steps and episodes; `how` is planes, scratch, callback and whether there is a progress bar."""
    planes, scratch, callback, progress_bar = how
    if model.num_timesteps or not model._is_drawn:
        what = "the model has learned already, and a sequence starts anew"
        raise UserError("learn_sequence", what, f"{model.num_timesteps:,} steps", "use a new model, or reset()")
    values = {"sequence.planes": planes, "sequence.scratch": bool(scratch), **parse_settings(Config, said)}
    names, live = weighed(model.config), model.tasks.tasks
    if tasks is not None:
        names, live = given_tasks(tasks, values)
    config, found = settings_for_tasks(model.config, names, live, {}, {}, model.config.policy.keep, values)
    config = with_budget_of_call(config, *budget)
    callbacks = [callback] if callable(callback) else list(callback or ())

    @contextlib.contextmanager
    def watch(own: Config, label: str) -> Iterator[tuple[list[Callback], Phase]]:
        with loggers(own, None, None, progress_bar, label) as (log, phase):
            yield [*log, *callbacks], phase

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="asap-"))) / "run" if run is None else run
        recorded = run_at(folder, config, found)
        if recorded.config_text() != to_toml(config):
            raise UserError(
                "run", "was made with other settings", folder, "choose another directory, or use its settings"
            )
        stop = stack.enter_context(StopRequest())
        learning = TaskSequence(recorded, config, found, stop, model._workers, watch)
        learning.learn()
        _taken(model, learning, found)
        model.sequence = SequenceResult.read(recorded, config, found)
    if stop.requested:
        raise stop.leaving()
    return model


def _taken(model: "ASAP", learning: TaskSequence, found: TaskSet) -> None:
    """The model with what was learned, as far as it went."""
    index, is_stranger = model._index, model._unsaid
    model._set_up(learning.config, found, model._workers)
    model._unsaid = is_stranger
    if learning.num_learned:
        model._index = index
        model._hold(learning.policies, None, *learning.spent)
        model.planes = learning.planes
