"""Recorded games of the real server, without noise, replayed by our physics: how far apart do they get?

A sequence has one row per cycle with the command that led to it; a table has one row per one-cycle experiment. The
server computes in double precision, and whether a caught ball touches its catcher hangs on the last bit: so does the
replay.
"""

import csv
import functools
import math
import re
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from asap.base.errors import UserError
from asap.envs.soccer import physics
from asap.envs.soccer.physics import Ball, Command, World, no_noise, rested
from asap.envs.soccer.vectors import Vector, wrapped

KINDS = {
    "dash": physics.DASH,
    "turn": physics.TURN,
    "kick": physics.KICK,
    "tackle": physics.TACKLE,
    "catch": physics.CATCH,
}
SIX_DIGITS = 5e-6  # What is recorded of each number, relative to it.


class Errors(NamedTuple):
    """Largest differences: of positions and velocities in m, of the body in degrees, of the stamina in its units."""

    metres: float
    degrees: float
    stamina: float


class _Row(NamedTuple):
    """A state at the start of a cycle, the command given in it, and what the record says of its end."""

    start: dict[str, float]
    command: str
    end: dict[str, float]


def errors_of(path: str | Path) -> Errors:
    """Replays one recording."""
    path = Path(path)
    with open(path) as file:
        rows = list(csv.DictReader(file))
    with jax.enable_x64(True):
        if not path.stem.startswith("table_"):
            return _sequence(rows)
        for kind, read in _TABLES.items():
            if kind in path.stem:
                return _worst(
                    [
                        _compare(_cycle()(_world(row.start), (_command(row.command),)), row.end)
                        for row in map(read, rows)
                    ]
                )
    raise UserError("recording", "is a table of no kind that is known", path.name, f"known are {', '.join(_TABLES)}")


@functools.cache
def _cycle():
    return jax.jit(lambda world, commands: physics.step(world, commands, no_noise(1)))


def _sequence(rows: list[dict[str, str]]) -> Errors:
    numbers = [{key: float(value) for key, value in row.items() if key != "cmd" and value} for row in rows]
    now, errors = _world(numbers[0]), []
    for row, recorded in zip(rows[1:], numbers[1:]):
        now = _cycle()(now, (_command(row["cmd"]),))
        errors.append(_compare(now, recorded))
    return _worst(errors)


def _worst(errors: list[Errors]) -> Errors:
    return Errors(*(max(column) for column in zip(*errors)))


def _world(row: dict[str, float]) -> World:
    def vector(x: str, y: str) -> Vector:
        return Vector(jnp.float64(row.get(x, 0.0)), jnp.float64(row.get(y, 0.0)))

    player = rested(vector("p_x", "p_y"), jnp.float64(math.radians(row.get("p_body_deg", 0.0))))
    player = player._replace(velocity=vector("p_vx", "p_vy"))
    return World(Ball(vector("ball_x", "ball_y"), vector("ball_vx", "ball_vy")), (player,))


def _command(text: str) -> Command:
    """As the server reads it: `(dash POWER [DIR])`, `(turn M)`, `(kick POWER DIR)`, `(tackle A)`, `(catch D)`, in
    degrees."""
    words = re.findall(r"[^\s()]+", text or "")
    kind = KINDS[words[0]] if words else physics.NONE
    numbers = [float(word) for word in words[1:]]
    power = numbers.pop(0) if kind in (physics.DASH, physics.KICK) else 0.0
    angle = math.radians(numbers[0]) if numbers else 0.0
    return Command(jnp.int32(kind), jnp.float64(power), jnp.float64(angle))


def _compare(world: World, recorded: dict[str, float]) -> Errors:
    ball, player = world.ball, world.players[0]
    ours = {
        **{
            "ball_x": ball.position.x,
            "ball_y": ball.position.y,
            "ball_vx": ball.velocity.x,
            "ball_vy": ball.velocity.y,
        },
        **{"p_x": player.position.x, "p_y": player.position.y, "p_vx": player.velocity.x, "p_vy": player.velocity.y},
    }

    def beyond(name: str, value) -> float:
        """What is left of the difference when the record's rounding is taken off."""
        return max(0.0, abs(float(value) - recorded[name]) - SIX_DIGITS * abs(recorded[name]))

    turned = float(wrapped(player.body - math.radians(recorded["p_body_deg"]))) if "p_body_deg" in recorded else 0.0
    breath = {
        "stamina": player.stamina,
        "effort": player.effort,
        "recovery": player.recovery,
        "capacity": player.capacity,
    }
    return Errors(
        metres=max((beyond(name, value) for name, value in ours.items() if name in recorded), default=0.0),
        degrees=abs(math.degrees(turned)),
        stamina=max((beyond(name, value) for name, value in breath.items() if name in recorded), default=0.0),
    )


# ---- Tables of one-cycle experiments, each with a set-up of its own -------------------------------------------------


def _dash_row(row: dict[str, str]) -> _Row:
    start = {"ball_x": 30.0, "ball_y": 30.0, "p_y": 5.0, "p_vx": float(row["vx0"]), "p_body_deg": 20.0}
    end = {"p_x": "x1", "p_y": "y1", "p_vx": "vx1", "p_vy": "vy1", "stamina": "stamina1"}
    return _Row(
        start, f"(dash {row['power']} {row['dash_dir_deg']})", {ours: float(row[name]) for ours, name in end.items()}
    )


def _kick_row(row: dict[str, str]) -> _Row:
    start = {"ball_x": float(row["ball_x0"]), "ball_y": float(row["ball_y0"])}
    end = {name: float(row[f"{name}1"]) for name in ("ball_x", "ball_y", "ball_vx", "ball_vy")}
    return _Row(start, f"(kick {row['power']} {row['kick_dir_deg']})", end)


def _tackle_row(row: dict[str, str]) -> _Row:
    start = {"ball_x": float(row["ball_relx0"]), "ball_y": float(row["ball_rely0"])}
    end = {"ball_x": "ball_relx1", "ball_y": "ball_rely1", "ball_vx": "ball_vx1", "ball_vy": "ball_vy1"}
    return _Row(start, f"(tackle {row['tackle_dir_deg']})", {ours: float(row[name]) for ours, name in end.items()})


def _turn_row(row: dict[str, str]) -> _Row:
    start = {"ball_x": 30.0, "ball_y": 30.0, "p_vx": float(row["speed0"])}
    return _Row(start, f"(turn {row['moment_deg']})", {"p_body_deg": float(row["body1_deg"])})


_TABLES = {"dash": _dash_row, "kick": _kick_row, "tackle": _tackle_row, "turn": _turn_row}
