"""The rooms: each map says the numbers of the design, walls stop, doors open, the goal pays and ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.keys import fold, root
from asap.base.types import Timestep
from asap.envs.catalog import NAMES, find
from asap.envs.rooms import FLIPPED_TWO_ROOMS, THREE_ROOMS, TWO_ROOMS, Position, Rooms, RoomsTask, read_map

UP, DOWN, RIGHT, LEFT = range(4)
TWO, FLIPPED, THREE = map(read_map, (TWO_ROOMS, FLIPPED_TWO_ROOMS, THREE_ROOMS))
MAPS = pytest.mark.parametrize("task", [TWO, FLIPPED, THREE], ids=["2R", "flipped 2R", "3R"])


@pytest.fixture(scope="module")
def move(compiled):
    """One step from a place, with the noise that is asked for."""
    transition = compiled(Rooms().transition)

    def step(
        task: RoomsTask, place: tuple[float, float], action: int, noise: tuple[float, float] = (0.0, 0.0)
    ) -> Timestep:
        noise, state = (Position(*map(jnp.float32, pair)) for pair in (noise, place))
        return jax.tree.map(float, transition(noise, state, jnp.int32(action), task))

    return step


# ---- The maps -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "task, walls, doors, goal, start",
    [
        (TWO, [0.5], [(0.7, 1.0)], (0.9, 0.1), ((0, 0), (0.5, 1))),
        (FLIPPED, [0.5], [(0.0, 0.3)], (0.9, 0.9), ((0, 0), (0.5, 1))),
        (THREE, [1 / 3, 2 / 3], [(0.7, 1.0), (0.0, 0.3)], (0.9, 0.9), ((0, 0), (1 / 3, 1))),
    ],
    ids=["2R", "flipped 2R", "3R"],
)
def test_each_map_says_the_numbers_of_the_design(task, walls, doors, goal, start):
    def same(found, expected):
        np.testing.assert_allclose(found, np.asarray(expected, np.float32), rtol=1e-6, atol=1e-7)

    same(task.walls, walls)
    same(np.stack([task.door_low, task.door_high], -1), doors)
    same(task.goal, goal)
    same(task.goal_half_width, 0.1)
    same(task.start_low, start[0])
    same(task.start_high, start[1])


def test_the_catalog_has_these_maps():
    for name, task in zip(NAMES, (TWO, FLIPPED, THREE)):
        np.testing.assert_equal(find(name).task._asdict(), task._asdict())


def test_the_rules_of_the_design():
    spec = Rooms().spec
    assert (spec.horizon, spec.discount) == (400, 0.99)
    assert spec.action_names == ("up", "down", "right", "left")
    assert spec.observation_names == ("x", "y", "goal x", "goal y")


def test_the_agent_sees_itself_and_the_goal():
    seen = Rooms().observe(Position(jnp.float32(0.2), jnp.float32(0.3)), THREE)
    np.testing.assert_allclose(seen, [0.2, 0.3, 0.9, 0.9], rtol=1e-6)


@MAPS
def test_the_descriptor_tells_goal_and_doors(task):
    heights = [task.goal[1], *(task.door_low + task.door_high) / 2]
    np.testing.assert_allclose(Rooms().descriptor(task), 2 * np.asarray(heights) - 1, rtol=1e-5, atol=1e-6)


# ---- Moves --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action, expected", [(UP, (0.2, 0.35)), (DOWN, (0.2, 0.25)), (RIGHT, (0.25, 0.3)), (LEFT, (0.15, 0.3))]
)
def test_a_move_is_five_hundredths(move, action, expected):
    after = move(TWO, (0.2, 0.3), action)
    np.testing.assert_allclose(after.state, expected, rtol=1e-5)
    assert after.reward == -1.0 and not after.terminated


def test_noise_is_added_on_both_axes(move):
    np.testing.assert_allclose(move(TWO, (0.2, 0.3), UP, (0.01, -0.02)).state, (0.21, 0.33), rtol=1e-5)


def test_noise_has_deviation_one_hundredth(compiled):
    draw = compiled(jax.vmap(lambda i: Rooms().noise(fold(root(0), i))))
    x, y = map(np.asarray, draw(jnp.arange(20_000)))
    np.testing.assert_allclose([x.std(), y.std()], 0.01, rtol=0.02)
    np.testing.assert_allclose([x.mean(), y.mean()], 0.0, atol=3e-4)
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.03


@pytest.mark.parametrize(
    "place, action", [((0.02, 0.5), LEFT), ((0.98, 0.5), RIGHT), ((0.2, 0.97), UP), ((0.2, 0.03), DOWN)]
)
def test_a_move_out_of_the_square_is_undone(move, place, action):
    after = move(TWO, place, action, (0.003, 0.003))  # The noise is undone with it.
    np.testing.assert_allclose(after.state, place, rtol=1e-6)
    assert after.reward == -1.0


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(
    "task, wall, y, is_open",
    [
        (TWO, 1 / 2, 0.69, False),
        (TWO, 1 / 2, 0.71, True),
        (TWO, 1 / 2, 0.99, True),
        (TWO, 1 / 2, 0.01, False),
        (FLIPPED, 1 / 2, 0.29, True),
        (FLIPPED, 1 / 2, 0.31, False),
        (THREE, 1 / 3, 0.71, True),
        (THREE, 1 / 3, 0.29, False),
        (THREE, 2 / 3, 0.71, False),
        (THREE, 2 / 3, 0.29, True),
        (THREE, 2 / 3, 0.31, False),
    ],
)
def test_walls_stop_except_at_their_door(move, task, wall, y, is_open, side):
    place = (wall + side * 0.02, y)
    after = move(task, place, LEFT if side > 0 else RIGHT, (0.0, 0.002))
    expected = (wall - side * 0.03, y + 0.002) if is_open else place
    np.testing.assert_allclose(after.state, expected, rtol=1e-5)


def test_what_counts_is_where_the_path_crosses_the_wall(move):
    """The door begins at 0.7: from below it, noise may carry the path over the edge before or after the wall."""
    early = move(TWO, (0.45, 0.695), RIGHT, (0.004, 0.02))  # At the wall y is 0.714.
    late = move(TWO, (0.496, 0.695), RIGHT, (0.004, 0.02))  # At the wall y is 0.696, beyond it 0.715.
    np.testing.assert_allclose(early.state, (0.504, 0.715), rtol=1e-5)
    np.testing.assert_allclose(late.state, (0.496, 0.695), rtol=1e-5)


def test_a_move_within_a_room_does_not_meet_the_wall(move):
    np.testing.assert_allclose(move(TWO, (0.49, 0.3), UP).state, (0.49, 0.35), rtol=1e-5)


# ---- The goal -----------------------------------------------------------------------------------------------------


@MAPS
@pytest.mark.parametrize("offset, reached", [((0.0, 0.0), True), ((-0.099, 0.05), True), ((-0.101, 0.0), False)])
def test_the_goal_is_a_square_that_pays_99_and_ends(move, task, offset, reached):
    """One step towards the middle costs 1 and earns 100."""
    toward = 1 if task.goal[1] < 0.5 else -1
    x, y = task.goal[0] + offset[0], task.goal[1] + toward * (offset[1] + 0.05)
    after = move(task, (x, y), DOWN if toward > 0 else UP)
    assert (after.reward, bool(after.terminated)) == ((99.0, True) if reached else (-1.0, False))


def test_the_goal_is_not_reached_from_beside_it(move):
    assert not move(TWO, (0.9, 0.26), DOWN).terminated  # y = 0.21
    assert move(TWO, (0.9, 0.24), DOWN).terminated  # y = 0.19


# ---- Starts -------------------------------------------------------------------------------------------------------


@MAPS
def test_starts_fill_the_left_room(compiled, task):
    places = compiled(jax.vmap(lambda i, task: Rooms().reset(fold(root(1), i), task), in_axes=(0, None)))
    x, y = map(np.asarray, places(jnp.arange(5000), task))
    assert (0 <= x).all() and (x < task.start_high[0]).all() and (0 <= y).all() and (y < 1).all()
    counts = np.histogram2d(x, y, bins=5, range=[[0, task.start_high[0]], [0, 1]])[0]
    assert (np.abs(counts - 200) < 4.5 * np.sqrt(200)).all()


# ---- The mirror ---------------------------------------------------------------------------------------------------


def test_the_flipped_task_is_the_mirror_image(move):
    """The same walk with up and down, and the noise in y, exchanged: every place, reward and end is the mirror's."""
    rng = np.random.default_rng(5)
    mirrored = {UP: DOWN, DOWN: UP, RIGHT: RIGHT, LEFT: LEFT}
    place, crossed, ends = (0.3, 0.6), False, 0
    image = (place[0], 1 - place[1])
    for _ in range(500):
        # Drawn to the door on the left, to the goal on the right: the walk meets walls, door and goal.
        drift = [0.35, 0.1, 0.45, 0.1] if place[0] < 0.5 else [0.1, 0.4, 0.4, 0.1]
        action = int(rng.choice(4, p=drift))
        noise = rng.normal(scale=0.01, size=2)
        after, reflected = (
            move(TWO, place, action, noise),
            move(FLIPPED, image, mirrored[action], (noise[0], -noise[1])),
        )
        np.testing.assert_allclose(reflected.state, (after.state[0], 1 - after.state[1]), atol=1e-5)
        assert (after.reward, after.terminated) == (reflected.reward, reflected.terminated)
        crossed |= (place[0] < 0.5) != (after.state[0] < 0.5)
        ends += bool(after.terminated)
        place = (0.2, float(rng.uniform())) if after.terminated else tuple(after.state)
        image = (place[0], 1 - place[1])
    assert crossed and ends > 3
