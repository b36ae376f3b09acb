"""Commands that look at an environment before anything is learned: `asap check`."""

import json
import shlex
import time
from typing import Any, NamedTuple

import numpy as np

from asap.base.errors import UserError
from asap.envs.gymnasium import determinism
from asap.envs.gymnasium.checked_env import CheckedEnv, EnvError
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.workers.failures import Recording, explained

TWICE = 3  # Episodes that are played twice.
MOST_SHOWN = 20


class RandomPlay(NamedTuple):
    """What episodes with random actions were like."""

    lengths: list[int]
    returns: list[float]
    terminated: int
    success: list[bool]
    low: np.ndarray  # Least and most of each observation.
    high: np.ndarray
    steps_per_second: float
    notes: tuple[str, ...]


def check_env(
    name: str,
    options: dict[str, Any],
    episodes: int,
    seed: int,
    replay: str | None,
    as_json: bool,
    rules: EnvLimits = EnvLimits(),
) -> None:
    """Prints what an environment looks like and how it behaves under random play; raises where it misbehaves.

    Episode i is reset with seed + i, so the seed that an error names is the one with which to see it again.
    """
    if replay is not None:
        return replay_failure(name, replay, as_json)
    if episodes < 1:
        raise UserError("--episodes", "must be at least 1", episodes)
    report = checked(EnvSource(name, options), rules, episodes, seed)
    print(json.dumps(report) if as_json else in_words(report))


def checked(source: EnvSource, rules: EnvLimits, episodes: int, seed: int) -> dict[str, Any]:
    from asap.envs.gymnasium.task import describe

    task = describe(source, rules)
    spec = task.spec
    seeds = [seed + number for number in range(episodes)]
    played = play_at_random(source, rules, seeds)
    bounds = zip(spec.observation_low, spec.observation_high)
    return {
        "env": source.name,
        "options": source.options,
        "observations": [
            {"name": each, "bounds": [_finite(low), _finite(high)], "seen": [float(least), float(most)]}
            for each, (low, high), least, most in zip(spec.observation_names, bounds, played.low, played.high)
        ],
        "actions": list(spec.action_names),
        "continuous": spec.continuous,
        "action_space": str(task.action_space),
        "horizon": spec.horizon,
        "reward_threshold": task.threshold,
        "episodes": episodes,
        "steps": sum(played.lengths),
        "steps_per_second": played.steps_per_second,
        "lengths": [min(played.lengths), max(played.lengths)],
        "returns": [min(played.returns), max(played.returns)],
        "terminated": played.terminated,
        "success": float(np.mean(played.success)) if played.success else None,
        "warnings": list(played.notes),
        "not_deterministic": determinism.check(lambda: CheckedEnv(source, rules), seeds[:TWICE]),
    }


def play_at_random(source: EnvSource, rules: EnvLimits, seeds: list[int]) -> RandomPlay:
    border = CheckedEnv(source, rules)
    lengths, returns, success, lows, highs, terminated = [], [], [], [], [], 0
    begun = time.perf_counter()
    for number, seed in enumerate(seeds):
        try:
            observations, rewards = _episode(border, seed)
        except EnvError as trouble:
            raise explained(trouble, f"episode {number}", seed, f"see it again with --seed {seed}") from trouble
        lengths.append(len(rewards))
        returns.append(float(np.sum(rewards)))
        terminated += border.terminated
        success += [] if border.success is None else [border.success]
        lows.append(np.min(observations, axis=0))
        highs.append(np.max(observations, axis=0))
    speed = sum(lengths) / (time.perf_counter() - begun)
    border.close()
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    return RandomPlay(lengths, returns, terminated, success, low, high, speed, border.take_notes())


def _episode(border: CheckedEnv, seed: int) -> tuple[list[np.ndarray], list[float]]:
    generator = np.random.default_rng(seed)
    observations, rewards, ended = [border.start(seed)], [], False
    while not ended:
        x, reward, ended = border.step(border.sample(generator))
        observations.append(x)
        rewards.append(reward)
    return observations, rewards


def replay_failure(name: str, path: str, as_json: bool) -> None:
    """Plays a recorded episode again. Raises what it then does wrong; prints that it did nothing wrong otherwise."""
    recording = Recording.load(path)
    if name != recording.env:
        cure = f"run: {shlex.join(['asap', 'check', recording.env, '--replay', path])}"
        raise UserError("--replay", f"was recorded in '{recording.env}'", f"'{name}'", cure)
    border = CheckedEnv(EnvSource(recording.env, recording.options), EnvLimits(**recording.rules))
    try:
        steps = _play_again(border, recording.seed, _actions(border, recording, path))
    except EnvError as trouble:
        is_same = f"{trouble.field}: {trouble.what}" == recording.error
        cure = "as recorded; --debug shows its traceback" if is_same else f"recorded was '{recording.error}'"
        raise explained(trouble, "the recorded episode", recording.seed, cure) from trouble
    finally:
        border.close()
    told = f"{name}: {steps} steps without the recorded '{recording.error}'; is the environment deterministic?"
    report = {"env": name, "replay": path, "again": False, "recorded": recording.error, "steps": steps}
    print(json.dumps(report) if as_json else told)


def _actions(border: CheckedEnv, recording: Recording, path: str) -> list[Any]:
    try:
        return [border.recorded(action) for action in recording.actions]
    except (ValueError, TypeError) as error:
        what = "has an action that the environment does not take"
        raise UserError("--replay", f"{what}: {error}", path, "pass a file that a failed run has written") from error


def _play_again(border: CheckedEnv, seed: int, actions: list[Any]) -> int:
    """How many steps there were, if nothing went wrong."""
    border.start(seed)
    for steps, action in enumerate(actions, 1):
        if border.step(action)[2]:
            return steps
    return len(actions)


def in_words(report: dict[str, Any]) -> str:
    kind = "controls" if report["continuous"] else "actions"
    actions, more = report["actions"][:MOST_SHOWN], len(report["actions"]) - MOST_SHOWN
    solved = (
        "" if report["reward_threshold"] is None else f", solved at a mean return of {report['reward_threshold']:g}"
    )
    ended = f"{report['terminated']} ended by themselves"
    success = "" if report["success"] is None else f", success {100 * report['success']:.0f} %"
    lines = [
        f"{report['env']}: observations: {len(report['observations'])}, {kind}: {len(report['actions'])}, "
        f"at most {report['horizon']} steps{solved}",
        *_table(report["observations"]),
        f"  {kind}: {', '.join(actions)}{f' and {more} more' if more > 0 else ''} ({report['action_space']})",
        f"  {report['episodes']} episodes at random: {_range(report['lengths'])} steps, return {_range(report['returns'])}, "
        f"{ended}{success}; {report['steps_per_second']:,.0f} steps/s",
        *(f"  warning: {warning}" for warning in report["warnings"]),
        f"  deterministic: {'yes' if report['not_deterministic'] is None else 'no: ' + report['not_deterministic']}",
    ]
    return "\n".join(lines)


def _table(observations: list[dict[str, Any]]) -> list[str]:
    rows = [("observation", "bounds", "seen")]
    rows += [(row["name"], _range(row["bounds"]), _range(row["seen"])) for row in observations[:MOST_SHOWN]]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"  {name:{first}}  {bounds:{second}}  {seen}" for name, bounds, seen in rows]
    return lines + ([f"  and {len(observations) - MOST_SHOWN} more"] if len(observations) > MOST_SHOWN else [])


def _range(ends: list[float | None]) -> str:
    low, high = (sign + "inf" if end is None else f"{end:.4g}" for end, sign in zip(ends, ("-", "")))
    return low if low == high else f"{low} to {high}"


def _finite(bound: float) -> float | None:
    """JSON has no infinity."""
    return float(bound) if np.isfinite(bound) else None
