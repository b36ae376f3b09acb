"""ASAP: learn a handful of skills and the regions of the state space where each applies."""

__version__ = "0.1.0"
