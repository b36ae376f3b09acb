"""The rules of a policy as one text."""

from asap.base.spec import Task
from asap.policy.policy import ASAPPolicy
from asap.policy.rules.from_policy import read_rounded, sample_states
from asap.policy.rules.rounding import Sample
from asap.policy.rules.rulebook import Vocabulary
from asap.policy.rules.write import write_rules


def rules_text(policy: ASAPPolicy, tasks: tuple[Task, ...], digits: int | None = None, is_exact: bool = False) -> str:
    """The rules of a policy for all regions, of all tasks or of one that is to be shown alone."""
    vocabulary, states = Vocabulary.of(tasks[0].spec, len(tasks[0].descriptor)), sample_states(policy, tasks[0])
    is_fixed = len(tasks) == 1 and {policy.psi.task, policy.phi.task} != {"none"}
    sample = Sample.of({task.descriptor: states for task in tasks})
    fixed = tasks[0].descriptor if is_fixed else None
    found, *_ = read_rounded(policy, vocabulary, sample, digits, is_exact, fixed)
    numbers = [own[0] for own in found.skills]
    return "\n".join([*write_rules(found.book, planes=found.planes or None, numbers=numbers), ""])
