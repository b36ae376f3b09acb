"""Tasks one after another on the command line: what `asap train --sequence` does, and its picture."""

from pathlib import Path
from typing import TYPE_CHECKING

from asap.cli.app import tell
from asap.cli.learning import leave_if_stopped
from asap.config.sequence import PER_TASK, SHARED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asap.base.spec import TaskSet
    from asap.config.schema import Config
    from asap.model.model import ASAP
    from asap.runs.directory import Run


def learn_in_turn(
    run: "Run",
    config: "Config",
    tasks: "TaskSet",
    workers: str,
    tensorboard: str | None,
    wandb: str | None,
    as_json: bool,
) -> None:
    """Until all tasks are learned or a signal asks to stop."""
    from asap.config.toml import to_toml
    from asap.runs.loggers import loggers
    from asap.runs.signals import PATIENCE, StopRequest
    from asap.sequence.report import SequenceResult
    from asap.sequence.training import TaskSequence

    with run.locked():
        if run.config_text() != to_toml(config):  # Scratch runs are wanted now.
            run.write_config(to_toml(config))
    with StopRequest(PATIENCE) as stop:
        learning = TaskSequence(
            run, config, tasks, stop, workers, lambda own, label: loggers(own, tensorboard, wandb, True, label)
        )
        learning.learn()
    found = SequenceResult.read(run, config, tasks)
    if found is not None:
        tell(as_json, found.as_dict(), found.in_words())
    leave_if_stopped(run, stop)


def pictures_of_sequence(path: Path, model: "ASAP") -> dict[str, "Figure"]:
    """How every task went over the sequence; none before the first look."""
    from asap.runs.directory import Run
    from asap.sequence.report import SequenceResult
    from asap.show import figures

    found = SequenceResult.read(Run.open(path), model.config, model.tasks)
    if found is None:
        return {}
    words = [
        f"{name.replace('_', ' ')} {values.mean():.2f}"
        for name, values in found.measures().items()
        if values is not None
    ]
    planes = {SHARED: "one policy", PER_TASK: "planes of each task, shared skills"}[found.config.sequence.planes]
    title = f"{model.tasks.size} tasks one after another: {planes}"
    return {"sequence": figures.task_rows(found.performance, model.tasks.names, title, ", ".join(words))}
