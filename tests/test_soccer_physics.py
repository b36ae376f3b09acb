"""The physics of soccer against recorded games of the real server (15.2.2, noise off), and what noise may do."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.envs.soccer import physics
from asap.envs.soccer import vectors as constants
from asap.envs.soccer.physics import STILL, Ball, Command, PlayerNoise, Polar, World, no_noise, rested, step
from asap.envs.soccer.vectors import Vector

HERE = Path(__file__).parents[1]
TRACES = HERE / "tests" / "data" / "soccer" / "physics"


@pytest.fixture
def errors_of(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE / "bench"))
    from soccer_recordings import errors_of

    return errors_of


@pytest.mark.parametrize("name", sorted(path.stem for path in TRACES.glob("*.csv")))
def test_a_recording_is_replayed(name, errors_of):
    errors = errors_of(TRACES / f"{name}.csv")
    assert errors.metres < 1e-4 and errors.degrees < 1e-2 and errors.stamina < 1e-3


def test_a_wrong_number_in_a_recording_shows(tmp_path, errors_of):
    lines = (TRACES / "kick100_free_ball.csv").read_text().splitlines()
    cells = lines[5].split(",")
    place = lines[0].split(",").index("ball_x")
    cells[place] = str(float(cells[place]) + 0.01)
    lines[5] = ",".join(cells)
    (tmp_path / "moved.csv").write_text("\n".join(lines))
    assert errors_of(tmp_path / "moved.csv").metres == pytest.approx(0.01, rel=0.05)


def world(ball, ball_velocity=(0.0, 0.0)) -> World:
    number = jnp.float32
    player = rested(Vector(number(0), number(0)), number(0))
    return World(Ball(Vector(*map(number, ball)), Vector(*map(number, ball_velocity))), (player,))


def order(kind: int, power: float = 0.0) -> tuple[Command]:
    return (Command(jnp.int32(kind), jnp.float32(power), jnp.float32(0.0)),)


def test_a_tackler_is_frozen_and_a_catcher_banned():
    cycle = jax.jit(lambda world, orders: step(world, orders, no_noise(1)))
    now = cycle(world((1.0, 0.0)), order(physics.TACKLE))
    assert int(now.players[0].frozen) == constants.TACKLE_CYCLES
    after = cycle(now, order(physics.DASH, 100.0))
    assert float(after.players[0].position.x) == pytest.approx(float(now.players[0].position.x))
    assert int(cycle(world((9.0, 0.0)), order(physics.CATCH)).players[0].catch_ban) == constants.CATCH_BAN


def test_noise_stays_within_its_bounds():
    """A rolling ball leaves its path by at most 5 % of its speed, and does so."""
    rng = np.random.default_rng(0)

    def land(radius, angle):
        noise = no_noise(1)._replace(ball=Polar(radius, angle))
        return step(world((0.0, 10.0), (2.0, 0.0)), order(physics.NONE), noise).ball.position

    ends = jax.vmap(land)(jnp.asarray(rng.uniform(size=500)), jnp.asarray(rng.uniform(-1, 1, 500)))
    off = np.hypot(np.asarray(ends.x) - 2.0, np.asarray(ends.y) - 10.0)
    assert off.max() <= 0.05 * 2.0 + 1e-5 and 0.04 < off.mean() < 0.06


def test_the_error_of_a_kick_grows_with_the_speed_of_the_ball():
    """The ball touches the player in front: its place counts 1/2, its speed from 1/2 at rest to 1 at the fastest
    roll."""
    fastest, number = constants.BALL_SPEED_MAX * constants.BALL_DECAY, jnp.float32
    sideways = PlayerNoise(STILL, Polar(number(1), number(0.5)), number(0), number(1))
    for speed, factor in ((0.0, 1.0), (fastest, 1.5)):
        ball, (player,) = world((constants.TOUCHING, 0.0), (speed, 0.0))
        act = physics._act(player, order(physics.KICK, 50.0)[0])
        found = physics._struck(ball, player, act, sideways)
        np.testing.assert_allclose(found.y, constants.KICK_RAND * 0.5 * factor, rtol=1e-5)
        np.testing.assert_allclose(found.x, 50 * constants.KICK_POWER_RATE, rtol=1e-5)
