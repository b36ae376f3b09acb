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

Check = Callable[[int, bool], list[Claim]]


def option_critic(laboratory: Laboratory) -> Finding:
    return _found(check_option_critic.check, laboratory)


def pg_ella(laboratory: Laboratory) -> Finding:
    return _found(check_pg_ella.check, laboratory)


def q_pamdp(laboratory: Laboratory) -> Finding:
    return _found(check_q_pamdp.check, laboratory)


def parameterized_skills(laboratory: Laboratory) -> Finding:
    return _found(check_parameterized_skills.check, laboratory)


def skill_chaining(laboratory: Laboratory) -> Finding:
    return _found(check_skill_chaining.check, laboratory)


def _found(check: Check, laboratory: Laboratory) -> Finding:
    return Finding(check(laboratory.seeds, laboratory.quick))
