"""The sentences of a reading."""

from collections.abc import Sequence

import numpy as np

from asap.base.numbers import actions_in_words, listed, main_actions, number, percent
from asap.base.spec import Task
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import Regions, controls_at, mean_actions
from asap.policy.skills import GaussianSkills
from asap.show.words.readings import PlaneInTask, PlaneReading, PolicyReading, RulesReading, SkillReading, SkillRule


def in_words(reading: PolicyReading) -> str:
    head = f"{listed(reading.tasks)}: {sizes(reading)}"
    if not reading.planes:
        blocks = [[head], ["Everywhere:", *_skills(reading)]]
    else:
        blocks = [
            [head, choice(reading.termination)],
            ["Planes, each given by its positive side:", *_planes(reading)],
            ["Where each skill is used:", *_where(reading)],
            ["What each skill does:", *_skills(reading)],
        ]
    return "\n\n".join("\n".join(lines) for lines in blocks)


def sizes(reading: PolicyReading | RulesReading) -> str:
    planes, skills = len(reading.planes), len(reading.skills)
    if not planes:
        return "no planes, 1 skill."
    return f"{planes} plane{'s' if planes > 1 else ''}, {skills} skills."


def choice(termination: float | None) -> str:
    if termination is None:
        return "A skill is drawn at every step."
    return f"A skill is kept until its region is left; inside, {percent(termination)} of the steps draw a new one."


def _planes(reading: PolicyReading) -> list[str]:
    return [f"  {line}" for plane in reading.planes for line in _plane(plane, reading.unit)]


def _plane(plane: PlaneReading, unit: str) -> list[str]:
    """One line, or one per task where m makes a difference."""
    sentences = {task: _side(side, unit) for task, side in plane.tasks.items()}
    if len(set(sentences.values())) == 1:
        return [f"plane {plane.plane}: {next(iter(sentences.values()))}"]
    return [f"plane {plane.plane} in {task}: {sentence}" for task, sentence in sentences.items()]


def _side(side: PlaneInTask, unit: str) -> str:
    sentence = side.inequality
    if side.soft_width is not None:
        sentence += f"; from 10 % to 90 % within {' '.join([number(side.soft_width), unit]).strip()}"
    if side.positive_share in (0.0, 1.0):
        sentence += f"; {'positive' if side.positive_share else 'negative'} in the whole observation range"
    return sentence


def _where(reading: PolicyReading) -> list[str]:
    if len(reading.planes) == 1:
        return ["  skill 1 where plane 1 > 0, skill 0 elsewhere"]
    return [f"  skill {skill.skill} where {_pattern(skill.sides)}" for skill in reading.skills if skill.used]


def _pattern(sides: tuple[int, ...]) -> str:
    return listed([f"plane {k + 1} {'>' if side > 0 else '<'} 0" for k, side in enumerate(sides)])


def _skills(reading: PolicyReading) -> list[str]:
    lines = [f"  {line}" for skill in reading.skills if skill.used for line in _skill(skill)]
    return lines + idle(reading.skills)


def idle(skills: Sequence[SkillReading | SkillRule]) -> list[str]:
    numbers = [str(skill.skill) for skill in skills if not skill.used]
    return [f"  hardly ever used: skill{'s' if len(numbers) > 1 else ''} {listed(numbers)}"] if numbers else []


def _skill(skill: SkillReading) -> list[str]:
    if skill.actions is not None:
        does = actions_in_words(tuple(skill.actions), tuple(skill.actions.values()))
        return [f"skill {skill.skill}: " + "; ".join([does, *habits(skill)])]
    head = "; ".join(["an action's chance is proportional to exp(score)", *habits(skill)])
    return [f"skill {skill.skill}: {head}", *_scores(skill.scores)]


def habits(skill: SkillReading | SkillRule) -> list[str]:
    told = []
    if skill.usage is not None:
        told.append(f"used in {percent(skill.usage)} of the steps")
    if skill.duration is not None:
        told.append(f"{number(skill.duration)} steps at a time")
    return [", ".join(told)] if told else []


def _scores(scores: dict[str, dict[str, str]]) -> list[str]:
    same = len({tuple(of_task.values()) for of_task in scores.values()}) == 1
    chosen = list(scores.items())[:1] if same else scores.items()
    return [
        f"  score of {action}{'' if same else f' in {task}'}: {text}"
        for task, of_task in chosen
        for action, text in of_task.items()
    ]


MOST_CONTROLS = 3


def skill_in_words(policy: ASAPPolicy, task: Task, regions: Regions, skill: int) -> str:
    """`skill 0: push left 97 %`, `skill 0: torque -1.2 to 0.4`: what it does at the states of `regions` that it
    rules."""
    if isinstance(policy.skills, GaussianSkills):
        return f"skill {skill}: {', '.join(_controls(policy, task, regions, skill))}"
    actions = mean_actions(policy, regions, skill, task.descriptor)
    return f"skill {skill}: {main_actions(task.spec.action_names, actions, smallest=0.05)}"


def _controls(policy: ASAPPolicy, task: Task, regions: Regions, skill: int) -> list[str]:
    """Where the means lie, but for a twentieth at each end."""
    ruled, spec = regions.rulers == skill, task.spec
    states = regions.observations[ruled] if ruled.any() else regions.observations
    means = controls_at(policy, np.full(len(states), skill), states, task.descriptor, spec)
    ranges = [f"{name} {_range(*np.quantile(of, [0.05, 0.95]))}" for name, of in zip(spec.action_names, means.T)]
    more = len(ranges) - MOST_CONTROLS
    return ranges[:MOST_CONTROLS] + ([f"and {more} more"] if more > 0 else [])


def _range(low: float, high: float) -> str:
    low, high = f"{low:.2g}", f"{high:.2g}"
    return low if low == high else f"{low} to {high}"
