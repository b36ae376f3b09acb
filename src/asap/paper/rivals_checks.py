"""Whether the systems that ASAP is compared with do what their papers say: the checks of all of them, for `asap reproduce`."""

import hashlib
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from asap import __version__, rivals
from asap.paper import (
    check_option_critic,
    check_parameterized_skills,
    check_pg_ella,
    check_q_pamdp,
    check_skill_chaining,
)
from asap.paper.claims import Claim, Finding
from asap.paper.laboratory import Laboratory
from asap.rivals.kept import Row, kept_rows
from asap.runs.directory import print_note
from asap.runs.loggers import Phase

Check = Callable[[int, bool, Phase], list[Claim]]  # Of how many seeds, whether quick, and who hears what is under way.

# Why claims do not hold, as far as we know, by how they begin.
REASONS = {
    "ELLA, regression with 8 samples": (
        "The errors alone agree, so the learner of single tasks is not better than expected: sharing gains more here"
    ),
    "Pinball: options beat flat Sarsa": (
        "So options neither help nor harm on this board, with settings that were chosen on other seeds, where they were ahead by "
        "700. Flat Sarsa has the same rewards, scaled to at most 1, and the same rates, and learns the board from the same steps"
    ),
}


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
    """Kept in a file when it is done, so that a stopped command goes on with the next check."""

    def compute(_: Sequence[int]) -> list[Row]:
        began = time.monotonic()
        with laboratory.telling(name) as tell:
            claims = check(laboratory.seeds, laboratory.quick, tell)
        return [{"claims": [claim.as_dict() for claim in claims], "seconds": round(time.monotonic() - began, 1)}]

    folder = laboratory.out / "runs" / "rivals"
    folder.mkdir(parents=True, exist_ok=True)
    stamp = {"seeds": laboratory.seeds, "quick": laboratory.quick, "version": __version__, "code": _digest(check)}
    path = folder / f"{name}-{laboratory.seeds}{'-quick' if laboratory.quick else ''}.json"
    (row,) = kept_rows(lambda _: path, stamp, [0], compute, print_note)
    return Finding([_with_reason(Claim.of_dict(claim)) for claim in row["claims"]], seconds=row["seconds"])


def _with_reason(claim: Claim) -> Claim:
    reason = next((words for begin, words in REASONS.items() if claim.claim.startswith(begin)), "")
    if claim.passed or not reason:
        return claim
    return replace(claim, note=f"{claim.note.rstrip('.')}. {reason}")


def _digest(check: Check) -> str:
    """Of the systems and the check: what an earlier code has found is not used."""
    files = [Path(inspect.getfile(check)), *sorted(Path(rivals.__file__).parent.glob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
