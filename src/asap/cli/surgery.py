"""Commands that change a learned policy: `asap prune`, `grow`, `flip` and `merge`. Each saves a model."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asap.cli.app import Debug, Env, EnvOptions, Json, app, require_writable_place, tell
from asap.cli.reading import Best, RunPath, loaded

if TYPE_CHECKING:
    from asap.experience.protocol import OnProgress
    from asap.model.model import ASAP
    from asap.model.surgery import Operated

Episodes = Annotated[int, typer.Option(help="Episodes that each choice plays.")]
EpisodeSeed = Annotated[int, typer.Option("--seed", help="Seed of the episodes.")]
TrainedSeed = Annotated[int | None, typer.Option(help="Which trained seed; default: the first.")]
_OUT = "The changed model; default: a file in RUN, named after the command."
Out = Annotated[str | None, typer.Option(metavar="FILE", help=_OUT)]


@app.command()
def prune(
    run: RunPath,
    loss: Annotated[float, typer.Option(help="Share of the way from random play to the present return.")] = 0.05,
    episodes: Annotated[int, typer.Option(help="Fresh episodes of each step that is tried.")] = 200,
    seed: EpisodeSeed = 1,
    trained_seed: TrainedSeed = None,
    out: Out = None,
    best: Best = False,
    env: Env = None,
    env_options: EnvOptions = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Take planes and skills out of a policy, as long as that costs little; the result is a saved model.

    What is lost is measured beside the whole policy on fresh episodes. Each look plays --episodes, and there are some dozens.
    `asap eval`, `explain` and `plot` take the model in place of a run.
    """
    from asap.base.episodes import require_episodes, require_seed
    from asap.model.pruning import MOST_PAIRS, prune

    require_episodes("--episodes", episodes)
    require_seed("--seed", seed)
    model, place = _opened(run, out, "pruned.asap", best, env, env_options, trained_seed)
    planes, skills = model.policy.partition.num_planes, model.policy.num_skills
    first_round = 3 + planes + min(skills * (skills - 1) // 2, MOST_PAIRS)  # Later ones are smaller.
    total = episodes * first_round
    with _progress(total, "pruning") as progress:
        found = prune(model, loss, episodes, seed, lambda looks: progress.count(min(looks * episodes, total)))
    found.model.save(place)
    report = {**found.as_dict(), "rules": found.model.rules().splitlines(), "model": place, "run": run}
    tell(json_, report, f"{found.in_words()}\n\n{found.model.rules()}\nmodel  {place}")


@app.command()
def grow(
    run: RunPath,
    where: Annotated[
        str | None, typer.Option(metavar="TEST", help="Where the plane is, as in rules: 'pole angle > 0.1'.")
    ] = None,
    episodes: Episodes = 20,
    seed: EpisodeSeed = 1,
    trained_seed: TrainedSeed = None,
    out: Out = None,
    best: Best = False,
    env: Env = None,
    env_options: EnvOptions = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Add a plane to a policy, which then has twice as many skills; the result is a saved model.

    With --where, both sides have the same skills: the policy acts as before, and `asap train --from` parts them. Without it, planes
    through the middle of each observation are tried. The skills beyond each lean to an action, and the best choice by a few episodes
    is kept. Where none is better than before, the skills are the same on both sides.
    """
    from asap.model.surgery import grow_plane

    model, place = _opened(run, out, "grown.asap", best, env, env_options, trained_seed)
    _operate(run, place, json_, episodes, lambda heard: grow_plane(model, where, episodes, seed, heard))


@app.command()
def flip(
    run: RunPath,
    plane: Annotated[
        list[int] | None, typer.Option(metavar="K", help="Number of a plane, from 1; may be given again.")
    ] = None,
    episodes: Episodes = 20,
    seed: EpisodeSeed = 1,
    trained_seed: TrainedSeed = None,
    out: Out = None,
    best: Best = False,
    env: Env = None,
    env_options: EnvOptions = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Turn planes of a policy: the skills on their two sides change places; the result is a saved model.

    Without --plane, each plane is tried by a few episodes, and the best turn is taken, even where it costs.
    """
    from asap.model.surgery import flip_planes

    model, place = _opened(run, out, "flipped.asap", best, env, env_options, trained_seed)
    _operate(run, place, json_, episodes, lambda heard: flip_planes(model, plane or [], episodes, seed, heard))


@app.command()
def merge(
    run: RunPath,
    skill: Annotated[
        list[int] | None, typer.Option(metavar="I", help="Number of a skill, from 0, as in `asap explain`; give two.")
    ] = None,
    episodes: Episodes = 20,
    seed: EpisodeSeed = 1,
    trained_seed: TrainedSeed = None,
    out: Out = None,
    best: Best = False,
    env: Env = None,
    env_options: EnvOptions = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Make one skill of two, fitted to what both did where they were in force; the result is a saved model.

    Without --skill, the pairs that act most alike are tried by a few episodes, and the best one is taken, even where it costs.
    """
    from asap.model.surgery import merge

    model, place = _opened(run, out, "merged.asap", best, env, env_options, trained_seed)
    _operate(run, place, json_, episodes, lambda heard: merge(model, skill or [], episodes, seed, heard))


def _place(run: str, out: str | None, name: str) -> str:
    """Where the model goes; asked before the work."""
    source = Path(run)
    place = out or str((source if source.is_dir() else source.parent) / name)
    require_writable_place(place)
    return place


def _opened(
    run: str, out: str | None, name: str, best: bool, env: str | None, env_options: str | None, seed: int | None
) -> tuple["ASAP", str]:
    from asap.model.another_task import with_one_policy

    place = _place(run, out, name)
    return with_one_policy(loaded(run, env, env_options, best, seed=seed)), place


def _progress(episodes: int, doing: str):
    from asap.config.schema import Config
    from asap.config.settings import override
    from asap.runs.loggers import ProgressBar

    return ProgressBar(override(Config(), {"run.episodes": episodes}), doing)


def _operate(
    run: str, place: str, as_json: bool, episodes: int, operation: Callable[["OnProgress"], "Operated"]
) -> None:
    from asap.base.episodes import require_episodes
    from asap.model.surgery import MOST_OFFERS

    total = require_episodes("--episodes", episodes) * (MOST_OFFERS + 3)
    with _progress(total, "trying") as progress:
        found = operation(lambda looks: progress.count(min(looks * episodes, total)))
    found.model.save(place)
    report = {**found.as_dict(), "rules": found.model.rules().splitlines(), "model": place, "run": run}
    tell(as_json, report, f"{found.in_words()}\n\n{found.model.rules()}\nmodel  {place}")
