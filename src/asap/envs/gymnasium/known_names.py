"""What the numbers of Gymnasium's own environments mean, from their documentation; they do not say it themselves."""

from typing import NamedTuple


class KnownNames(NamedTuple):
    """Of one environment; what has no names of its own is numbered."""

    observations: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()  # To choose from.
    controls: tuple[str, ...] = ()  # To set.


# By the id without its version.
KNOWN = {
    "CartPole": KnownNames(
        observations=("cart position", "cart velocity", "pole angle", "pole angular velocity"),
        actions=("push left", "push right"),
    ),
    "MountainCar": KnownNames(
        observations=("position", "velocity"), actions=("accelerate left", "do not accelerate", "accelerate right")
    ),
    "MountainCarContinuous": KnownNames(observations=("position", "velocity"), controls=("force",)),
    "Acrobot": KnownNames(
        observations=(
            "cos angle 1",
            "sin angle 1",
            "cos angle 2",
            "sin angle 2",
            "angular velocity 1",
            "angular velocity 2",
        ),
        actions=("torque -1", "torque 0", "torque 1"),
    ),
    "Pendulum": KnownNames(observations=("cos angle", "sin angle", "angular velocity"), controls=("torque",)),
    "LunarLander": KnownNames(
        observations=(
            "x",
            "y",
            "x velocity",
            "y velocity",
            "angle",
            "angular velocity",
            "left leg contact",
            "right leg contact",
        ),
        actions=("do nothing", "fire left engine", "fire main engine", "fire right engine"),
        controls=("main engine", "side engines"),
    ),
    "LunarLanderContinuous": KnownNames(
        observations=(
            "x",
            "y",
            "x velocity",
            "y velocity",
            "angle",
            "angular velocity",
            "left leg contact",
            "right leg contact",
        ),
        controls=("main engine", "side engines"),
    ),
    "BipedalWalker": KnownNames(
        observations=(
            "hull angle",
            "hull angular velocity",
            "x velocity",
            "y velocity",
            "hip 1 angle",
            "hip 1 angular velocity",
            "knee 1 angle",
            "knee 1 angular velocity",
            "leg 1 contact",
            "hip 2 angle",
            "hip 2 angular velocity",
            "knee 2 angle",
            "knee 2 angular velocity",
            "leg 2 contact",
            "lidar 0",
            "lidar 1",
            "lidar 2",
            "lidar 3",
            "lidar 4",
            "lidar 5",
            "lidar 6",
            "lidar 7",
            "lidar 8",
            "lidar 9",
        ),
        controls=("hip 1 torque", "knee 1 torque", "hip 2 torque", "knee 2 torque"),
    ),
    "FrozenLake": KnownNames(actions=("left", "down", "right", "up")),
    "FrozenLake8x8": KnownNames(actions=("left", "down", "right", "up")),
    "CliffWalking": KnownNames(actions=("up", "right", "down", "left")),
    "CliffWalkingSlippery": KnownNames(actions=("up", "right", "down", "left")),
    "Taxi": KnownNames(actions=("south", "north", "east", "west", "pick up", "drop off")),
    "Blackjack": KnownNames(actions=("stick", "hit")),
    "InvertedPendulum": KnownNames(
        observations=("cart position", "pole angle", "cart velocity", "pole angular velocity"), controls=("cart force",)
    ),
    "InvertedDoublePendulum": KnownNames(
        observations=(
            "cart position",
            "sin angle 1",
            "sin angle 2",
            "cos angle 1",
            "cos angle 2",
            "cart velocity",
            "angular velocity 1",
            "angular velocity 2",
            "constraint force",
        ),
        controls=("cart force",),
    ),
    "Reacher": KnownNames(
        observations=(
            "cos angle 1",
            "cos angle 2",
            "sin angle 1",
            "sin angle 2",
            "target x",
            "target y",
            "angular velocity 1",
            "angular velocity 2",
            "fingertip x - target x",
            "fingertip y - target y",
        ),
        controls=("torque 1", "torque 2"),
    ),
    "Swimmer": KnownNames(
        observations=(
            "tip angle",
            "first rotor angle",
            "second rotor angle",
            "tip x velocity",
            "tip y velocity",
            "tip angular velocity",
            "first rotor angular velocity",
            "second rotor angular velocity",
        ),
        controls=("first rotor torque", "second rotor torque"),
    ),
    "Hopper": KnownNames(
        observations=(
            "height",
            "torso angle",
            "thigh angle",
            "leg angle",
            "foot angle",
            "x velocity",
            "z velocity",
            "torso angular velocity",
            "thigh angular velocity",
            "leg angular velocity",
            "foot angular velocity",
        ),
        controls=("thigh torque", "leg torque", "foot torque"),
    ),
    "Walker2d": KnownNames(
        observations=(
            "height",
            "torso angle",
            "thigh angle",
            "leg angle",
            "foot angle",
            "left thigh angle",
            "left leg angle",
            "left foot angle",
            "x velocity",
            "z velocity",
            "torso angular velocity",
            "thigh angular velocity",
            "leg angular velocity",
            "foot angular velocity",
            "left thigh angular velocity",
            "left leg angular velocity",
            "left foot angular velocity",
        ),
        controls=(
            "thigh torque",
            "leg torque",
            "foot torque",
            "left thigh torque",
            "left leg torque",
            "left foot torque",
        ),
    ),
    "HalfCheetah": KnownNames(
        observations=(
            "height",
            "tip angle",
            "back thigh angle",
            "back shin angle",
            "back foot angle",
            "front thigh angle",
            "front shin angle",
            "front foot angle",
            "x velocity",
            "z velocity",
            "tip angular velocity",
            "back thigh angular velocity",
            "back shin angular velocity",
            "back foot angular velocity",
            "front thigh angular velocity",
            "front shin angular velocity",
            "front foot angular velocity",
        ),
        controls=(
            "back thigh torque",
            "back shin torque",
            "back foot torque",
            "front thigh torque",
            "front shin torque",
            "front foot torque",
        ),
    ),
}

# Environments whose states number the cells of a grid, row by row: how many columns there are.
GRID_COLUMNS = {
    **dict.fromkeys(("FrozenLake", "FrozenLake8x8"), lambda env: env.ncol),
    **dict.fromkeys(("CliffWalking", "CliffWalkingSlippery"), lambda env: env.shape[1]),
}
