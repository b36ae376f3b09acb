"""Our named tasks in Gymnasium's registry. Entry points are strings, so that registering does not import JAX."""

import gymnasium

# Id, name in the catalog, time limit. A copy of what the catalog says (a test compares them): asking it imports JAX.
ENVIRONMENTS = (
    ("asap/TwoRooms-v0", "two-rooms", 400),
    ("asap/FlippedTwoRooms-v0", "flipped-two-rooms", 400),
    ("asap/ThreeRooms-v0", "three-rooms", 400),
)


def register() -> None:
    """Makes `gymnasium.make("asap/TwoRooms-v0")` work; a second call changes nothing."""
    for gymnasium_id, name, max_episode_steps in ENVIRONMENTS:
        if gymnasium_id not in gymnasium.registry:
            gymnasium.register(
                gymnasium_id,
                entry_point="asap.envs.gymnasium:TaskEnv",
                vector_entry_point="asap.envs.gymnasium_vector:TaskVectorEnv",
                max_episode_steps=max_episode_steps,
                kwargs={"name": name},
            )
