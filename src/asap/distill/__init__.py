"""Rules that act as another policy does: distillation of a teacher into skills and planes."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asap.distill.distillation import Distilled, distill

__all__ = ["Distilled", "distill"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # Imported on first use: it needs JAX, which takes a second.
        from asap.distill import distillation

        return getattr(distillation, name)
    raise AttributeError(f"module 'asap.distill' has no attribute {name!r}")
