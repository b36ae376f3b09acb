"""A progress bar on a terminal; silence when piped."""

import sys

import numpy as np

from asap.config import Config


class Progress:
    """Shows the slowest seed's share of the budget and the mean return of the last evaluation."""

    def __init__(self, config: Config, label: str = "training"):
        self.label = label
        self.budget = config.run.episodes
        self.bar = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn())
            self.bar = Progress(*columns, console=Console(stderr=True))
            self.line = self.bar.add_task(f"{label}: compiling", total=self.budget, state="")

    def __enter__(self) -> "Progress":
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def show(self, update: int, episodes: np.ndarray, returns: np.ndarray) -> None:
        if self.bar is not None:
            done = int(np.min(episodes))
            state = f"{done:,} of {self.budget:,} episodes, update {update}, return {np.mean(returns):.1f}"
            self.bar.update(self.line, description=self.label, completed=done, state=state)
