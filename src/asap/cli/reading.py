"""Commands that read what was learned: `asap eval`, `explain` and `plot`."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asap.base.errors import UserError, to_stderr
from asap.cli.app import (
    Debug,
    Env,
    EnvOptions,
    Json,
    app,
    in_words,
    make_folder,
    other_in_words,
    tell,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asap.base.spec import Task
    from asap.model.model import ASAP

RunPath = Annotated[str, typer.Argument(metavar="RUN", help="Run directory, as printed by `asap train`.")]
_TASK = "Which of the run's tasks; or one with parameters that were never trained on, such as 'CartPole-v1?length=0.7'."
OfTheTasks = Annotated[str | None, typer.Option("--task", metavar="TASK", help=_TASK)]
TrainedSeed = Annotated[int | None, typer.Option("--seed", help="Which trained seed to show; default: the first.")]
_BEST = (
    "Instead of the last checkpoint that of the best evaluation during training, by the mean return over seeds. Such an "
    "evaluation has few episodes (run.eval_episodes; of a Gymnasium environment, those of one update), so the last may be "
    "better."
)
Best = Annotated[bool, typer.Option("--best", help=_BEST)]
_DETERMINISTIC = (
    "Gymnasium environment: by the likeliest skill and action, or as learned; default: as the run was evaluated."
)
_OFFLINE = "Estimate the return from logged data, and hold it against playing."
TOO_FEW = "too few: the estimate is not to be trusted, and its interval is far too narrow"


@app.command("eval")
def evaluate(
    run: RunPath,
    episodes: Annotated[
        int | None, typer.Option(help="Episodes per seed and task; default: 1000, of a Gymnasium environment 100.")
    ] = None,
    task: OfTheTasks = None,
    seed: Annotated[int, typer.Option(help="Seed of the episodes.")] = 0,
    best: Best = False,
    deterministic: Annotated[bool | None, typer.Option("--deterministic/--stochastic", help=_DETERMINISTIC)] = None,
    workers: Annotated[str, typer.Option(help="Who plays a Gymnasium environment; as in `asap train`.")] = "0",
    offline: Annotated[str | None, typer.Option(metavar="FILE", help=_OFFLINE)] = None,
    env: Env = None,
    env_options: EnvOptions = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Play the learned policies: return, success, and use of each skill.

    Intervals are over seeds; of one seed, over its episodes. That of success is Wilson's over all episodes, wider where
    seeds differ.
    """
    from asap.base.episodes import require_episodes, require_seed

    if episodes is not None:
        require_episodes("--episodes", episodes)
    require_seed("--seed", seed)
    if offline is not None and deterministic:
        what = "data tell the worth of a policy as it was learned, which draws its actions"
        raise UserError("--deterministic", what, "--offline too", "leave out one of them")
    model = loaded(run, env, env_options, best, task, workers=workers)
    if offline is not None:
        return estimate_model(model, run, offline, episodes, seed, json_, task)
    from asap.config.schema import Config, RunConfig
    from asap.learn.state import parameter_digest
    from asap.model.learning import play_learned
    from asap.model.result import seeds_report
    from asap.runs.loggers import ProgressBar

    chosen = model.tasks.names if task is None else (model.task(task).name,)
    count = model.config.run.final_episodes if episodes is None else episodes
    is_sure = model.config.run.deterministic if deterministic is None else deterministic
    seeds = [seed + index for index in range(len(model.seeds))]
    with ProgressBar(Config(run=RunConfig(episodes=count * model.tasks.size * len(seeds))), "evaluating") as progress:
        played = play_learned(model, range(len(seeds)), count, seeds, is_sure, progress.count)
    every = seeds_report(model.tasks, played, model.seeds, is_sure)
    reports = {name: one for name, one in every.items() if name in chosen}
    verdict = None if model.verdict is None else model.verdict.as_dict()
    report = {**reports[chosen[0]], "task": chosen[0] if len(chosen) == 1 else list(chosen), "per_task": reports}
    report |= {"episodes": count, "seeds": model.config.run.seeds, "env_steps": model.num_timesteps}
    report |= {"verdict": verdict, "parameters_sha256": parameter_digest(model.policies), "run": run}
    lines = [line for name, one in reports.items() for line in _evaluation_in_words(name, one)]
    other = other_in_words(verdict, is_sure) if model.tasks.size == 1 else None
    tell(json_, report, "\n".join(lines if other is None else [*lines, f"  from training: {other}"]))


def loaded(
    path: str, env: str | None, env_options: str | None, best: bool, task: str | None = None, **how: Any
) -> "ASAP":
    """The model in a run directory or a file, for the environment that the user names, if any; on a task that is not among
    its own, on that alone."""
    from asap.envs.recorded import SaidEnv
    from asap.envs.resolve import canonical
    from asap.model.model import ASAP

    said = SaidEnv.of(env, env_options)
    model = ASAP.load(path, env=said.env, env_options=said.options, best=best, **how)
    if best:
        to_stderr(f"note: the best checkpoint was saved after {model.num_timesteps:,} steps")
    return model if task is None or canonical(task) in model.tasks.names else model.on_task(task)


def _evaluation_in_words(name: str, report: dict) -> list[str]:
    (first, *each), success = in_words(report["return"]), ""
    if report["success"] is not None:
        low, high = (100 * limit for limit in report["success_ci"])
        success = f"success {100 * report['success']:.1f} % (95 % interval {low:.1f} to {high:.1f}), "
    lines = [f"{name}: return {first}, {success}{report['length']:.1f} steps per episode"]
    lines += [f"  return of {line}" for line in each]
    for skills in report["skills"]:
        of_seed = "" if len(report["skills"]) == 1 else f"seed {skills['seed']}, "
        for i, (usage, duration) in enumerate(zip(skills["usage"], skills["duration"])):
            lines.append(f"  {of_seed}skill {i}: {100 * usage:.1f} % of the steps, {duration:.1f} steps at a time")
    return lines


def estimate_model(
    model: "ASAP", path: str, data: str, episodes: int | None, seed: int, as_json: bool, name: str | None = None
) -> None:
    """What logged data say about the learned policies, beside what playing says."""
    from asap.base.arrays import member, stack
    from asap.data.dataset import Dataset
    from asap.data.layout import layout_of
    from asap.envs.gymnasium.make import EnvNotMade
    from asap.experience.logged import local_file
    from asap.experience.off_policy import estimate, true_value

    task, discount = model.task(name), model.tasks.spec.discount
    dataset, column = Dataset(local_file(data), layout_of(task)), model.tasks.names.index(task.name)
    rows = []
    for index, trained in enumerate(model.seeds):
        policy = member(model.policies, index)
        true = None
        with contextlib.suppress(EnvNotMade):  # Then the data are all there is.
            played = model.play(stack([policy]), episodes, [seed], deterministic=False)
            true = true_value(played.on_task(column), seed)._asdict()
        judged = estimate(policy, dataset, discount, seed)
        value = judged.value._asdict() if judged.available else None
        note = TOO_FEW if judged.available and not judged.is_trusted else None
        row = {"seed": trained, "estimate": value, "ess": judged.ess, "trusted": judged.is_trusted}
        rows.append({**row, "note": note, "played": true})
    report = {"task": task.name, "data": data, "data_episodes": dataset.num_episodes, "discount": discount}
    report |= {"seeds": rows, "run": path}
    tell(as_json, report, "\n".join(_estimate_in_words(row, report) for row in rows))


def _estimate_in_words(row: dict, report: dict) -> str:
    played = "not played: its environment is not at hand"
    if row["played"] is not None:
        played = f"played: {_value_in_words(row['played'], report)}"
    if row["estimate"] is None:
        why = "the behaviour is deterministic or unknown, so importance weights do not exist"
        return f"seed {row['seed']}: no estimate: {why}; {played}"
    worth = f"worth {row['ess']:,.1f} of {report['data_episodes']:,} episodes"
    worth += "" if row["note"] is None else f" ({row['note']})"
    return f"seed {row['seed']}: estimate: {_value_in_words(row['estimate'], report)}, {worth}; {played}"


def _value_in_words(value: dict, report: dict) -> str:
    (low, high), (least, most) = value["undiscounted_ci"], value["discounted_ci"]
    discounted = f"{value['discounted']:.1f} ({least:.1f} to {most:.1f})"
    return f"return {value['undiscounted']:.1f} ({low:.1f} to {high:.1f}), discounted by {report['discount']:g} {discounted}"


@app.command()
def explain(
    run: RunPath,
    task: OfTheTasks = None,
    seed: TrainedSeed = None,
    best: Best = False,
    rules: Annotated[bool, typer.Option("--rules", help="As a file of rules: all but the rules in comments.")] = False,
    digits: Annotated[int | None, typer.Option(help="Digits of numbers; default: as few as keep the actions.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Numbers with all their digits.")] = False,
    changes: Annotated[
        bool, typer.Option("--changes", help="What learning made of given rules, and what it gained.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Show the skills of regions that were never visited, too.")
    ] = False,
    env: Env = None,
    env_options: EnvOptions = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Print the learned rules: which tests lead to which actions, and what they return.

    `asap explain RUN --rules > rules.txt` writes them to a file.
    """
    from asap.policy.rules.from_policy import checked_digits

    checked_digits("--digits", digits)
    model = loaded(run, env, env_options, best, task, seed=seed)
    if changes:
        found = model.changes(digits=digits)
        return tell(json_, found.as_dict(), found.text)
    explanation = model.explanation(task, digits=digits, exact=exact, every=every)
    tell(json_, explanation.as_dict(), explanation.file.rstrip() if rules else explanation.text)


@app.command()
def plot(
    run: RunPath,
    task: OfTheTasks = None,
    seed: TrainedSeed = None,
    best: Best = False,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Where to write; default: in the run.")] = None,
    env: Env = None,
    env_options: EnvOptions = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Draw the partition with its skills, the learning curves, the use of skills, and in soccer a game."""
    from asap.base.files import saving
    from asap.show.figures.film import FILMED, save_game

    model = loaded(run, env, env_options, best, task, seed=seed)
    shown, source = model.task(task), Path(run)
    folder = make_folder(out if out is not None else source if source.is_dir() else source.parent)
    title = f"{shown.name}, seed {model.seed}" + (", best checkpoint" if best else "")
    pictures = {"partition": model.plot(shown.name, title)}
    if model.config.policy.rules:
        pictures["changes"] = model.plot(shown.name, title, changes=True)
    if model.config.sequence.is_on and source.is_dir():
        from asap.cli.sequences import pictures_of_sequence

        pictures |= pictures_of_sequence(source, model)
    elif source.is_dir() and not model.tasks.is_part_of_family:
        pictures |= _curves(source, model, shown)
    written = {}
    for name, figure in pictures.items():
        written[name] = str(folder / f"{name}.png")
        with saving(folder / f"{name}.png", "picture", "or choose another directory by --out") as file:
            figure.savefig(file, format="png", dpi=150)
    if shown.spec.place in FILMED:
        written["game"] = str(folder / "game.gif")
        save_game(written["game"], model.policy, shown, model.seed, title)
    tell(json_, {"pictures": written, "run": run}, "\n".join(written.values()))


def _curves(path: Path, model: "ASAP", task: "Task") -> dict[str, "Figure"]:
    """How a run went; a saved model does not know."""
    import numpy as np

    from asap.base.stats import SeedCurve
    from asap.runs.directory import Run
    from asap.runs.events import Curve
    from asap.show import figures

    curve = Curve.read(Run.open(path))
    if not len(curve.episodes):
        return {}
    column, looked_at = model.tasks.names.index(task.name), model.seeds.index(model.seed)
    known = (curve.active > 0) & ~np.isnan(curve.returns[:, :, column])
    seeds = [
        SeedCurve(*(values[known[:, s]] for values in (curve.episodes[:, s], curve.returns[:, s, column])))
        for s in range(curve.episodes.shape[1])
    ]
    usage = curve.episodes[:, looked_at], curve.usage[:, looked_at]  # Each seed numbers its skills in its own way.
    return {
        "learning": figures.learning_curves(seeds, task.reference, title=f"{task.name}: learning"),
        "usage": figures.skill_usage(*usage, title=f"{task.name}: use of skills, seed {model.seed}"),
    }
