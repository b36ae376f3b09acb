"""`asap check`, which plays before anything is learned."""

import math
import shlex
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asap.base.errors import UserError
from asap.cli.app import Debug, EnvOptions, Json, app, require_writable_place, tell

if TYPE_CHECKING:
    from asap.envs.gymnasium.checked_env import CheckedEnv
    from asap.envs.gymnasium.make import EnvLimits, EnvSource
    from asap.workers.failures import Recording

_RULES = "Read and play these rules: what they return, which cases are used or missing, and a picture."
TWICE = 3  # Episodes that are played twice.
MOST_SHOWN = 20


@app.command()
def check(
    env: Annotated[
        str, typer.Argument(metavar="ENV", help="A Gymnasium id, an importable module:function, or a task of ours.")
    ],
    episodes: Annotated[int, typer.Option(help="Episodes of random play.")] = 10,
    seed: Annotated[int, typer.Option(help="What the first episode is reset with.")] = 0,
    replay: Annotated[str | None, typer.Option(metavar="FILE", help="Play a recorded failure again.")] = None,
    rules: Annotated[str | None, typer.Option(metavar="FILE", help=_RULES)] = None,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --rules: the picture; default: FILE.png of the rules.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting of env.; see `asap settings`.")
    ] = None,
    env_options: EnvOptions = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Check an environment under random play: spaces, ranges, speed, and determinism under a seed.

    With --rules, check rules on it before learning from them.
    """
    from asap.config.schema import Config
    from asap.config.settings import override
    from asap.config.toml import parse_settings
    from asap.envs.gymnasium.registration import IDS
    from asap.envs.resolve import limits_of, options_of

    if rules is not None:
        return check_rules_on(env, rules, episodes, seed, out, set_ or [], env_options, json_)
    said = {} if env_options is None else {"env.options": env_options}
    settings = override(Config(), {**parse_settings(Config, set_ or []), **said}).env
    check_env(IDS.get(env, env), options_of(settings), episodes, seed, replay, json_, limits_of(settings))


def check_rules_on(
    env: str, path: str, episodes: int, seed: int, out: str | None, set_: list[str], options: str | None, as_json: bool
) -> None:
    """Plays rules on an environment or a task of ours, and draws them."""
    from pathlib import Path

    from asap.base.episodes import require_episodes, require_seed
    from asap.base.files import saving
    from asap.config.schema import Config
    from asap.config.toml import parse_settings
    from asap.model.model import ASAP
    from asap.model.rules import check_rules, rules_in_words

    require_episodes("--episodes", episodes)
    require_seed("--seed", seed)
    if out is not None:
        require_writable_place(out)
    said = {} if options is None else {"env.options": options}
    model = ASAP(env, rules=Path(path), settings={**parse_settings(Config, set_), **said})
    report = check_rules(model, episodes, seed)
    picture = Path(path).with_suffix(".png") if out is None else Path(out)
    with saving(picture, "picture", "or choose another place by --out") as file:
        model.plot(title=f"{env}, {Path(path).name}").savefig(file, format="png", dpi=150)
    tell(as_json, {**report, "picture": str(picture)}, f"{rules_in_words(report, path)}\npicture      {picture}")


def check_env(
    name: str,
    options: dict[str, Any],
    episodes: int,
    seed: int,
    replay: str | None,
    as_json: bool,
    limits: "EnvLimits | None" = None,
) -> None:
    """Prints what an environment looks like and how it behaves under random play; raises where it misbehaves.

    Episode i is reset with seed + i, so the seed that an error names is the one with which to see it again.
    """
    from asap.base.episodes import require_episodes, require_seed
    from asap.envs.gymnasium import determinism
    from asap.envs.gymnasium.checked_env import CheckedEnv
    from asap.envs.gymnasium.difference import difference
    from asap.envs.gymnasium.limits import EnvLimits
    from asap.envs.gymnasium.make import EnvSource, HostedSource
    from asap.envs.gymnasium.task import describe
    from asap.envs.resolve import canonical
    from asap.workers.vector_check import why_not

    source, limits = EnvSource(canonical(name), options), limits or EnvLimits()
    if replay is not None:
        return _replay(source, replay, as_json)
    require_episodes("--episodes", episodes)
    require_seed("--seed", seed)
    task, seeds = describe(source, limits), range(seed, seed + episodes)
    spec, (played, seen, notes) = task.spec, _play_at_random(source, limits, seeds)
    bounds = zip(spec.observation_names, spec.observation_low, spec.observation_high, seen)
    observations = [
        {"name": each, "bounds": [_finite(low), _finite(high)], "seen": ends} for each, low, high, ends in bounds
    ]
    report = {"env": name, "options": options, "observations": observations, "actions": list(spec.action_names)}
    report |= {"continuous": spec.continuous, "action_space": str(task.action_space), "horizon": spec.horizon}
    report |= {"reward_threshold": task.threshold, "episodes": episodes, **played, "warnings": [*task.notes, *notes]}
    report["vector_form"] = None if not source.has_vector_form() else why_not(HostedSource(source, limits)) or "used"
    varied = difference(source, limits, seed) if source.named.parameters else None
    report["difference"] = None if varied is None else {"step": varied.step, "words": varied.in_words}
    report["not_deterministic"] = determinism.check(lambda: CheckedEnv(source, limits), seeds[:TWICE])
    tell(as_json, report, _check_in_words(report))


def _play_at_random(
    source: "EnvSource", limits: "EnvLimits", seeds: Iterable[int]
) -> tuple[dict[str, Any], list[list[float]], tuple[str, ...]]:
    """What episodes with random actions were like, least and most of each observation, and what the user should see."""
    import numpy as np

    from asap.envs.gymnasium.checked_env import CheckedEnv, EnvError
    from asap.envs.gymnasium.errors import explained

    env = CheckedEnv(source, limits)
    lengths, returns, success, lows, highs, terminated = [], [], [], [], [], 0
    begun = time.perf_counter()
    for index, seed in enumerate(seeds):
        generator, observations, rewards, ended = np.random.default_rng(seed), [], [], False
        try:
            observations.append(env.start(seed))
            while not ended:
                x, reward, ended = env.step(env.sample(generator))
                observations.append(x)
                rewards.append(reward)
        except EnvError as trouble:
            raise explained(trouble, f"episode {index}", seed, f"reproduce it with --seed {seed}") from trouble
        lengths.append(len(rewards))
        returns.append(float(np.sum(rewards)))
        terminated += env.terminated
        success += [] if env.success is None else [env.success]
        lows.append(np.min(observations, axis=0))
        highs.append(np.max(observations, axis=0))
    played = {"steps": sum(lengths), "steps_per_second": sum(lengths) / (time.perf_counter() - begun)}
    played |= {"lengths": [min(lengths), max(lengths)], "returns": [min(returns), max(returns)]}
    played |= {"terminated": terminated, "success": float(np.mean(success)) if success else None}
    env.close()
    seen = np.stack([np.min(lows, axis=0), np.max(highs, axis=0)], axis=-1).astype(float)
    return played, seen.tolist(), env.take_notes()


def _replay(named: "EnvSource", path: str, as_json: bool) -> None:
    """Plays a recorded episode again. Raises what it then does wrong; prints that it did nothing wrong otherwise.

    The user names the environment. Options that the user does not give are those of the file, if the user made it.
    """
    from asap.envs.gymnasium.checked_env import CheckedEnv, EnvError
    from asap.envs.gymnasium.errors import explained
    from asap.envs.gymnasium.make import EnvLimits
    from asap.runs.directory import print_note
    from asap.workers.failures import Recording

    name, recording = named.name, Recording.load(path)
    if name != recording.env:
        cure = f"run: {shlex.join(['asap', 'check', recording.env, '--replay', path])}"
        raise UserError("--replay", f"was recorded in {ascii(recording.env)[:80]}", f"'{name}'", cure)
    options = named.options or recording.usable_options()
    if options != recording.options:
        print_note(f"env.options: those in {path} are not all used: {recording.options}; give them by --env-options")
    env, steps = CheckedEnv(named._replace(options=options), EnvLimits(**recording.rules)), 0
    try:
        actions = _actions(env, recording, path)
        env.start(recording.seed)
        for action in actions:
            steps += 1
            if env.step(action)[2]:
                break
    except EnvError as trouble:
        is_same = f"{trouble.field}: {trouble.what}" == recording.error
        cure = "as recorded; --debug shows its traceback" if is_same else f"recorded was '{recording.error}'"
        raise explained(trouble, "the recorded episode", recording.seed, cure) from trouble
    finally:
        env.close()
    words = f"{name}: {steps} steps without the recorded '{recording.error}'; is the environment deterministic?"
    report = {"env": name, "replay": path, "again": False, "recorded": recording.error, "steps": steps}
    tell(as_json, report, words)


def _actions(env: "CheckedEnv", recording: "Recording", path: str) -> list[Any]:
    try:
        return [env.recorded(action) for action in recording.actions]
    except (ValueError, TypeError) as error:
        what = "has an action that the environment does not take"
        raise UserError("--replay", f"{what}: {error}", path, "pass a file that a failed run has written") from error


def _check_in_words(report: dict[str, Any]) -> str:
    kind, threshold = "controls" if report["continuous"] else "actions", report["reward_threshold"]
    actions, more = report["actions"][:MOST_SHOWN], len(report["actions"]) - MOST_SHOWN
    solved = "" if threshold is None else f", solved at a mean return of {threshold:g}"
    success = "" if report["success"] is None else f", success {100 * report['success']:.0f} %"
    lines = [
        f"{report['env']}: observations: {len(report['observations'])}, {kind}: {len(report['actions'])}, "
        f"at most {report['horizon']} steps{solved}",
        *_table(report["observations"]),
        f"  {kind}: {', '.join(actions)}{f' and {more} more' if more > 0 else ''} ({report['action_space']})",
        f"  {report['episodes']} episodes at random: {_range(report['lengths'])} steps, return {_range(report['returns'])}, "
        f"{report['terminated']} ended by themselves{success}; {report['steps_per_second']:,.0f} steps/s",
        *(f"  warning: {warning}" for warning in report["warnings"]),
        *_difference_in_words(report["difference"]),
        f"  deterministic: {'yes' if report['not_deterministic'] is None else 'no: ' + report['not_deterministic']}",
    ]
    if report["vector_form"] is not None:
        is_used = report["vector_form"] == "used"
        lines.append(
            f"  vector form: {'used, its bits are the same' if is_used else 'not used: ' + report['vector_form']}"
        )
    return "\n".join(lines)


def _difference_in_words(difference: dict[str, Any] | None) -> list[str]:
    if difference is None:
        return []
    return [f"  {'warning' if difference['step'] is None else 'parameters'}: {difference['words']}"]


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
    return float(bound) if math.isfinite(bound) else None
