"""Callbacks that tell of a run as it goes on: a progress bar or lines, TensorBoard, Weights & Biases.

The names are those of stable-baselines3 where it has them (rollout/ep_rew_mean, time/total_timesteps, train/approx_kl),
so that curves of both can be laid over each other; what only we have is under skills/.
"""

import contextlib
import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from asap.base.errors import UserError, to_stderr
from asap.base.spec import short_name
from asap.config.schema import Config
from asap.runs.events import Callback, Report

EVERY_SECONDS = 10.0  # Between two lines, where stderr is no terminal.
Phase = Callable[[str], None]  # Hears in words what is under way.


def no_phase(words: str) -> None:
    """Shows nothing."""


class ProgressBar:
    """Shows the slowest seed's share of the budget and the mean return of the last evaluation, or what else is under
    way: a bar on a terminal, a line on stderr every ten seconds elsewhere."""

    def __init__(self, config: Config, label: str | None = None):
        self.in_steps = config.run.steps is not None
        self.budget = config.run.steps if self.in_steps else config.run.episodes
        self.bar, self._state, self._over = None, "compiling", threading.Event()
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            described, state = TextColumn("{task.description}"), TextColumn("{task.fields[state]}")
            self.label = label or "training"
            self.bar = Progress(described, BarColumn(), state, TimeElapsedColumn(), console=Console(stderr=True))
            self.line = self.bar.add_task(f"{self.label}: {self._state}", total=self.budget, state="")
        else:
            self.label = label or short_name(config.run.tasks)

    def __enter__(self) -> "ProgressBar":
        if self.bar is not None:
            self.bar.start()
        else:
            threading.Thread(target=self._tell_lines, args=(time.monotonic(),), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.bar is not None:
            with contextlib.suppress(OSError):  # The terminal has gone.
                self.bar.stop()

    def show(self, report: Report) -> None:
        """A callback between updates."""
        done = report.env_steps if self.in_steps else report.episodes
        stages = set(report.event.get("stage", ())) - {"main", "over"}
        self.tell(report.update, int(np.min(done)), _mean(report.returns), " and ".join(sorted(stages)))

    def tell(self, update: int, done: int, mean: float, stage: str = "") -> None:
        self.count(done, f", update {update}", f", return {mean:.1f}{stage and f', {stage}'}")

    def count(self, done: int, update: str = "", result: str = "") -> None:
        """So much of the budget; there may be neither updates nor returns to tell."""
        counted = f"{done:,} of {self.budget:,} {'steps' if self.in_steps else 'episodes'}"
        if self.bar is not None:
            self.bar.update(self.line, description=self.label, completed=done, state=f"{counted}{update}{result}")
        self._state = f"{counted} ({min(100 * done // self.budget, 100)} %){result}"

    def phase(self, words: str) -> None:
        """What is under way besides updates."""
        if self.bar is not None:
            self.bar.update(self.line, description=f"{self.label}: {words}")
        self._state = words

    def _tell_lines(self, began: float) -> None:
        while not self._over.wait(EVERY_SECONDS):
            to_stderr(f"{self.label}: {self._state}, {time.monotonic() - began:.0f} s")


def _mean(values: np.ndarray) -> float:
    """Of what is known: of many tasks, a few episodes are not on each."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


_NAMES = {name: f"train/{name}" for name in "entropy explained_variance gradient_theta gradient_beta movement".split()}
_NAMES["kl"] = "train/approx_kl"


def metrics_of(report: Report, seed: int, seconds: float, tasks: Sequence[str] = ()) -> dict[str, float]:
    """What one seed has to tell, by name; of several tasks, also task by task. What is not known is left out."""
    event, success = report.event, np.asarray(report.event["success"], float)[seed]
    named = list(enumerate(tasks)) if len(tasks) > 1 else []
    values = {
        "rollout/ep_rew_mean": _mean(report.returns[seed]),
        "rollout/ep_len_mean": report.lengths[seed],
        "rollout/success_rate": _mean(success),
        "time/iterations": report.update,
        "time/total_timesteps": report.env_steps[seed],
        "time/episodes": report.episodes[seed],
        "time/time_elapsed": seconds,
        "time/fps": report.env_steps[seed] / max(seconds, 1e-9),
        "train/n_updates": report.update,
        **{name: np.asarray(event[key], float)[seed] for key, name in _NAMES.items() if key in event},
        **{f"tasks/{name}/ep_rew_mean": report.returns[seed, m] for m, name in named},
        **{f"tasks/{name}/success_rate": success[m] for m, name in named},
        **{f"skills/usage_{skill}": share for skill, share in enumerate(event["usage"][seed])},
    }
    return {name: float(value) for name, value in values.items() if np.isfinite(value)}


@contextlib.contextmanager
def loggers(
    config: Config,
    tensorboard: str | os.PathLike | None,
    wandb_project: str | None,
    progress_bar: bool,
    label: str | None = None,
) -> Iterator[tuple[list[Callback], Phase]]:
    """The callbacks that were asked for, and who hears of phases; closed at the end, whatever happens."""
    with contextlib.ExitStack() as stack:
        found: list[Callback] = []
        phase = no_phase
        if progress_bar:
            bar = stack.enter_context(ProgressBar(config, label))
            found, phase = [bar.show], bar.phase
        if tensorboard is not None:
            found.append(_callback(config, stack.enter_context(_tensorboard(os.fspath(tensorboard), config))))
        if wandb_project is not None:
            found.append(_callback(config, stack.enter_context(_wandb(wandb_project, config))))
        yield found, phase


Write = Callable[[int, dict[str, float], int], None]  # Seed, metrics, step.


def _callback(config: Config, write: Write) -> Callback:
    began = time.monotonic()

    def write_metrics(report: Report) -> None:
        for seed in range(config.run.seeds):
            metrics = metrics_of(report, seed, time.monotonic() - began, config.run.tasks)
            write(seed, metrics, int(report.env_steps[seed]))

    return write_metrics


@contextlib.contextmanager
def _tensorboard(folder: str, config: Config) -> Iterator[Write]:
    """One folder per seed, as TensorBoard lays them over each other."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError:
        cure = "pip install 'asap-rl[tensorboard]'"
        raise UserError("tensorboard_log", "needs the package tensorboard", folder, cure) from None
    name, first = short_name(config.run.tasks).replace("/", "-"), config.run.seed
    seeds = range(first, first + config.run.seeds)
    writers = [EventFileWriter(os.path.join(folder, f"{name}-seed-{seed}")) for seed in seeds]

    def write(seed: int, metrics: dict[str, float], step: int) -> None:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in metrics.items()]
        writers[seed].add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()


@contextlib.contextmanager
def _wandb(project: str, config: Config) -> Iterator[Write]:
    """One run, drawn over steps of the environment; of several seeds each metric has the seed before its name."""
    try:
        import wandb  # pyright: ignore[reportMissingImports] - an extra.
    except ImportError:
        raise UserError("wandb_project", "needs the package wandb", project, "pip install 'asap-rl[wandb]'") from None
    run: Any = wandb.init(project=project, config=dataclasses.asdict(config))
    prefixes = [f"seed-{config.run.seed + index}/" if config.run.seeds > 1 else "" for index in range(config.run.seeds)]
    for prefix in prefixes:
        run.define_metric(f"{prefix}*", step_metric=f"{prefix}time/total_timesteps")

    def write(seed: int, metrics: dict[str, float], step: int) -> None:
        run.log({f"{prefixes[seed]}{name}": value for name, value in metrics.items()})

    try:
        yield write
    finally:
        run.finish()
