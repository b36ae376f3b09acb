"""Logged trajectories without skill labels: the columns of an NPZ file with one row per step (docs/data.md).

Format 2 has actions that are vectors, in the environment's units, and what must be known of an environment that is not at hand.
"""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asap.base.spec import ControlUnits, Task
from asap.data.npz import Column, bad_file

FORMAT = 2
STEP_COLUMNS = ("observation", "action", "reward", "terminated", "truncated", "episode")
BEHAVIOUR = "behaviour_log_prob"
FINAL, DESCRIPTOR, SUCCESS = EPISODE_COLUMNS = ("final_observation", "descriptor", "success")


class Layout(NamedTuple):
    """What a task expects of its data."""

    task: str
    num_observations: int
    num_actions: int
    descriptor: np.ndarray  # (Z,): of the task itself, for data that have none.
    controls: ControlUnits | None = None  # Of actions that are vectors.

    @property
    def of_actions(self) -> tuple[int, ...]:
        """The shape of one."""
        return () if self.controls is None else (self.num_actions,)

    @property
    def log_scale(self) -> float:
        """What is added to the logarithm of a density in the environment's units, for one in ours."""
        return 0.0 if self.controls is None else float(np.log(self.controls.scale).sum())

    def ours(self, action: np.ndarray) -> np.ndarray:
        """Actions as the policy has them, from those of a file."""
        return action if self.controls is None else self.controls.ours(action).astype(np.float32)

    def logged(self, action: np.ndarray) -> np.ndarray:
        """Actions of the policy, as a file has them: what was drawn beyond a bound stays there."""
        if self.controls is None:
            return action
        return (np.asarray(action, float) * self.controls.scale + self.controls.shift).astype(np.float32)


def layout_of(task: Task) -> Layout:
    spec = task.spec
    controls = ControlUnits.of_bounds(spec.action_low, spec.action_high) if spec.continuous else None
    descriptor = np.asarray(task.descriptor, np.float32)
    return Layout(task.name, len(spec.observation_names), spec.num_actions, descriptor, controls)


@dataclass(frozen=True)
class Meta:
    """Where data come from. What is not known is None."""

    format: int = FORMAT
    task: str | None = None
    observation_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    controller: str | None = None
    epsilon: float | None = None
    seed: int | None = None
    episodes: int | None = None
    behaviour_return: float | None = None  # Mean over episodes, undiscounted.
    behaviour_success: float | None = None
    versions: dict[str, str] = field(default_factory=dict)
    record: dict[str, Any] | None = None  # What must be known of an environment to learn without it.

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of(cls, columns: dict[str, Column], path: Path) -> "Meta":
        if "meta" not in columns:
            return cls()
        try:
            fields = json.loads(str(columns["meta"].value()))  # SystemError: numbers that are no characters.
            known = {each.name for each in dataclasses.fields(cls)}
            found = {name: value for name, value in fields.items() if name in known}
            meta = cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()})
            newer = int(meta.format) > FORMAT
            is_text = isinstance(meta.task, str | None) and isinstance(meta.controller, str | None)
            if not is_text or not isinstance(meta.action_names, tuple) or not isinstance(meta.record, dict | None):
                raise TypeError
        except (ArithmeticError, AttributeError, RecursionError, SystemError, TypeError, ValueError):
            cure = "leave it out, or make the file with `asap collect`"
            raise bad_file(path, "meta is not a JSON object that asap wrote", cure) from None
        if newer:
            raise bad_file(path, f"written by format {meta.format}, this release reads <= {FORMAT}", "upgrade asap-rl")
        return meta


def step_columns(columns: dict[str, Column]) -> tuple[str, ...]:
    """Those that have a row per step."""
    return (*STEP_COLUMNS, *((BEHAVIOUR,) if BEHAVIOUR in columns else ()))
