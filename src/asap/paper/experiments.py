"""All experiments by name: each is a function of a module, which is imported when it is run."""

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from asap.base.errors import UserError

if TYPE_CHECKING:
    from asap.paper.claims import Finding
    from asap.paper.laboratory import Laboratory


@dataclass(frozen=True)
class Experiment:
    name: str
    module: str
    function: str
    title: str
    task: str | None = None  # Where one function serves several figures: of this task.
    seeds: int = 20  # Unless others are asked for.

    def load(self) -> Callable[..., "Finding"]:
        return getattr(importlib.import_module(f"asap.paper.{self.module}"), self.function)

    def run(self, laboratory: "Laboratory") -> "Finding":
        function = self.load()
        found = function(laboratory) if self.task is None else function(laboratory, self.name, self.task)
        return replace(found, claims=[replace(claim, seeds=claim.seeds or laboratory.seeds) for claim in found.claims])


ROOMS = (
    Experiment("fig1f", "partitions", "learned", "Learned partition and skills on Two Rooms", "two-rooms"),
    Experiment(
        "fig1g", "partitions", "learned", "Learned partition and skills on Flipped Two Rooms", "flipped-two-rooms"
    ),
    Experiment("fig1h", "partitions", "learned", "Learned partition and skills on Three Rooms", "three-rooms"),
    Experiment("fig2a", "partitions", "against_fixed", "Two Rooms: ASAP against fixed partitions", "two-rooms"),
    Experiment("fig2b", "partitions", "against_fixed", "Three Rooms: ASAP against fixed partitions", "three-rooms"),
    Experiment("fig2c", "transfer", "warm_start", "From Two Rooms to Flipped Two Rooms: transfer"),
    Experiment("fig1i", "transfer", "before_and_after", "Partitions before and after transfer"),
    Experiment("fig2d", "transfer", "flipped", "The hyperplane flipped, without learning"),
    Experiment("fig2e", "partitions", "hyperplanes", "One, two and three hyperplanes"),
    Experiment("convergence", "gradients", "vanishing", "The gradient vanishes, and the run stops by itself"),
    Experiment("joint-multitask", "reuse", "joint_multitask", "One policy for both rooms"),
    Experiment("unforced-reuse", "reuse", "unforced", "A skill reused where no feature forces it"),
    Experiment("lifelong", "lifelong", "run", "A sequence of room tasks"),
    Experiment("estimators", "gradients", "estimators", "Sampled against marginal, and the four updates"),
    Experiment("prune-and-grow", "prune_and_grow", "run", "From four hyperplanes to the smallest policy"),
)
_STRIKER = functools.partial(Experiment, seeds=10)
_GOAL_RATIOS = "R1, R2, R3: goals per episode of the start, of ASAP and of a controller"
SOCCER = (
    _STRIKER("fig2f", "striker_r1", "partition", "R1: the learned partition on the pitch"),
    _STRIKER("fig2g", "striker_r1", "optima", "R1: different optima, and a linear hyperplane"),
    _STRIKER("fig2j", "striker_r1", "returns", "R1: return while learning"),
    _STRIKER("fig2h", "striker_r2", "partitions", "R2: the partition with and without the defender's place"),
    _STRIKER("fig2i", "striker_r2", "detours", "R2: the way around the defender"),
    _STRIKER("goal-ratios", "strikers", "goal_ratios", _GOAL_RATIOS),
    _STRIKER("offline", "striker_r1", "offline", "R1 learned from five sets of logged games"),
)
# Of the systems that ASAP is compared with.
_CHECK = functools.partial(Experiment, module="rivals_checks")
CHECKS = (
    _CHECK("check-option-critic", function="option_critic", title="Option-Critic finds a goal that has moved"),
    _CHECK("check-pg-ella", function="pg_ella", title="ELLA and PG-ELLA share a basis over tasks", seeds=5),
    _CHECK("check-q-pamdp", function="q_pamdp", title="Q-PAMDP learns numbers of actions", seeds=10),
    _CHECK("check-parameterized-skills", function="parameterized_skills", title="Skills as functions of the task"),
    _CHECK("check-skill-chaining", function="skill_chaining", title="Skills that lead back from the goal"),
)
ALONE = (
    Experiment("table1", "table1", "table", "The systems of Table 1, measured"),
    Experiment("four-rooms", "four_rooms", "run", "Four rooms with a goal that moves", seeds=50),
)
GROUPS = {"rooms": ROOMS, "soccer": SOCCER, "rivals": CHECKS, "all": ROOMS + SOCCER}


def find(name: str) -> tuple[Experiment, ...]:
    """The experiments behind a name: one, or a group of them."""
    known = GROUPS | {experiment.name: (experiment,) for experiment in (*GROUPS["all"], *CHECKS, *ALONE)}
    if name not in known:
        raise UserError("name", "no such result", repr(name), f"choose from {', '.join(known)}")
    return known[name]
