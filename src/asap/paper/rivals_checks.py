"""Whether the systems that ASAP is compared with do what their papers say: the checks of all of them, for `asap reproduce`."""

from collections.abc import Callable

from asap.paper import (
    check_option_critic,
    check_parameterized_skills,
    check_pg_ella,
    check_q_pamdp,
    check_skill_chaining,
)
from asap.paper.claims import Claim, Finding
from asap.paper.laboratory import Laboratory
from asap.runs.loggers import Phase

Check = Callable[[int, bool, Phase], list[Claim]]  # Of how many seeds, whether quick, and who hears what is under way.


def option_critic(laboratory: Laboratory) -> Finding:
    return _found(check_option_critic.check, laboratory, "check-option-critic")


def pg_ella(laboratory: Laboratory) -> Finding:
    return _found(check_pg_ella.check, laboratory, "check-pg-ella")


def q_pamdp(laboratory: Laboratory) -> Finding:
    return _found(check_q_pamdp.check, laboratory, "check-q-pamdp")


def parameterized_skills(laboratory: Laboratory) -> Finding:
    return _found(check_parameterized_skills.check, laboratory, "check-parameterized-skills")


def skill_chaining(laboratory: Laboratory) -> Finding:
    return _found(check_skill_chaining.check, laboratory, "check-skill-chaining")


def _found(check: Check, laboratory: Laboratory, name: str) -> Finding:
    with laboratory.telling(name) as tell:
        return Finding(check(laboratory.seeds, laboratory.quick, tell))
