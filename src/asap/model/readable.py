"""What a model tells of its policy, and what can be cut from it or added without learning."""

import abc
from typing import TYPE_CHECKING

from asap.base.episodes import require_episodes, require_seed
from asap.model import reading
from asap.model.another_task import as_played, with_one_policy
from asap.model.pruning import prune
from asap.model.surgery import flip_planes, grow_plane, merge
from asap.policy.rules.from_policy import checked_digits, rules_text
from asap.policy.rules.given import Given

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asap.model.model import ASAP
    from asap.show.words.changes import Changes
    from asap.show.words.explain import Explanation


class Readable(abc.ABC):
    """The methods of a model that read its policy. Where tasks have planes of their own, the one that is not named is the last."""

    @property
    @abc.abstractmethod
    def model(self) -> "ASAP":
        """Itself."""

    def explain(self, task: str | None = None) -> str:
        """The policy as rules, what each skill is used for, what is lost in print; and how training ended."""
        return self.explanation(task).text

    def explanation(
        self, task: str | None = None, *, digits: int | None = None, exact: bool = False, every: bool = False
    ) -> "Explanation":
        """The same with its numbers, and as a file. `exact`: all digits; `every` region, also if never visited."""
        model = as_played(self.model, task)
        shown = None if task is None else model.task(task)
        return reading.explanation(model, shown, reading.few_episodes(model), digits, bool(exact), bool(every))

    def rules(self, task: str | None = None, *, digits: int | None = None, exact: bool = False) -> str:
        """As rules that load again; nothing is played. Numbers have the fewest digits that keep the actions."""
        model = as_played(self.model, task)
        shown = model.tasks.tasks if task is None else (model.task(task),)
        return rules_text(model.policy, shown, checked_digits("digits", digits), bool(exact))

    @property
    def given(self) -> Given:
        """The rules that learning started from."""
        return reading.given(self.model)

    def changes(self, *, digits: int | None = None) -> "Changes":
        """What learning made of the given rules: which plane moved and by how much, which skill changed, what it gained."""
        model = as_played(self.model, None)
        return reading.changes(model, reading.few_episodes(model), checked_digits("digits", digits))

    def prune(self, loss: float = 0.05, episodes: int = 200, seed: int = 1) -> "ASAP":
        """With fewer planes and skills; `loss` is a share of the way from random play to the present return."""
        return prune(
            with_one_policy(self.model), loss, require_episodes("episodes", episodes), require_seed("seed", seed)
        ).model

    def grow(self, where: str | None = None, episodes: int = 20, seed: int = 1) -> "ASAP":
        """With one more plane: at a test such as "x > 0.5", with equal skills on both sides; or where it helps most."""
        return grow_plane(with_one_policy(self.model), where, episodes, seed).model

    def flip(self, *planes: int, episodes: int = 20, seed: int = 1) -> "ASAP":
        """With these planes turned, counted from 1; none named: the one whose turn is best by a few episodes."""
        return flip_planes(with_one_policy(self.model), planes, episodes, seed).model

    def merge(self, *skills: int, episodes: int = 20, seed: int = 1) -> "ASAP":
        """With two skills as one, counted from 0; none named: the two that cost least by a few episodes."""
        return merge(with_one_policy(self.model), skills, episodes, seed).model

    def plot(self, task: str | None = None, title: str | None = None, changes: bool = False) -> "Figure":
        """The map of the partition with its skills; with `changes`, beside that of the given rules."""
        model, draw = as_played(self.model, task), reading.plot_changes if changes else reading.plot_policy
        shown = model.task(task)
        return draw(model, shown, title or f"{shown.name}, seed {model.seed}", reading.few_episodes(model))
