"""Settings of tasks that are learned one after another."""

from dataclasses import dataclass

from asap.config.settings import setting

SHARED, PER_TASK = "shared", "per-task"
SOFT = 0.1  # Length of planes that each task begins with, where it has planes of its own: they can turn.


@dataclass(frozen=True)
class SequenceConfig:
    """Tasks one after another."""

    planes: str | None = setting(
        None,
        "Tasks are learned one after another: by one policy (shared), or with planes for each task under shared skills "
        "(per-task). Default: all together.",
        choices=(SHARED, PER_TASK),
    )
    plane_length: float | None = setting(
        None,
        "Planes that a task takes over are shortened to this, so that they can turn; default: as they are (shared), or "
        f"{SOFT:g} (per-task).",
        above=0.0,
    )
    freeze_after: int | None = setting(
        None, "After so many tasks the skills stay as they are; default: never.", low=1, high=2**31 - 1
    )
    thresholds: tuple[float, ...] = setting(
        (),
        "Return that counts as solved: one for all tasks, or one for each; default: the task's own, or the best that was "
        "seen.",
    )
    look_episodes: int = setting(
        64, "Episodes that each seed plays of every task, before the first task and after each.", low=1, high=10_000_000
    )
    scratch: bool = setting(
        False, "Also learn each task from scratch, with the same budget: what forward transfer is measured by."
    )

    @property
    def is_on(self) -> bool:
        return self.planes is not None

    @property
    def length(self) -> float | None:
        """To which planes are shortened; None: not at all."""
        return SOFT if self.plane_length is None and self.planes == PER_TASK else self.plane_length
