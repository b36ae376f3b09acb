"""For every test: shapes and types are checked at run time, compiled code is shared; and a few things to test on.

Nothing of the package may be imported before its import hook is installed: hence the imports inside the fixtures.
"""

import gc
import getpass
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Compiling takes most of the tests' time; workers and later runs share what has been compiled. The folder is keyed by
# program, options and versions, so it can not go stale.
CACHE = Path(tempfile.gettempdir()) / f"asap-tests-{getpass.getuser()}"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # As the library itself sets it.
os.environ.setdefault("ASAP_KEY_FILE", str(CACHE / "key"))  # Not the user's own.

# Traced programs stay in memory: looking through all of them again and again took a tenth of the time.
gc.set_threshold(50_000, 20, 20)

import jax  # noqa: E402
import jaxtyping  # noqa: E402

# Where arrays have shapes. Not envs.gymnasium: it takes what strangers give it, and has its own errors for that.
CHECKED = ("base.keys", "base.arrays", "envs.core", "envs.rooms", "policy", "learn", "envs.controllers")
CHECKED += tuple(f"experience.{name}" for name in ("rollout", "summed_scores", "compiled"))
# What is drawn on the host enters compiled code as a NumPy array, and is an array in the annotations' sense.
jaxtyping.Array = jax.Array | np.ndarray | np.generic
jaxtyping.install_import_hook([f"asap.{name}" for name in CHECKED], "beartype.beartype")


@pytest.fixture(scope="session")
def compiled() -> Callable[..., Callable[..., Any]]:
    """jax.jit, with the options under which the library itself compiles fastest."""
    from asap.base import arrays

    return arrays.compiled


@pytest.fixture(scope="session")
def new_policy() -> Callable[..., Any]:
    """Policies with random parameters, for four observations and a task descriptor of two numbers."""
    import jax.numpy as jnp

    from asap.policy.features import Features, Fourier, Polynomial
    from asap.policy.partition import Partition
    from asap.policy.policy import ASAPPolicy
    from asap.policy.skills import GibbsSkills

    bases = {
        "linear": Polynomial(1),
        "polynomial": Polynomial(2),
        "fourier": Fourier(jnp.asarray([[3.0, 0.0], [1.0, -2.0]]), bias=False),
        "fourier with bias": Fourier(jnp.asarray([[0.0, 0.5], [1.0, 1.0], [0.5, 0.0]]), bias=True),
    }

    def new(
        planes: int = 1,
        skills: str = "constant",
        psi: str = "linear",
        task: str = "none",
        termination: float | None = None,
        region_skills: tuple[int, ...] | None = None,
        alpha_beta: float = 3.0,
        alpha_theta: float = 1.5,
        seed: int = 0,
    ) -> ASAPPolicy:
        rng = np.random.default_rng(seed)
        psi_map = Features.of(bases[psi], (0, 1), task)
        phi_map = Features.of(Polynomial(0 if skills == "constant" else 1), (0, 1))
        sizes = (len(features.names(("x", "y", "goal x", "goal y"), 2)) for features in (psi_map, phi_map))
        num_psi, num_phi = sizes
        beta = jnp.asarray(rng.normal(size=(planes, num_psi)), jnp.float32)
        theta = jnp.asarray(rng.normal(size=(1 + max(region_skills or (2**planes - 1,)), 4, num_phi)), jnp.float32)
        return ASAPPolicy(
            Partition(beta, jnp.float32(alpha_beta), region_skills),
            GibbsSkills(theta, jnp.float32(alpha_theta)),
            psi_map,
            phi_map,
            termination,
        )

    return new


@pytest.fixture(scope="session")
def short_rooms() -> Any:
    """Two tasks, far and near, whose episodes last at most 9 steps and end in both ways; 3 of 4 are near ones."""
    import dataclasses

    from asap.envs.core import CompiledTasks
    from asap.envs.rooms import TWO_ROOMS, Rooms, read_map

    class ShortRooms(Rooms):
        spec = dataclasses.replace(Rooms.spec, horizon=9)

    two_rooms = read_map(TWO_ROOMS)
    near = two_rooms._replace(start_low=np.float32([0.74, 0.05]), start_high=np.float32([0.79, 0.18]))
    flipped = two_rooms._replace(goal=np.float32([0.9, 0.9]), door_low=np.float32([0.0]), door_high=np.float32([0.3]))
    return CompiledTasks.of(ShortRooms(), {"far": flipped, "near": near}, (1.0, 3.0))
