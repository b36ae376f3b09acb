"""What a sequence of tasks came to, in plain numbers and in words, read from its run directory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from asap.base.errors import RunError
from asap.base.numbers import number
from asap.base.spec import TaskSet
from asap.base.stats import bootstrap_interval
from asap.config.schema import Config
from asap.runs.directory import Run
from asap.sequence.measures import area_under_curve, final_performance, forgetting, forward_transfer, scaled
from asap.sequence.parts import TaskTraining

OF_TASK, OF_SETTING, OF_BEST = "the task's", "given", "best seen"  # Where a threshold comes from.
MEASURES = ("final_performance", "forgetting", "forward_transfer")


@dataclass(frozen=True)
class SequenceResult:
    """Arrays have axes (tasks, seeds); `returns` has those before the first task and after each in front."""

    config: Config
    tasks: TaskSet
    random: Float[np.ndarray, "T"]
    thresholds: Float[np.ndarray, "T"]
    threshold_of: tuple[str, ...]
    returns: Float[np.ndarray, "L T S"]
    spent: tuple[dict[str, list[int]], ...]  # By each task: episodes and steps of each seed.
    auc: Float[np.ndarray, "N S"]
    auc_scratch: Float[np.ndarray, "T S"] | None  # None: not all of them were trained.
    scratch_returns: Float[np.ndarray, "T S"] | None
    where: str

    @classmethod
    def read(cls, run: Run, config: Config, tasks: TaskSet) -> "SequenceResult | None":
        """None before the first look."""
        try:
            return cls._read(run, config, tasks)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):  # A file may hold anything.
            what = "events.jsonl has lines that are of no sequence"
            raise RunError("run", what, run.path, "restore it from a copy") from None

    @classmethod
    def _read(cls, run: Run, config: Config, tasks: TaskSet) -> "SequenceResult | None":
        events = {(event.get("kind"), event.get("task")): event for event in run.events()}
        if ("random", None) not in events:
            return None
        at_random = np.asarray(events["random", None]["returns"], float).T  # (tasks, seeds)
        learned = [events["task", index] for index in range(tasks.size) if ("task", index) in events]
        returns = np.stack([at_random, *(np.asarray(event["returns"], float).T for event in learned)])
        scratch = _scratch_returns(events, config, tasks, returns)
        thresholds, named = _thresholds(config, tasks, returns, scratch)
        random = at_random.mean(1)

        def areas(parts: Sequence[TaskTraining]) -> Float[np.ndarray, "N S"]:
            return np.asarray([_areas(part, random[part.index], thresholds[part.index]) for part in parts])

        parts = [TaskTraining.of(run, config, tasks, index) for index in range(len(learned))]
        auc = areas(parts).reshape(len(learned), config.run.seeds)
        auc_scratch = None
        if scratch is not None:
            every = [
                TaskTraining.of(run, config, tasks, i, is_scratch=not _is_own_reference(config, i))
                for i in range(tasks.size)
            ]
            auc_scratch = areas(every)
        spent = tuple({key: event[key] for key in ("episodes", "env_steps")} for event in learned)
        return cls(config, tasks, random, thresholds, named, returns, spent, auc, auc_scratch, scratch, str(run.path))

    @property
    def num_learned(self) -> int:
        return len(self.returns) - 1

    @property
    def performance(self) -> Float[np.ndarray, "L T S"]:
        """Random play is 0, the threshold 1."""
        each = [scaled(self.returns[:, t], self.random[t], self.thresholds[t]) for t in range(self.tasks.size)]
        return np.stack(each, 1)

    def measures(self) -> dict[str, Float[np.ndarray, "S"] | None]:
        """Of each seed; None where the sequence is not over, or nothing was learned from scratch to compare with."""
        if self.num_learned < self.tasks.size:
            return dict.fromkeys(MEASURES)
        looks, own = self.performance, np.arange(self.tasks.size)
        transfer = None if self.auc_scratch is None else forward_transfer(self.auc, self.auc_scratch)
        return dict(zip(MEASURES, (final_performance(looks[-1]), forgetting(looks[own + 1, own], looks[-1]), transfer)))

    def notes(self) -> list[str]:
        found, names = [], self.tasks.names
        best = [name for name, of in zip(names, self.threshold_of) if of == OF_BEST]
        if best:
            which = "every task" if len(best) == len(names) else ", ".join(best)
            found.append(
                f"no threshold is known of {which}: the best mean return of this run counts as solved; set "
                "sequence.thresholds to compare runs"
            )
        flat = [name for name, way in zip(names, self.thresholds - self.random) if not way > 0]
        if flat:
            found.append(f"left out, as its threshold is no better than random play: {', '.join(flat)}")
        if self.num_learned == len(names) and self.auc_scratch is None:
            found.append("forward transfer was not measured: it needs --scratch")
        return found

    def as_dict(self) -> dict[str, Any]:
        """The JSON object of `asap train --sequence`."""
        run, looks = self.config.run, self.performance
        return {
            "tasks": list(self.tasks.names),
            "planes": self.config.sequence.planes,
            "learner": self.config.learn.learner,
            "seeds": run.seeds,
            "budget": {"steps": run.steps} if run.steps is not None else {"episodes": run.episodes},
            "finished": self.num_learned == self.tasks.size,
            **{name: _over_seeds(values) for name, values in self.measures().items()},
            "per_task": [self._of_task(index) for index in range(self.tasks.size)],
            "returns": self.returns.tolist(),
            "performance": _known(looks),
            "notes": self.notes(),
            "run": self.where,
        }

    def _of_task(self, index: int) -> dict[str, Any]:
        is_learned = index < self.num_learned
        found = {"task": self.tasks.names[index], "random": float(self.random[index])}
        found |= {"threshold": _known(self.thresholds[index]), "threshold_of": self.threshold_of[index]}
        found["return_after"] = self.returns[index + 1, index].tolist() if is_learned else None
        found["return_at_end"] = self.returns[-1, index].tolist()
        found["auc"] = _known(self.auc[index]) if is_learned else None
        references = {"auc_scratch": self.auc_scratch, "return_scratch": self.scratch_returns}
        found |= {name: None if values is None else _known(values[index]) for name, values in references.items()}
        return found | (self.spent[index] if is_learned else {"episodes": None, "env_steps": None})

    def in_words(self) -> str:
        """A line for each task, and the measures."""
        looks, rows = self.performance.mean(-1), []
        for index, name in enumerate(self.tasks.names):
            own = _percent(looks[index + 1, index]) if index < self.num_learned else "-"
            rows.append(
                [name, number(self.random[index]), number(self.thresholds[index]), own, _percent(looks[-1, index])]
            )
            rows[-1] += [_percent(self.auc[index].mean()) if index < self.num_learned else "-"]
            rows[-1] += [] if self.auc_scratch is None else [_percent(self.auc_scratch[index].mean())]
        head = ["task", "random", "solved", "after its own", "at the end", "AUC", "AUC from scratch"]
        lines = _table([head[: len(rows[0])], *rows])
        for name, values in self.measures().items():
            if values is not None:
                lines.append(f"{name.replace('_', ' '):<18}{_measure_in_words(values)}")
        if self.num_learned < self.tasks.size:
            lines.append(f"learned so far: {self.num_learned} of {self.tasks.size} tasks")
        return "\n".join([*lines, f"{'run':<18}{self.where}", *(f"note: {note}" for note in self.notes())])


def _is_own_reference(config: Config, index: int) -> bool:
    """The first task of a sequence is learned from scratch, unless the sequence starts from another run."""
    return index == 0 and config.run.source is None


def _scratch_returns(
    events: dict, config: Config, tasks: TaskSet, returns: Float[np.ndarray, "L T S"]
) -> Float[np.ndarray, "T S"] | None:
    """None where one is missing."""
    if len(returns) == 1:
        return None
    rows = [
        returns[1, 0] if _is_own_reference(config, index) else events.get(("scratch", index), {}).get("returns")
        for index in range(tasks.size)
    ]
    return None if any(row is None for row in rows) else np.asarray(rows, float)


def _thresholds(
    config: Config, tasks: TaskSet, returns: Float[np.ndarray, "L T S"], scratch: Float[np.ndarray, "T S"] | None
) -> tuple[Float[np.ndarray, "T"], tuple[str, ...]]:
    """What was given, or the task's own, or the best mean over seeds that was seen."""
    given = config.sequence.thresholds
    if given:
        return np.broadcast_to(np.asarray(given, float), tasks.size), (OF_SETTING,) * tasks.size
    seen = returns.mean(-1) if scratch is None else np.concatenate([returns.mean(-1), scratch.mean(-1)[None]])
    own = [task.threshold for task in tasks.tasks]
    values = [best if threshold is None else threshold for threshold, best in zip(own, seen.max(0).tolist())]
    return np.asarray(values, float), tuple(OF_BEST if threshold is None else OF_TASK for threshold in own)


def _areas(part: TaskTraining, random: float, threshold: float) -> list[float]:
    """Of the training curve of each seed."""
    run, rows = part.config.run, {}
    for event in part.opened().events():
        if event.get("kind") == "update":
            rows[event["update"]] = event  # A resumed run tells some again: they are the same.
    looks, found = [rows[update] for update in sorted(rows)], []
    for seed in range(run.seeds):
        # After it has stopped, a seed is looked at as long as others go on.
        own = [event for event in looks if event["active"][seed]]
        spent = [event["episodes" if run.steps is None else "env_steps"][seed] for event in own]
        returns = np.asarray([event["returns"][seed][0] for event in own], float)
        budget = run.episodes if run.steps is None else run.steps
        found.append(area_under_curve(spent, scaled(returns, random, threshold), budget))
    return found


def _over_seeds(values: Float[np.ndarray, "S"] | None) -> dict[str, Any] | None:
    if values is None or not np.isfinite(values).all():
        return None
    interval = None if len(values) == 1 else [*map(float, bootstrap_interval(values, statistic=np.mean))]
    return {"mean": float(values.mean()), "ci": interval, "all": values.tolist()}


def _measure_in_words(values: Float[np.ndarray, "S"]) -> str:
    found = _over_seeds(values)
    if found is None:
        return "-"
    if found["ci"] is None:
        return f"{found['mean']:.3f} (one seed)"
    return "{:.3f} (95 % interval {:.3f} to {:.3f}, {} seeds)".format(found["mean"], *found["ci"], len(values))


def _known(values: np.ndarray | float) -> Any:
    """JSON knows no NaN."""
    array = np.asarray(values, float)
    return np.where(np.isfinite(array), array.astype(object), None).tolist()


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if np.isfinite(share) else "-"


def _table(rows: list[list[str]]) -> list[str]:
    """The first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    align: list[Callable[[str, int], str]] = [str.ljust, *[str.rjust] * (len(widths) - 1)]
    return ["  ".join(place(cell, width) for place, cell, width in zip(align, row, widths)) for row in rows]
