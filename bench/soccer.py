"""Our soccer beside the real one (rcssserver 15.2.2 with HFO), and how fast it plays.

rates      goals per episode of fixed strikers, beside those measured with the real programs under noisy perception;
games      how a game goes (dist:12, perfect sight), beside recorded games of the real programs, from the same starts;
speed      cycles per second of training rollouts on R1: policy, players, physics, referee;
traces     only with --traces DIR: recordings of the server without noise, replayed; the largest differences.
"""

import argparse
import csv
import json
import math
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from soccer_recordings import errors_of

from asap.base.arrays import compiled
from asap.base.keys import Key, fold, root, uniforms
from asap.base.stats import wilson_interval
from asap.compose import compose
from asap.envs import catalog
from asap.envs.controllers import shoot_within, shooting_distance
from asap.envs.core import CompiledTasks
from asap.envs.soccer.half_field import Match, Striker, StrikerTask, in_metres
from asap.envs.soccer.physics import World
from asap.envs.soccer.striker import HAS_BALL
from asap.envs.soccer.vectors import Vector
from asap.experience.episode_logs import LoggedEpisodes, play_logged
from asap.experience.rollout import play_window, start_lanes
from asap.learn.state import drawn_policy

# Measured with the real programs: HFO, opponents "base", noisy perception, default options, 300 episodes each (R1
# dist:12: 1,000). The distance is that of the ball from the goal's centre.
REAL = {
    "striker-r1": {
        "dist:8": 0.713,
        "dist:10": 0.897,
        "dist:12": 0.930,
        "dist:14": 0.863,
        "dist:16": 0.770,
        "dist:18": 0.487,
    }
    | {"always-dribble": 0.213, "always-shoot": 0.0},
    "striker-r2": {"dist:10": 0.520, "dist:12": 0.517, "dist:14": 0.527},
    "striker-r3": {"dist:10": 0.217, "dist:12": 0.183, "dist:14": 0.183},
}
RECORDINGS = Path(__file__).parents[1] / "tests" / "data" / "soccer" / "hfo"
RECORDED = {"striker-r1": "hfo_1v1.csv", "striker-r2": "hfo_1v2.csv"}
SHOOTS_WITHIN = 12.0  # The controller of the recorded games.
AT_ONCE = 500
LANES, WINDOW, ROUNDS = 2048, 64, 5


class Game(NamedTuple):
    """One episode in metres, a row per cycle."""

    striker: np.ndarray
    ball: np.ndarray
    goalkeeper: np.ndarray

    @property
    def has_ball(self) -> np.ndarray:
        return np.hypot(*(self.ball - self.striker).T) <= HAS_BALL

    @property
    def to_goal(self) -> np.ndarray:
        return np.hypot(52.5 - self.ball[:, 0], self.ball[:, 1])


def main() -> None:
    options = parse()
    report: dict = {}
    if options.traces:
        report["traces"] = {path.stem: errors_of(path)._asdict() for path in sorted(Path(options.traces).glob("*.csv"))}
    else:
        report["rates"] = {task: rates(task, options.episodes, options.seed) for task in REAL}
        errors = [row["error"] for row in report["rates"]["striker-r1"].values()]
        report["r1_mean_absolute_error"] = float(np.mean(np.abs(errors)))
        report["games"] = {task: compare_games(task, options.seed) for task in RECORDED}
        report["r1_cycles_per_second"] = rollout_speed()
    print(json.dumps(report) if options.json else in_words(report))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line, no table")
    parser.add_argument(
        "--episodes", type=int, default=2000, metavar="N", help="episodes of every striker (default: 2000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the episodes")
    parser.add_argument("--traces", metavar="DIR", help="replay the recordings in this folder, and nothing else")
    return parser.parse_args()


def player(tasks: CompiledTasks) -> Callable[[Key, jax.Array, float], LoggedEpisodes]:
    """Plays the episodes of some ids by a striker that shoots within a distance; one program for all distances."""
    return compiled(lambda key, ids, distance: play_logged(tasks, shoot_within(distance), key, ids))


def rates(task: str, episodes: int, seed: int) -> dict[str, dict]:
    play = player(catalog.task_set(((task, 1.0),)))
    table = {}
    for name, real in REAL[task].items():
        goals = 0
        for first in range(0, episodes, AT_ONCE):
            played = play(root(seed), first + jnp.arange(AT_ONCE), jnp.float32(shooting_distance(name)))
            goals += int(np.asarray(played.success)[: episodes - first].sum())
        low, high = wilson_interval(goals, episodes)
        table[name] = {"real": real, "ours": goals / episodes, "ci": [low, high], "error": goals / episodes - real}
    return table


# ---- Recorded games -------------------------------------------------------------------------------------------------


def compare_games(task: str, seed: int) -> dict[str, dict]:
    theirs, ours = statistics(recorded_games(task)), statistics(our_games(task, seed))
    return {name: {"recorded": theirs[name], "ours": ours[name], "ratio": ours[name] / theirs[name]} for name in theirs}


def recorded_rows(task: str) -> list[list[dict]]:
    """The cycles of each recorded game."""
    with open(RECORDINGS / RECORDED[task]) as file:
        rows = list(csv.DictReader(file))[1:]  # The first is from before the start.
    return [[row for row in group if row["goalie_x"]] for _, group in groupby(rows, lambda row: row["episode"])]


def places(rows: list[dict], who: str) -> np.ndarray:
    return np.asarray([[float(row[f"{who}{axis}"]) for axis in "xy"] for row in rows])


def recorded_games(task: str) -> list[Game]:
    return [Game(places(rows, ""), places(rows, "ball_"), places(rows, "goalie_")) for rows in recorded_rows(task)]


class Restarted(Striker):
    """Games that start, by chance, as one of the recorded ones did: where the ball starts moves all that is
    measured."""

    ball: np.ndarray
    players: np.ndarray  # (players, games, 2)
    striker_body: np.ndarray

    def __init__(self, env: Striker, task: str):
        super().__init__(env.num_defenders)
        starts = [rows[0] for rows in recorded_rows(task)]
        who = ("", "goalie_", *(f"def{2 + i}_" for i in range(env.num_defenders)))
        self.ball = places(starts, "ball_").astype(np.float32)
        self.players = np.stack([places(starts, each) for each in who]).astype(np.float32)
        self.striker_body = np.radians([float(row["body_deg"]) for row in starts]).astype(np.float32)

    def reset(self, key: Key, task: StrikerTask) -> Match:
        match = super().reset(key, task)
        which = (uniforms(fold(key, 1))[0] * len(self.ball)).astype(jnp.int32)
        ball, players = jnp.asarray(self.ball)[which], jnp.asarray(self.players)[:, which]
        moved = [player._replace(position=Vector(*place)) for player, place in zip(match.world.players, players)]
        moved[0] = moved[0]._replace(body=jnp.asarray(self.striker_body)[which])
        return match._replace(world=World(match.world.ball._replace(position=Vector(*ball)), tuple(moved)))


def our_games(task: str, seed: int) -> Iterator[Game]:
    """The same striker from the same starts with perfect sight, as in the recordings."""
    named = catalog.find(task)
    tasks = CompiledTasks.of(Restarted(named.env, task), {task: named.task._replace(perception=np.float32(0.0))})
    played = jax.tree.map(np.asarray, player(tasks)(root(seed), jnp.arange(AT_ONCE), jnp.float32(SHOOTS_WITHIN)))
    for lane, length in enumerate(played.lengths):
        numbers = played.observation[:, :length, lane]
        yield Game(*(np.stack(in_metres(Vector(numbers[i], numbers[i + 1])), -1) for i in (0, 2, 4)))


def statistics(games: list[Game] | Iterator[Game]) -> dict[str, float]:
    """Means over games: cycles to the first touch, metres towards the goal per cycle from there to the first shot,
    metres that the ball makes in the first cycle of a shot, and metres that the goalkeeper is off its line y until
    then."""
    touch, gain, shot, off = [], [], [], []
    for game in games:
        touches = np.flatnonzero(game.has_ball)
        if not len(touches):
            continue
        touch.append(touches[0])
        shots = touches[game.to_goal[touches] < SHOOTS_WITHIN]
        end = shots[0] if len(shots) else len(game.ball)
        off.append(np.abs(game.goalkeeper[:end, 1] - line_y(game.ball[:end])).mean())
        if len(shots) and shots[0] > touches[0]:
            gain.append((game.to_goal[touches[0]] - game.to_goal[shots[0]]) / (shots[0] - touches[0]))
        # A shot may be prepared by kicks that keep the ball; the one that counts lets it go.
        final = [cycle for cycle in shots if cycle + 1 < len(game.ball) and not game.has_ball[cycle + 1]]
        if final:
            shot.append(np.hypot(*(game.ball[final[0] + 1] - game.ball[final[0]])))
    names = ("cycles_to_first_touch", "metres_per_dribble_cycle", "first_shot_displacement", "goalkeeper_off_its_line")
    return dict(zip(names, (float(np.mean(values)) for values in (touch, gain, shot, off))))


def line_y(ball: np.ndarray) -> np.ndarray:
    """Where the line from the ball to 7 m behind the goal crosses x = 49.8: the goalkeeper's place."""
    return np.clip(ball[:, 1] * (59.5 - 49.8) / np.maximum(59.5 - ball[:, 0], 1.0), -6.51, 6.51)


# ---- Speed ----------------------------------------------------------------------------------------------------------


def rollout_speed() -> float:
    """Cycles per second of `play_window`, what every update of the actor-critic family begins with; the best of
    some."""
    config, named = compose(["striker-r1"], {})
    tasks = catalog.task_set((("striker-r1", 1.0),))
    policy = jax.tree.map(jnp.asarray, drawn_policy(config, named, 0))
    play = compiled(lambda policy, lanes, key: play_window(policy, tasks, lanes, key, WINDOW))
    lanes = compiled(lambda key: start_lanes(tasks, key, jnp.arange(LANES)))(root(0))
    lanes, *_ = jax.block_until_ready(play(policy, lanes, root(1)))
    best = math.inf
    for number in range(ROUNDS):
        began = time.perf_counter()
        lanes, *_ = jax.block_until_ready(play(policy, lanes, fold(root(1), number)))
        best = min(best, time.perf_counter() - began)
    return LANES * WINDOW / best


def in_words(report: dict) -> str:
    lines = []
    for task, table in report.get("rates", {}).items():
        lines += [
            f"{task:<12} {name:<15} real {row['real']:.3f}  ours {row['ours']:.3f}  {row['error']:+.3f}"
            for name, row in table.items()
        ]
    if "r1_mean_absolute_error" in report:
        lines.append(f"mean absolute error on R1: {report['r1_mean_absolute_error']:.3f}")
    for task, table in report.get("games", {}).items():
        lines += [
            f"{task:<12} {name:<26} recorded {row['recorded']:7.3f}  ours {row['ours']:7.3f}  ratio {row['ratio']:.2f}"
            for name, row in table.items()
        ]
    if "r1_cycles_per_second" in report:
        lines.append(f"R1 training rollouts: {report['r1_cycles_per_second']:,.0f} cycles per second")
    for name, errors in report.get("traces", {}).items():
        lines.append(
            f"{name:<40} {errors['metres']:.1e} m  {errors['degrees']:.1e} deg  {errors['stamina']:.1e} stamina"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
