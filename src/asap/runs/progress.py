"""A progress bar on a terminal; silence when piped."""

import sys
from typing import TYPE_CHECKING

import numpy as np

from asap.config.schema import Config

if TYPE_CHECKING:
    from asap.runs.events import Report


class ProgressBar:
    """Shows the slowest seed's share of the budget and the mean return of the last evaluation."""

    def __init__(self, config: Config, label: str = "training"):
        self.label = label
        self.in_steps = config.run.steps is not None
        self.budget = config.run.steps if self.in_steps else config.run.episodes
        self.bar = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[state]}"),
                TimeElapsedColumn(),
            )
            self.bar = Progress(*columns, console=Console(stderr=True))
            self.line = self.bar.add_task(f"{label}: compiling", total=self.budget, state="")

    def __enter__(self) -> "ProgressBar":
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def show(self, report: "Report") -> None:
        """A callback between updates."""
        self.tell(
            report.update,
            int(np.min(report.env_steps if self.in_steps else report.episodes)),
            float(np.mean(report.returns)),
        )

    def tell(self, update: int, done: int, mean: float) -> None:
        if self.bar is not None:
            state = f"{done:,} of {self.budget:,} {'steps' if self.in_steps else 'episodes'}, update {update}, return {mean:.1f}"
            self.bar.update(self.line, description=self.label, completed=done, state=state)
