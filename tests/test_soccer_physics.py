"""The physics of soccer against recorded games of the real server (15.2.2, noise off), and what noise may do."""

import csv
import math
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.envs.soccer import constants, physics
from asap.envs.soccer.physics import Ball, Commands, World, no_noise, rested, step

TRACES = Path(__file__).parent / "data" / "soccer" / "physics"
SEQUENCES = sorted(path.stem for path in TRACES.glob("*.csv") if not path.stem.startswith("table_"))
KINDS = {"dash": physics.DASH, "turn": physics.TURN, "kick": physics.KICK, "tackle": physics.TACKLE, "catch": physics.CATCH}
NEAR, NEAR_STAMINA = 1e-4, 1e-3
SIX_DIGITS = 5e-6  # What is recorded of each number.


@pytest.fixture(autouse=True)
def double_precision():
    """The server computes in double precision; a caught ball depends on its last bit."""
    with jax.enable_x64(True):
        yield


def rows(name: str) -> list[dict[str, str]]:
    with open(TRACES / f"{name}.csv") as file:
        return list(csv.DictReader(file))


def world(ball, ball_velocity=(0.0, 0.0), player=(0.0, 0.0), velocity=(0.0, 0.0), body=0.0) -> World:
    players = rested(jnp.asarray([player], float), jnp.asarray([body], float))
    players = players._replace(velocity=jnp.asarray([velocity], float))
    return World(Ball(jnp.asarray(ball, float), jnp.asarray(ball_velocity, float)), players)


def command(text: str) -> Commands:
    """As the server reads it: `(dash POWER [DIR])`, `(turn M)`, `(kick POWER DIR)`, `(tackle A)`, `(catch D)`, in degrees."""
    words = re.findall(r"[^\s()]+", text or "")
    kind = KINDS[words[0]] if words else physics.NONE
    numbers = [float(word) for word in words[1:]]
    has_power = kind in (physics.DASH, physics.KICK)
    power = numbers.pop(0) if has_power else 0.0
    angle = math.radians(numbers[0]) if numbers else 0.0
    return Commands(jnp.asarray([kind]), jnp.asarray([power], float), jnp.asarray([angle], float))


@pytest.fixture(scope="module")
def cycle():
    return jax.jit(lambda world, commands: step(world, commands, no_noise(1)))


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_recorded_sequence_is_replayed(name, cycle):
    start, *recorded = rows(name)
    ball, ball_velocity, player, velocity = (
        (float(start[x]), float(start[y])) for x, y in (("ball_x", "ball_y"), ("ball_vx", "ball_vy"), ("p_x", "p_y"), ("p_vx", "p_vy"))
    )
    now = world(ball, ball_velocity, player, velocity, math.radians(float(start["p_body_deg"])))
    for row in recorded:
        now = cycle(now, command(row["cmd"]))
        ours = [*now.ball.position, *now.ball.velocity, *now.players.position[0], *now.players.velocity[0]]
        theirs = [float(row[key]) for key in ("ball_x", "ball_y", "ball_vx", "ball_vy", "p_x", "p_y", "p_vx", "p_vy")]
        np.testing.assert_allclose(ours, theirs, rtol=SIX_DIGITS, atol=NEAR, err_msg=f"cycle {row['cycle']}: {row['cmd']}")
        turned = physics.wrapped(now.players.body[0] - math.radians(float(row["p_body_deg"])))
        assert abs(math.degrees(turned)) < 1e-2
        breath = [float(leaf[0]) for leaf in (now.players.stamina, now.players.effort, now.players.recovery)]
        wanted = [float(row[key]) for key in ("stamina", "effort", "recovery")]
        np.testing.assert_allclose(breath, wanted, rtol=0, atol=NEAR_STAMINA, err_msg=f"cycle {row['cycle']}")
        assert abs(float(now.players.capacity[0]) - float(row["capacity"])) < 0.6  # Recorded with six digits.


def one_cycle(cycle, text: str, **start) -> World:
    return cycle(world(**start), command(text))


def test_the_table_of_dashes(cycle):
    for row in rows("table_dash_one_step"):
        after = one_cycle(
            cycle,
            f"(dash {row['power']} {row['dash_dir_deg']})",
            ball=(30.0, 30.0),
            player=(0.0, 5.0),
            velocity=(float(row["vx0"]), 0.0),
            body=math.radians(20.0),
        ).players
        ours = [*after.position[0], *after.velocity[0]]
        np.testing.assert_allclose(ours, [float(row[k]) for k in ("x1", "y1", "vx1", "vy1")], rtol=0, atol=NEAR, err_msg=str(row))
        assert abs(float(after.stamina[0]) - float(row["stamina1"])) < NEAR_STAMINA


def test_the_table_of_kicks(cycle):
    for row in rows("table_kick_one_step"):
        after = one_cycle(cycle, f"(kick {row['power']} {row['kick_dir_deg']})", ball=(float(row["ball_x0"]), float(row["ball_y0"]))).ball
        ours, theirs = [*after.position, *after.velocity], [float(row[k]) for k in ("ball_x1", "ball_y1", "ball_vx1", "ball_vy1")]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=NEAR, err_msg=str(row))


def test_the_table_of_tackles(cycle):
    for row in rows("table_tackle_one_step"):
        start = {"ball": (10 + float(row["ball_relx0"]), float(row["ball_rely0"])), "player": (10.0, 0.0)}
        after = one_cycle(cycle, f"(tackle {row['tackle_dir_deg']})", **start).ball
        ours = [*(after.position - jnp.asarray([10.0, 0.0])), *after.velocity]
        theirs = [float(row[k]) for k in ("ball_relx1", "ball_rely1", "ball_vx1", "ball_vy1")]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=NEAR, err_msg=str(row))


def test_the_table_of_turns(cycle):
    for row in rows("table_turn_one_step"):
        after = one_cycle(cycle, f"(turn {row['moment_deg']})", ball=(30.0, 30.0), velocity=(float(row["speed0"]), 0.0)).players
        off = physics.wrapped(after.body[0] - math.radians(float(row["body1_deg"])))
        assert abs(math.degrees(off)) < 1e-2, row


def test_a_tackler_is_frozen_and_a_catcher_banned(cycle):
    now = one_cycle(cycle, "(tackle 0)", ball=(1.0, 0.0))
    assert now.players.frozen.tolist() == [constants.TACKLE_CYCLES]
    after = cycle(now, command("(dash 100)"))
    assert float(after.players.position[0, 0]) == pytest.approx(float(now.players.position[0, 0]))
    assert one_cycle(cycle, "(catch 0)", ball=(9.0, 0.0)).players.catch_ban.tolist() == [constants.CATCH_BAN]


def test_noise_stays_within_its_bounds():
    """A rolling ball leaves its path by at most 5 % of its speed, and does so."""
    rng = np.random.default_rng(0)

    def land(radius, angle):
        noise = no_noise(1)._replace(ball=jnp.stack([radius, angle]), scale=jnp.ones(()))
        return step(world((0.0, 10.0), (2.0, 0.0)), command(""), noise).ball.position

    ends = jax.vmap(land)(jnp.asarray(rng.uniform(size=500)), jnp.asarray(rng.uniform(-1, 1, 500)))
    off = np.linalg.norm(np.asarray(ends) - [2.0, 10.0], axis=-1)
    assert off.max() <= 0.05 * 2.0 + 1e-9 and 0.04 < off.mean() < 0.06
