"""What a user should know before training: features that say nothing, planes that cannot move."""

import jax
import numpy as np
from jaxtyping import Float

from asap.policy.policy import ASAPPolicy

SATURATED = 1e-6  # Beyond this the gradient of a plane is lost in the noise of any batch.
NUM_SHOWN = 3


def warnings_about(
    policy: ASAPPolicy, x: Float[np.ndarray, "O N"], m: Float[np.ndarray, "Z N"], observation_names: tuple[str, ...]
) -> list[str]:
    """One line for each thing that will hinder learning, judged at the states that random play leads to."""
    psi = jax.jit(lambda policy, x, m: policy.psi(x, m))(policy, x, m)
    margins = policy.partition.margins(psi)
    names = policy.psi.names(observation_names, len(m))
    return [*_about_features(np.asarray(psi), names), *_about_planes(np.asarray(margins))]


def _about_features(psi: np.ndarray, names: tuple[str, ...]) -> list[str]:
    found = []
    zero = (psi == 0).all(0).mean()
    if zero >= 0.1:
        found.append(
            f"features are all zero at {zero:.0%} of states, where every skill is equally probable; change policy.basis or policy.inputs"
        )
    spread = psi.max(1) - psi.min(1)
    constant = [name for name, width in zip(names, spread) if width < 1e-6 and name != "1"]
    if constant:
        found.append(f"features are constant: {_some(constant)}; they act like a bias")
    varying = [row for row in range(len(psi)) if spread[row] >= 1e-6]
    pairs = [(a, b) for i, a in enumerate(varying) for b in varying[:i] if np.abs(psi[a] - psi[b]).max() < 1e-6]
    if pairs:
        found.append(
            f"features are duplicates: {_some([f'{names[b]} = {names[a]}' for a, b in pairs])}; their weights add up"
        )
    return found


def _some(items: list[str]) -> str:
    more = len(items) - NUM_SHOWN
    return ", ".join(items[:NUM_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _about_planes(margins: np.ndarray) -> list[str]:
    share = (np.abs(margins) > -np.log(SATURATED)).mean(1)
    return [
        f"hyperplanes saturated: {share[k]:.0%} of states have p < {SATURATED:g} on one side of plane {k + 1}; "
        "there it gets no gradient; lower policy.alpha_beta"
        for k in np.flatnonzero(share >= 0.9)
    ]
