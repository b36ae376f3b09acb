"""The start of a training from a policy of another task: its symmetric images are played, and the best one learns on.

Images of few changes play first, in groups, one episode each. Where one of them does about as well as the policy did on
its own task, and again in a few more episodes, the search is over: the others would only cost episodes. Else all play
until the share of the budget is used up, and the better quarter plays on, and so on, until one is left.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from asap.base.keys import host_generator
from asap.base.numbers import counted, number
from asap.base.spec import Spec
from asap.config.schema import Config
from asap.experience.protocol import Experience, OnProgress, ignore_progress
from asap.learn.search import Candidate, Trials, best_of
from asap.learn.state import Start
from asap.policy.images import Image, image_of, images, plane_images
from asap.policy.policy import ASAPPolicy

GROUP, FEW = 8, 16  # Images that play before the best of them is looked at; fewer in all play more than once each.
CONFIRMING = 4  # Episodes more, of an image that has come up to the goal.
OF_THE_WAY = 0.9  # From random play to the return on its own task: as well as that.
_IMAGES = 9  # Id of the stream that a sample of images is drawn from.


class Winner(NamedTuple):
    """The image that learning starts from, and what it is judged by."""

    image: Image
    words: str
    seed: int
    tried: int  # Images that have played.
    returns: float | None  # Means over the episodes it has played; None where nothing could be played.
    as_it_is: float | None
    episodes: int  # Of all images together.
    steps: int

    def as_dict(self) -> dict[str, Any]:
        about = {"seed": self.seed, "image": self.words, "return": self.returns, "return_as_it_is": self.as_it_is}
        return {**about, "tried": self.tried, "episodes": self.episodes, "env_steps": self.steps}

    def note(self) -> str:
        if self.returns is None or self.as_it_is is None:
            return f"seed {self.seed}: the budget is too small to try images of the policy"
        played = f"of {counted(self.tried, 'image')} tried in {counted(self.episodes, 'episode')}"
        best = f"seed {self.seed}: best {played}: {self.words}, return {number(self.returns)}"
        return best if self.words == "as it is" else f"{best}; as it is {number(self.as_it_is)}"


def search_symmetries(
    config: Config,
    experience: Experience,
    seed: int,
    policy: ASAPPolicy,
    on_progress: OnProgress = ignore_progress,
    goal: float | None = None,
) -> tuple[Start, Winner]:
    """The image of the policy that has the best mean return over a few episodes, of as many as there is room for.

    `goal` is the return from which on an image is good enough.
    """
    trials, spec = Trials(config, experience, seed), experience.tasks.spec
    if config.run.symmetries == "planes":
        tried = plane_images(policy, spec)
        played = trials.play_within(_made(policy, tried), 1.0, 1.0, config.run.search_episodes, on_progress)
        best = max(played, key=lambda one: one.merit) if played else None
    else:
        tried = images(policy, spec, host_generator(seed, _IMAGES))
        played, best = _race(trials, config, policy, tried, on_progress, goal)
    return _won(trials, policy, tried, played, best, spec)


def _made(policy: ASAPPolicy, tried: Sequence[Image]) -> list[ASAPPolicy]:
    return [image_of(policy, image) for image in tried]


def _race(
    trials: Trials,
    config: Config,
    policy: ASAPPolicy,
    tried: list[Image],
    on_progress: OnProgress,
    goal: float | None,
) -> tuple[list[Candidate], Candidate | None]:
    """All that have played, in their order, and the best of them."""
    most, end = config.run.search_share, min(2 * config.run.search_share, 1.0)
    # Few images can play more than once each, which tells more.
    episodes = config.run.search_episodes if len(tried) < FEW else 1
    played: list[Candidate] = []
    while len(played) < len(tried) and trials.share < most:
        before = len(played)
        group = _made(policy, tried[before : before + GROUP])
        played += trials.play_within(group, most, end, episodes, lambda done: on_progress(before + done))
        for one in sorted(played[before:], key=lambda one: -one.merit)[:1]:
            if goal is not None and one.merit >= goal and _is_confirmed(trials, one, end, goal):
                return played, one
        if len(played) - before < len(group):
            break
    return played, best_of(trials, played, end, few=2) if played else None


def _is_confirmed(trials: Trials, one: Candidate, end: float, goal: float) -> bool:
    again = trials.play_within([one.policy], end, end, CONFIRMING)
    for more in again:
        one.returns.extend(more.returns)
        one.lengths.extend(more.lengths)
    return bool(again) and one.merit >= goal


def _won(
    trials: Trials,
    policy: ASAPPolicy,
    tried: list[Image],
    played: list[Candidate],
    best: Candidate | None,
    spec: Spec,
) -> tuple[Start, Winner]:
    """By identity: candidates of equal returns are different ones."""
    place = next((index for index, one in enumerate(played) if one is best), 0)
    as_it_is, totals = (played[0].merit if played else None), trials.start.totals
    found = None if best is None else best.merit
    counts = int(totals.episodes.sum()), int(totals.steps.sum())
    image = tried[place]
    winner = Winner(image, image.in_words(spec), trials.seed, len(played), found, as_it_is, *counts)
    return trials.start._replace(policy=policy if best is None else best.policy), winner


def goal_of(own: float | None, random: float | None, threshold: float | None) -> float | None:
    """The return that is good enough: nearly that on the policy's own task, or else that at which the task is solved."""
    if own is not None and random is not None and np.isfinite(own + random) and own > random:
        return random + OF_THE_WAY * (own - random)
    return threshold
