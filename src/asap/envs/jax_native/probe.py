"""What a JAX environment gives is looked at once, before it is compiled with the learner: shapes, kinds of numbers, ends,
and whether its own time limit can be lifted."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from asap.base.arrays import compiled
from asap.base.errors import message_of
from asap.base.keys import fold, root
from asap.base.spec import Spec
from asap.envs.gymnasium.make import EnvNotMade
from asap.envs.jax_native.env import SUCCESS, Dynamics, JaxEnv
from asap.envs.jax_native.interface import BEYOND, with_limit

STEPS_TO_COMPARE = 4  # With the time limit and without it.
Limit = tuple[str, int]  # Its name among the parameters, and the number of steps.


def looked_at(dynamics: Dynamics, limit: Limit | None, name: str) -> tuple[Dynamics, list[str]]:
    """What is known of it then, without its time limit where that can be lifted; and what the user should know."""
    if limit is None:
        dynamics, num_ends = _probed(dynamics, name)
        what = "step_env gives one `done`, and its parameters tell no time limit: if there is one, its ends count as terminated"
        return dynamics, [] if num_ends == 2 else [f"env: {what}"]
    lifted = dataclasses.replace(dynamics, params=with_limit(dynamics.params, limit[0], BEYOND))
    lifted, _ = _probed(lifted, name)
    if not _observes(lifted, limit):
        return lifted, []
    kept = dataclasses.replace(lifted, params=dynamics.params, limit=limit[1])
    return kept, [f"env: its time limit of {limit[1]} steps is part of what it observes or pays, and stays"]


def _probed(dynamics: Dynamics, name: str) -> tuple[Dynamics, int]:
    """With the kinds of the numbers in its state; and how many flags say that an episode ends. Nothing is computed."""
    action = np.zeros(dynamics.action_space.shape, dynamics.action_space.dtype)

    def answers() -> tuple[Any, Any]:
        first = dynamics.reset(root(0), {})
        return first, dynamics.step(root(0), first[1], jnp.asarray(action), {})

    try:
        (observed, first), answer = jax.eval_shape(answers)
    except Exception as error:  # Of a stranger's code there may be any.
        what = f"reset_env or step_env raised {type(error).__name__}: {message_of(error)}"
        raise EnvNotMade("env", what[:300], name) from error
    if not isinstance(answer, tuple) or len(answer) not in (5, 6):
        what = "step_env must return obs, state, reward, done, info; or terminated and truncated in place of done"
        raise EnvNotMade("env", what, name)
    now, after = (jax.tree.flatten(state) for state in (first, answer[1]))
    if now[1] != after[1] or [leaf.shape for leaf in now[0]] != [leaf.shape for leaf in after[0]]:
        raise EnvNotMade("env", "reset_env and step_env give states of different shape", name)
    size = dynamics.observation_space.shape
    for given in (observed, answer[0]):
        if getattr(given, "size", None) != math.prod(size):
            what = f"an observation has the shape {getattr(given, 'shape', type(given).__name__)}, its space {size}"
            raise EnvNotMade("env", what, name)
    if any(math.prod(value.shape) != 1 for value in answer[2:-1]):
        raise EnvNotMade("env", "reward and ends must be single numbers", name)
    kinds = tuple(np.dtype(jnp.result_type(before.dtype, then.dtype)) for before, then in zip(now[0], after[0]))
    info = answer[-1]
    tells = isinstance(info, Mapping) and any(key in info and info[key].size == 1 for key in SUCCESS)
    return dataclasses.replace(dynamics, kinds=kinds, tells_success=tells), len(answer) - 3 - 1


def _observes(lifted: Dynamics, limit: Limit) -> bool:
    """Whether observations or rewards are others without the limit, as where the share of the time that is left is
    shown."""
    field, steps = limit
    limited = dataclasses.replace(lifted, params=with_limit(lifted.params, field, steps))
    is_discrete = isinstance(lifted.action_space, spaces.Discrete)
    action = np.int32(0) if is_discrete else np.zeros(math.prod(lifted.action_space.shape), np.float32)

    def played(env: JaxEnv) -> list[Any]:
        state, seen = env.reset(fold(root(0), 0), {}), []
        for number in range(1, min(STEPS_TO_COMPARE, steps - 1) + 1):
            state, reward, *_ = env.transition(fold(root(0), number), state, jnp.asarray(action), {})
            seen += [state.observation, reward]
        return seen

    both = compiled(lambda: (played(JaxEnv(_ANY, lifted)), played(JaxEnv(_ANY, limited))))
    return not all(map(np.array_equal, *both()))


_ANY = Spec((), (), (), (), horizon=1, discount=1.0)  # Nothing of it is asked for.
