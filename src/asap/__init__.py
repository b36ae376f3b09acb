"""ASAP: learn a handful of skills and the regions of the state space where each applies."""

from asap.envs.gymnasium.registration import register_with_gymnasium

__version__ = "0.1.0"
__all__ = ["ASAP"]

register_with_gymnasium()


def __getattr__(name: str):
    if name == "ASAP":  # Imported on first use: JAX takes a second, and `asap --help` does not need it.
        from asap.model.model import ASAP

        return ASAP
    raise AttributeError(f"module 'asap' has no attribute {name!r}")
