"""What the numbers of Gymnasium's own environments mean, from their documentation; they do not say it themselves."""

from typing import NamedTuple


class Names(NamedTuple):
    """Of one environment; what has no names of its own is numbered."""

    observations: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()  # To choose from.
    controls: tuple[str, ...] = ()  # To set.


def _angles(*joints: str) -> tuple[str, ...]:
    return tuple(f"{joint} angle" for joint in joints)


def _speeds(*joints: str) -> tuple[str, ...]:
    return tuple(f"{joint} angular velocity" for joint in joints)


def _torques(*joints: str) -> tuple[str, ...]:
    return tuple(f"{joint} torque" for joint in joints)


_LANDER = ("x", "y", "x velocity", "y velocity", "angle", "angular velocity", "left leg contact", "right leg contact")
_ENGINES = ("main engine", "side engines")
_HOPPER = ("thigh", "leg", "foot")
_WALKER = (*_HOPPER, "left thigh", "left leg", "left foot")
_CHEETAH = ("back thigh", "back shin", "back foot", "front thigh", "front shin", "front foot")
_SWIMMER = ("first rotor", "second rotor")
_CAR = ("position", "velocity")


def _leg(number: int) -> tuple[str, ...]:
    joints = (f"hip {number}", f"knee {number}")
    return (*(f"{joint} {what}" for joint in joints for what in ("angle", "angular velocity")), f"leg {number} contact")


# By the id without its version.
KNOWN = {
    "CartPole": Names(
        ("cart position", "cart velocity", "pole angle", "pole angular velocity"),
        ("push left", "push right"),
    ),
    "MountainCar": Names(_CAR, ("accelerate left", "do not accelerate", "accelerate right")),
    "MountainCarContinuous": Names(_CAR, controls=("force",)),
    "Acrobot": Names(
        ("cos angle 1", "sin angle 1", "cos angle 2", "sin angle 2", "angular velocity 1", "angular velocity 2"),
        ("torque -1", "torque 0", "torque 1"),
    ),
    "Pendulum": Names(("cos angle", "sin angle", "angular velocity"), controls=("torque",)),
    "LunarLander": Names(
        _LANDER, ("do nothing", "fire left engine", "fire main engine", "fire right engine"), controls=_ENGINES
    ),
    "LunarLanderContinuous": Names(_LANDER, controls=_ENGINES),
    "BipedalWalker": Names(
        ("hull angle", "hull angular velocity", "x velocity", "y velocity")
        + (*_leg(1), *_leg(2), *(f"lidar {beam}" for beam in range(10))),
        controls=_torques("hip 1", "knee 1", "hip 2", "knee 2"),
    ),
    **dict.fromkeys(("FrozenLake", "FrozenLake8x8"), Names(actions=("left", "down", "right", "up"))),
    **dict.fromkeys(("CliffWalking", "CliffWalkingSlippery"), Names(actions=("up", "right", "down", "left"))),
    "Taxi": Names(actions=("south", "north", "east", "west", "pick up", "drop off")),
    "Blackjack": Names(actions=("stick", "hit")),
    "InvertedPendulum": Names(
        ("cart position", "pole angle", "cart velocity", "pole angular velocity"), controls=("cart force",)
    ),
    "InvertedDoublePendulum": Names(
        ("cart position", "sin angle 1", "sin angle 2", "cos angle 1", "cos angle 2")
        + ("cart velocity", "angular velocity 1", "angular velocity 2", "constraint force"),
        controls=("cart force",),
    ),
    "Reacher": Names(
        ("cos angle 1", "cos angle 2", "sin angle 1", "sin angle 2", "target x", "target y")
        + ("angular velocity 1", "angular velocity 2", "fingertip x - target x", "fingertip y - target y"),
        controls=("torque 1", "torque 2"),
    ),
    "Swimmer": Names(
        (*_angles("tip", *_SWIMMER), "tip x velocity", "tip y velocity", *_speeds("tip", *_SWIMMER)),
        controls=_torques(*_SWIMMER),
    ),
    "Hopper": Names(
        ("height", *_angles("torso", *_HOPPER), "x velocity", "z velocity", *_speeds("torso", *_HOPPER)),
        controls=_torques(*_HOPPER),
    ),
    "Walker2d": Names(
        ("height", *_angles("torso", *_WALKER), "x velocity", "z velocity", *_speeds("torso", *_WALKER)),
        controls=_torques(*_WALKER),
    ),
    "HalfCheetah": Names(
        ("height", *_angles("tip", *_CHEETAH), "x velocity", "z velocity", *_speeds("tip", *_CHEETAH)),
        controls=_torques(*_CHEETAH),
    ),
}

# Environments whose states number the cells of a grid, row by row: how many columns there are.
GRID_COLUMNS = {
    **dict.fromkeys(("FrozenLake", "FrozenLake8x8"), lambda env: env.ncol),
    **dict.fromkeys(("CliffWalking", "CliffWalkingSlippery"), lambda env: env.shape[1]),
}
