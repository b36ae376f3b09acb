"""What the numbers of Gymnasium's own environments mean, from their documentation; they do not say it themselves."""

from typing import NamedTuple


class KnownNames(NamedTuple):
    """Of one environment; what has no names of its own is numbered."""

    observations: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()  # To choose from.
    controls: tuple[str, ...] = ()  # To set.


def _named(observations: str = "", actions: str = "", controls: str = "") -> KnownNames:
    return KnownNames(*(tuple(text.split(", ")) if text else () for text in (observations, actions, controls)))


def _joints(quantity: str, *joints: str) -> str:
    return ", ".join(f"{joint} {quantity}" for joint in joints)


_LANDER = "x, y, x velocity, y velocity, angle, angular velocity, left leg contact, right leg contact"
_WALKER_LEG = "hip {0} angle, hip {0} angular velocity, knee {0} angle, knee {0} angular velocity, leg {0} contact"
_HOPPER = ("thigh", "leg", "foot")
_WALKER = (*_HOPPER, "left thigh", "left leg", "left foot")
_CHEETAH = ("back thigh", "back shin", "back foot", "front thigh", "front shin", "front foot")


def _runner(trunk: str, joints: tuple[str, ...]) -> KnownNames:
    """The layout that the running robots of MuJoCo share."""
    places, speeds = _joints("angle", trunk, *joints), _joints("angular velocity", trunk, *joints)
    return _named(f"height, {places}, x velocity, z velocity, {speeds}", controls=_joints("torque", *joints))


_FROZEN_LAKE = _named(actions="left, down, right, up")
_CLIFF = _named(actions="up, right, down, left")
# By the id without its version.
KNOWN = {
    "CartPole": _named("cart position, cart velocity, pole angle, pole angular velocity", "push left, push right"),
    "MountainCar": _named("position, velocity", "accelerate left, do not accelerate, accelerate right"),
    "MountainCarContinuous": _named("position, velocity", controls="force"),
    "Acrobot": _named(
        "cos angle 1, sin angle 1, cos angle 2, sin angle 2, angular velocity 1, angular velocity 2",
        "torque -1, torque 0, torque 1",
    ),
    "Pendulum": _named("cos angle, sin angle, angular velocity", controls="torque"),
    "LunarLander": _named(
        _LANDER, "do nothing, fire left engine, fire main engine, fire right engine", "main engine, side engines"
    ),
    "LunarLanderContinuous": _named(_LANDER, controls="main engine, side engines"),
    "BipedalWalker": _named(
        f"hull angle, hull angular velocity, x velocity, y velocity, {_WALKER_LEG.format(1)}, {_WALKER_LEG.format(2)}, "
        + ", ".join(f"lidar {i}" for i in range(10)),
        controls="hip 1 torque, knee 1 torque, hip 2 torque, knee 2 torque",
    ),
    "FrozenLake": _FROZEN_LAKE,
    "FrozenLake8x8": _FROZEN_LAKE,
    "CliffWalking": _CLIFF,
    "CliffWalkingSlippery": _CLIFF,
    "Taxi": _named(actions="south, north, east, west, pick up, drop off"),
    "Blackjack": _named(actions="stick, hit"),
    "InvertedPendulum": _named(
        "cart position, pole angle, cart velocity, pole angular velocity", controls="cart force"
    ),
    "InvertedDoublePendulum": _named(
        "cart position, sin angle 1, sin angle 2, cos angle 1, cos angle 2, cart velocity, angular velocity 1, "
        "angular velocity 2, constraint force",
        controls="cart force",
    ),
    "Reacher": _named(
        "cos angle 1, cos angle 2, sin angle 1, sin angle 2, target x, target y, angular velocity 1, "
        "angular velocity 2, fingertip x - target x, fingertip y - target y",
        controls="torque 1, torque 2",
    ),
    "Swimmer": _named(
        "tip angle, first rotor angle, second rotor angle, tip x velocity, tip y velocity, tip angular velocity, "
        "first rotor angular velocity, second rotor angular velocity",
        controls="first rotor torque, second rotor torque",
    ),
    "Hopper": _runner("torso", _HOPPER),
    "Walker2d": _runner("torso", _WALKER),
    "HalfCheetah": _runner("tip", _CHEETAH),
}

# Environments whose states number the cells of a grid, row by row: how many columns there are.
GRID_COLUMNS = {
    **dict.fromkeys(("FrozenLake", "FrozenLake8x8"), lambda env: env.ncol),
    **dict.fromkeys(("CliffWalking", "CliffWalkingSlippery"), lambda env: env.shape[1]),
}
