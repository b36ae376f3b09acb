"""What the user should know about the episodes that come in: remarks of the border, and episodes that teach nothing."""

import math
from collections.abc import Callable, Sequence

from asap.base.episodes import TRAINING, Played
from asap.base.errors import RunError

ENOUGH = 200  # Episodes, before anything is said of all of them.
MOST_OF_ONE_STEP = 0.99


class EpisodeWarnings:
    """Looks at all episodes, and says each thing once."""

    def __init__(self, notice: Callable[[str], None], allows_one_step: bool):
        self._notice, self._allows_one_step = notice, allows_one_step
        self._said: set[str] = set()
        self._episodes = self._of_training = self._of_one_step = 0
        self._least, self._most = math.inf, -math.inf

    def look(self, episodes: Sequence[Played]) -> None:
        """RunError where all episodes end as they begin."""
        for episode in episodes:
            for note in episode.notes:
                self._say(note)
            self._episodes += 1
            self._of_one_step += episode.length == 1
            if episode.episode.stream == TRAINING:
                self._of_training += 1
                self._least, self._most = min(self._least, episode.total), max(self._most, episode.total)
        if self._episodes >= ENOUGH:
            self._judge()

    def _judge(self) -> None:
        share = self._of_one_step / self._episodes
        if share > MOST_OF_ONE_STEP and not self._allows_one_step:
            what = f"{self._of_one_step} of {self._episodes} episodes ended at their first step"
            raise RunError(
                "env", what, cure="look at it with `asap check`, or allow it by --set env.allow_one_step=true"
            )
        if self._of_training >= ENOUGH and self._least == self._most:
            self._say(f"no learning signal: every episode so far had a return of {self._least:g}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._notice(text)
