"""What a user should know before training: features that say nothing, planes that cannot move."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.keys import Key, fold, root, uniforms
from asap.envs.core import CompiledTasks, advance, begin
from asap.policy.policy import ASAPPolicy

LANES, STEPS = 64, 64
SATURATED = 1e-6  # Beyond this the gradient of a plane is lost in the noise of any batch.
NUM_SHOWN = 3


def warnings_about(policy: ASAPPolicy, tasks: CompiledTasks) -> list[str]:
    """One line for each thing that will hinder learning, judged where random play leads."""
    psi, margins = jax.tree.map(np.asarray, jax.jit(_randomly_visited)(policy, tasks, root(0)))
    names = policy.psi.names(tasks.env.spec.observation_names, tasks.descriptor_size)
    return [*_about_features(psi, names), *_about_planes(margins)]


def _randomly_visited(
    policy: ASAPPolicy, tasks: CompiledTasks, key: Key
) -> tuple[Float[Array, "F N"], Float[Array, "K N"]]:
    """psi, and the margins of the planes, at the states of uniformly random play."""

    def lane(key: Key) -> tuple[Float[Array, "T O"], Float[Array, "T Z"]]:
        def step(episode, t: Int[Array, ""]):
            action_key, noise_key, reset_key, task_key = (fold(key, t, purpose) for purpose in range(4))
            task = tasks[episode.task]
            at = tasks.env.observe(episode.state, task), tasks.env.descriptor(task)
            action = jnp.int32(uniforms(action_key)[0] * tasks.env.spec.num_actions)
            return advance(tasks, tasks.env.noise(noise_key), reset_key, task_key, episode, action)[0], at

        return jax.lax.scan(step, begin(tasks, fold(key, STEPS, 0), fold(key, STEPS, 1)), jnp.arange(STEPS))[1]

    observations, descriptors = jax.vmap(lane)(fold(key, jnp.arange(LANES)))
    x, m = (jnp.moveaxis(part, -1, 0).reshape(part.shape[-1], -1) for part in (observations, descriptors))
    psi = policy.psi(x, m)
    return psi, policy.partition.margins(psi)


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
