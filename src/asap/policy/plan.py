"""A policy as its player on the host takes it: see `asap.policy.host`."""

from typing import Any

import numpy as np
from jaxtyping import Float

from asap.policy.features import RBF, Features, Fourier, Network, Polynomial
from asap.policy.host import Plan
from asap.policy.policy import ASAPPolicy
from asap.policy.skills import GaussianSkills

ONE_TASK = np.zeros((1, 0), np.float32)  # The descriptors of a task that has none.


def plan_of(policy: ASAPPolicy, num_observations: int, descriptors: Float[np.ndarray, "M Z"] = ONE_TASK) -> Plan:
    """Of one seed, for all tasks whose descriptors are given."""
    static: dict[str, Any] = {"termination": policy.termination}
    arrays = {
        "beta": policy.partition.beta,
        "alpha_beta": policy.partition.alpha_beta,
        "theta": policy.skills.theta,
        "descriptors": descriptors,
    }
    if isinstance(policy.skills, GaussianSkills):
        static["skills"], arrays["log_std"] = "gaussian", policy.skills.log_std
    else:
        static["skills"], arrays["alpha_theta"] = "gibbs", policy.skills.alpha_theta
    for name, features in (("psi", policy.psi), ("phi", policy.phi)):
        static[name], own = _map(features, num_observations)
        arrays |= {f"{name}.{key}": values for key, values in own.items()}
    return Plan(static, {name: np.asarray(values) for name, values in arrays.items()})


def _map(features: Features, num_observations: int) -> tuple[dict[str, Any], dict[str, Any]]:
    basis = features.basis
    if features.constant:
        return {"kind": "constant"}, {}
    static = {"inputs": list(features.inputs), "observations": num_observations, "task": features.task}
    arrays = {"shift": features.shift, "scale": features.scale}
    match basis:
        case Polynomial():
            static |= {"kind": "polynomial", "degree": basis.degree}
        case Fourier():
            static |= {"kind": "fourier", "bias": basis.bias}
            arrays["frequencies"] = basis.frequencies
        case RBF():
            static |= {"kind": "rbf", "bias": basis.bias, "width": basis.width}
            arrays["centres"] = basis.centres
        case Network():
            static |= {"kind": "network", "layers": len(basis.weights)}
            for i, (weights, biases) in enumerate(zip(basis.weights, basis.biases)):
                arrays |= {f"weights.{i}": weights, f"biases.{i}": biases}
    return static, arrays
