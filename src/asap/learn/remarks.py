"""What the user should know about the episodes that come in: remarks of the border, and episodes that teach nothing."""

from collections.abc import Callable, Sequence

import numpy as np

from asap.errors import RunError
from asap.workers.work import TRAINING, Played

ENOUGH = 200  # Episodes, before anything is said of all of them.
MOST_OF_ONE_STEP = 0.99


class Remarks:
    """Looks at all episodes, and says each thing once."""

    def __init__(self, notice: Callable[[str], None], allows_one_step: bool):
        self._notice, self._allows_one_step = notice, allows_one_step
        self._said: set[str] = set()
        self._episodes = self._of_one_step = 0
        self._least, self._most = np.inf, -np.inf

    def look(self, episodes: Sequence[Played]) -> None:
        """RunError where all episodes end as they begin."""
        for episode in episodes:
            for note in episode.notes:
                self._say(note)
            self._episodes += 1
            self._of_one_step += episode.length == 1
            if episode.episode.stream == TRAINING:
                self._least = min(self._least, float(episode.rewards.min()))
                self._most = max(self._most, float(episode.rewards.max()))
        if self._episodes >= ENOUGH:
            self._judge()

    def _judge(self) -> None:
        share = self._of_one_step / self._episodes
        if share > MOST_OF_ONE_STEP and not self._allows_one_step:
            what = f"{self._of_one_step} of {self._episodes} episodes ended at their first step"
            raise RunError("env", what, cure="look at it with `asap check`, or allow it by --set env.allow_one_step=true")
        if self._least == self._most:
            self._say(f"no learning signal: every reward so far was {self._least:g}, and only the length of episodes differs")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._notice(text)
