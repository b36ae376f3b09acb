"""All experiments by name; each lives in its own module, which is imported when it is run."""

import functools
import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from asap.base.errors import UserError

if TYPE_CHECKING:
    from asap.paper.claims import Finding
    from asap.paper.laboratory import Laboratory


@dataclass(frozen=True)
class Experiment:
    name: str
    module: str
    title: str
    task: str | None = None  # Where one module serves several figures: of this task.
    seeds: int = 20  # Unless others are asked for.

    def load(self) -> ModuleType:
        return importlib.import_module(f"asap.paper.{self.module}")

    def run(self, laboratory: "Laboratory") -> "Finding":
        run = self.load().run
        return run(laboratory) if self.task is None else run(laboratory, self.name, self.task)


ROOMS = (
    Experiment("fig1f", "fig1fgh", "Learned partition and skills on Two Rooms", "two-rooms"),
    Experiment("fig1g", "fig1fgh", "Learned partition and skills on Flipped Two Rooms", "flipped-two-rooms"),
    Experiment("fig1h", "fig1fgh", "Learned partition and skills on Three Rooms", "three-rooms"),
    Experiment("fig2a", "fig2ab", "Two Rooms: ASAP against fixed partitions", "two-rooms"),
    Experiment("fig2b", "fig2ab", "Three Rooms: ASAP against fixed partitions", "three-rooms"),
    Experiment("fig2c", "fig2c", "From Two Rooms to Flipped Two Rooms: transfer"),
    Experiment("fig1i", "fig1i", "Partitions before and after transfer"),
    Experiment("fig2d", "fig2d", "The hyperplane flipped, without learning"),
    Experiment("fig2e", "fig2e", "One, two and three hyperplanes"),
    Experiment("convergence", "convergence", "The gradient vanishes, and the run stops by itself"),
    Experiment("joint-multitask", "joint_multitask", "One policy for both rooms"),
    Experiment("unforced-reuse", "unforced_reuse", "A skill reused where no feature forces it"),
    Experiment("lifelong", "lifelong", "A sequence of room tasks"),
    Experiment("estimators", "estimators", "Sampled against marginal, and the four updates"),
    Experiment("prune-and-grow", "prune_and_grow", "From four hyperplanes to the smallest policy"),
)
_STRIKER = functools.partial(Experiment, seeds=10)
SOCCER = (
    _STRIKER("fig2f", "fig2f", "R1: the learned partition on the pitch"),
    _STRIKER("fig2g", "fig2g", "R1: different optima, and a linear hyperplane"),
    _STRIKER("fig2j", "fig2j", "R1: return while learning"),
    _STRIKER("fig2h", "fig2h", "R2: the partition with and without the defender's place"),
    _STRIKER("fig2i", "fig2i", "R2: the way around the defender"),
    _STRIKER("goal-ratios", "goal_ratios", "R1, R2, R3: goals per episode of the start, of ASAP and of a controller"),
    _STRIKER("offline", "offline_games", "R1 learned from five sets of logged games"),
)
GROUPS = {"rooms": ROOMS, "soccer": SOCCER, "all": ROOMS + SOCCER}


def names() -> list[str]:
    return [*GROUPS, *(experiment.name for experiment in GROUPS["all"])]


def find(name: str) -> tuple[Experiment, ...]:
    """The experiments behind a name: one, or a group of them."""
    if name in GROUPS:
        return GROUPS[name]
    for experiment in GROUPS["all"]:
        if experiment.name == name:
            return (experiment,)
    raise UserError("name", "no such result", repr(name), f"choose from {', '.join(names())}")
