"""ASAP: learn a handful of skills and the regions of the state space where each applies."""

from typing import TYPE_CHECKING, Any

from asap.base.errors import RunError, UserError
from asap.envs.gymnasium.registration import register_with_gymnasium

if TYPE_CHECKING:
    from asap.model.model import ASAP
    from asap.model.rules import load_rules

__version__ = "0.2.0.dev0"
__all__ = ["ASAP", "RunError", "UserError", "__version__", "load_rules"]

register_with_gymnasium()


def __getattr__(name: str) -> Any:
    # Imported on first use: JAX takes a second, and `asap --help` does not need it.
    if name == "ASAP":
        from asap.model.model import ASAP

        return ASAP
    if name == "load_rules":
        from asap.model.rules import load_rules

        return load_rules
    raise AttributeError(f"module 'asap' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
