"""What an environment is held to, and which of a stranger's options it gets."""

import sys
from typing import Any, NamedTuple

LONGEST_WORD = 64  # Of a stranger's options.
_IN_PATHS = ("/", "\\", "..", ":")


class EnvLimits(NamedTuple):
    """What an environment is held to."""

    max_steps: int | None = None  # None: the environment's own time limit, or 1000 where it has none.
    strict_obs: bool = False  # Observations outside their bounds: an error rather than a note.
    reward_scale: float = 1.0
    env_retries: int = 5  # env.retries, for a `reset` that raises; files have it by this name.
    vector: bool = True  # Whether a vector form may play.

    @classmethod
    def checked(cls, *values: Any, **named: Any) -> "EnvLimits":
        """Those that a file tells; raises TypeError or ValueError."""
        limits = cls(*values, **named)
        for name, low, high in (("max_steps", 1, 2**63 - 1), ("env_retries", 0, 1000)):
            number = getattr(limits, name)
            is_default = number is None and name == "max_steps"
            if not is_default and (type(number) is not int or not low <= number <= high):
                raise ValueError(f"{name} must be an integer from {low} to {high}")
        scale = limits.reward_scale
        if type(scale) not in (int, float) or not 0 < scale <= sys.float_info.max or float(scale) != scale:
            raise ValueError("reward_scale must be a finite number above 0")
        for name in ("strict_obs", "vector"):
            if type(getattr(limits, name)) is not bool:
                raise ValueError(f"{name} must be true or false")
        return limits._replace(reward_scale=float(scale))


def harmless(options: dict[str, Any]) -> dict[str, Any]:
    """Of a stranger's options, numbers, booleans and short words that name no file, module or address."""

    def is_harmless(value: Any) -> bool:
        if isinstance(value, str):
            return len(value) <= LONGEST_WORD and value.isprintable() and not any(part in value for part in _IN_PATHS)
        return isinstance(value, bool | int | float)

    return {key: value for key, value in options.items() if key != "render_mode" and is_harmless(value)}
