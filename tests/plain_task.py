"""A task that is nobody's: neither compiled nor hosted."""

from dataclasses import dataclass

import numpy as np

from asap.base.spec import Spec

SPEC = Spec(("position", "velocity"), (-4.8, -np.inf), (4.8, np.inf), ("push left", "push right"), 500, 0.99)


@dataclass(frozen=True)
class Plain:
    name: str = "plain"
    spec: Spec = SPEC
    descriptor: tuple[float, ...] = ()
    drawn: tuple[()] = ()
    is_scaled: bool = False
    threshold: None = None
    reference: None = None
    basis: str = "linear"
    inputs: tuple[str, ...] = ()
    frequencies: tuple[tuple[float, ...], ...] = ()
    misspecified: tuple[float, ...] = ()
    approximate: tuple[float, ...] = ()
    settings: tuple[str, ...] = ()
    play_settings: tuple[str, ...] = ()
    budget_settings: tuple[str, ...] = ()
    data_settings: tuple[str, ...] = ()
    budget: tuple[str, ...] = ()
    observation_shape: tuple[int, ...] = ()
    actions: str = ""
    reader = actor = record = lambda self: None
