"""The systems of the comparison by name. Nothing of them is imported until one is asked for."""

import difflib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asap.base.errors import UserError

if TYPE_CHECKING:
    from asap.rivals.protocol import System

TRACKS = ("native", "equal")


@dataclass(frozen=True)
class Entry:
    """Where a system is found. One class may serve several names, which it is then told."""

    module: str
    class_name: str
    summary: str
    is_told_its_name: bool = False

    def load(self) -> type:
        return getattr(importlib.import_module(f"asap.rivals.{self.module}"), self.class_name)


ENTRIES = {
    "asap": Entry("library", "Library", "skills and regions together, as the task's defaults have it", True),
    "option-critic": Entry("option_critic", "OptionCritic", "options with learned terminations"),
    "pg-ella": Entry("pg_ella", "PGELLA", "one basis of policies for many tasks"),
    "q-pamdp": Entry("q_pamdp", "QPAMDP", "which action, and with what parameters, in turns"),
    "parameterized-skills": Entry("parameterized_skills", "ParameterizedSkills", "from a task to its policy"),
    "skill-chaining": Entry("skill_chaining", "SkillChaining", "options chained backward from the goal"),
    "flat-ppo": Entry("library", "Library", "PPO, one skill with about as many parameters as ASAP", True),
    "flat-ppo-64": Entry("library", "Library", "PPO, one network of two layers of 64 units", True),
    "flat-reinforce": Entry("library", "Library", "REINFORCE, one skill with about as many parameters as ASAP", True),
    "flat-reinforce-64": Entry("library", "Library", "REINFORCE, one network of two layers of 64 units", True),
    "sarsa": Entry("values", "Sarsa", "action values, on-policy"),
    "q-learning": Entry("values", "QLearning", "action values, off-policy"),
    "ars": Entry("ars", "ARS", "a linear policy by random search"),
    "tree": Entry("tree", "Tree", "a decision tree distilled from flat-ppo-64"),
    "asap-k0": Entry("library", "Library", "ASAP without planes: one skill everywhere", True),
    "random": Entry("scripted", "AtRandom", "every action alike"),
    "scripted": Entry("scripted", "Scripted", "a rule written by hand"),
}
NAMES = tuple(ENTRIES)


def find(name: str, track: str = "native") -> "System":
    """The system of this name with its defaults, in the representation of a track."""
    require_known([name])
    entry = ENTRIES[name]
    if entry.is_told_its_name:
        return entry.load()(name=name, representation=track)
    return entry.load()(representation=track)


def require_known(names: Sequence[str]) -> None:
    for name in names:
        if name not in ENTRIES:
            near = difflib.get_close_matches(name, NAMES, 1, 0.4)
            cure = f"did you mean '{near[0]}'?" if near else f"choose from all, {', '.join(NAMES)}"
            raise UserError("--rivals", "no such system", repr(name), cure)


def require_track(track: str) -> str:
    if track not in TRACKS:
        raise UserError("--track", "must be native or equal", repr(track), "the default is native")
    return track
