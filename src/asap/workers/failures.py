"""A failed episode for the user: one line, and a file with which to see it again."""

import json
import os
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from asap.base import trust
from asap.base.episodes import CHECK, COLLECTION, EVALUATION, RANDOM, SEARCH, TRAINING
from asap.base.errors import RunError, UserError
from asap.base.files import BadFile, read_regular, replace
from asap.envs.gymnasium.errors import explained
from asap.envs.gymnasium.make import EnvLimits, EnvSource, harmless, is_registered, place_of
from asap.workers.work import Failed

MAX_RECORDING = 1 << 28  # Bytes: a million steps of a dozen controls.
_KINDS = {TRAINING: "episode", SEARCH: "search episode", EVALUATION: "evaluation episode"}
_KINDS |= {CHECK: "check episode", COLLECTION: "collected episode", RANDOM: "random episode"}


def failure(failed: Failed, source: EnvSource, replay: str | Path | None = None) -> RunError:
    """What went wrong, where, and the command that shows it again. `replay` is the path of a saved `Recording`."""
    episode = failed.episode
    again = ["--replay", str(replay)] if replay is not None else ["--seed", str(episode.reset_seed)]
    cure = f"reproduce it with: {shlex.join(['asap', 'check', source.name, *again])}"
    if source.is_local:
        cure = f"the episode begins with env.reset(seed={episode.reset_seed})"
    return explained(failed, f"{_KINDS[episode.stream]} {episode.number}", episode.reset_seed, cure)


class Recording(NamedTuple):
    """An episode up to its failure, as JSON has it."""

    env: str
    options: dict[str, Any]
    rules: dict[str, Any]
    seed: int  # Of the reset.
    actions: list[Any]  # In our units, as `CheckedEnv.step` takes them.
    error: str
    traceback: str = ""
    tag: str | None = None  # The user's, over what is imported and called.

    @classmethod
    def of(cls, source: EnvSource, failed: Failed, limits: EnvLimits = EnvLimits()) -> "Recording":
        seed, error = failed.episode.reset_seed, f"{failed.field}: {failed.what}"
        recording = cls(source.name, source.options, limits._asdict(), seed, failed.actions, error, failed.traceback)
        return recording._replace(tag=trust.tag(recording.names))

    @property
    def names(self) -> dict[str, Any]:
        """All that decides what is imported and called, as JSON has it."""
        options = json.loads(json.dumps(self.options, default=repr))
        return {"env": self.env, "options": options, "place": place_of(self.env) if ":" in self.env else ""}

    def usable_options(self) -> dict[str, Any]:
        """All of them where the user made the file; of a stranger's, harmless ones for ids of Gymnasium's own."""
        if trust.is_own(self.names, self.tag):
            return self.options
        return harmless(self.options) if is_registered(self.env) else {}

    def save(self, path: str | Path) -> None:
        replace(Path(path), json.dumps(self._asdict(), default=repr).encode(), "run")

    @classmethod
    def load(cls, path: str | Path) -> "Recording":
        cure = "pass a file that a failed run has written"
        try:
            data = read_regular(Path(os.path.realpath(path)), MAX_RECORDING)
            recording = cls(**json.loads(data))
        except (BadFile, OSError, ValueError, TypeError, RecursionError) as error:
            raise UserError("--replay", f"cannot be read: {error}", path, cure) from error
        wanted = (str, dict, dict, int, list, str, str, str | None)
        if not all(isinstance(value, kind) for value, kind in zip(recording, wanted)):
            raise UserError("--replay", "not the recording of an episode", path, cure)
        try:
            EnvLimits.checked(**recording.rules)
        except (TypeError, ValueError) as error:
            raise UserError("--replay", f"has limits that cannot be used: {error}", path, cure) from None
        return recording
