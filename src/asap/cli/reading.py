"""Commands that read what was learned: `asap eval`, `explain` and `plot`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asap.base.errors import UserError
from asap.cli.app import Debug, Env, EnvOptions, Json, app, interval_in_words, make_folder, number, tell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asap.base.spec import Task
    from asap.model.model import ASAP

RunPath = Annotated[str, typer.Argument(metavar="RUN", help="Run directory, as printed by `asap train`.")]
OfTheTasks = Annotated[str | None, typer.Option("--task", help="Which of the run's tasks.")]
TrainedSeed = Annotated[int | None, typer.Option("--seed", help="Which trained seed to show; default: the first.")]

TOO_FEW = "too few: the estimate is not to be trusted, and its interval is far too narrow"


@app.command("eval")
def evaluate(
    run: RunPath,
    episodes: Annotated[
        int | None, typer.Option(help="Episodes per seed and task; default: 1000, of a Gymnasium environment 100.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Play this one of the run's tasks; default: all.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the episodes.")] = 0,
    best: Annotated[bool, typer.Option("--best", help="The best checkpoint instead of the last.")] = False,
    deterministic: Annotated[
        bool | None,
        typer.Option(
            "--deterministic/--stochastic",
            help="Gymnasium environment: by the likeliest skill and action, or as learned; default: as the run was evaluated.",
        ),
    ] = None,
    workers: Annotated[str, typer.Option(help="Who plays a Gymnasium environment; as in `asap train`.")] = "0",
    offline: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Estimate the return from logged data, and hold it against playing."),
    ] = None,
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
    model = _loaded(run, env, env_options, workers=workers, best=best)
    if offline is not None:
        estimate_model(model, run, offline, episodes, seed, json_, task)
    else:
        evaluate_model(model, run, episodes, task, seed, deterministic, json_)


def _loaded(path: str, env: str | None, env_options: str | None, **how: Any) -> "ASAP":
    """The model in a run directory or a file, for the environment that the user names, if any."""
    from asap.envs.recorded import SaidEnv
    from asap.model.model import ASAP

    said = SaidEnv.of(env, env_options)
    return ASAP.load(path, env=said.env, env_options=said.options, **how)


def evaluate_model(
    model: "ASAP",
    path: str,
    episodes: int | None,
    task: str | None,
    seed: int,
    deterministic: bool | None,
    as_json: bool,
) -> None:
    """All seeds of a run, or of a saved model."""
    from asap.config.schema import Config, RunConfig
    from asap.learn.state import parameter_digest
    from asap.model.result import seeds_report
    from asap.runs.loggers import ProgressBar

    chosen = model.tasks.names if task is None else (model.task(task).name,)
    count = model.config.run.final_episodes if episodes is None else episodes
    seeds = [seed + index for index in range(len(model.seeds))]
    with ProgressBar(Config(run=RunConfig(episodes=count * model.tasks.size * len(seeds))), "evaluating") as progress:
        played = model.play(model.policies, episodes, seeds, deterministic, progress.count)
    reports = {name: one for name, one in seeds_report(model.tasks, played).items() if name in chosen}
    report = {
        **reports[chosen[0]],
        "task": chosen[0] if len(chosen) == 1 else list(chosen),
        "per_task": reports,
        "episodes": count,
        "seeds": model.config.run.seeds,
        "parameters_sha256": parameter_digest(model.policies),
        "run": str(path),
    }
    tell(as_json, report, "\n".join(_evaluation_in_words(name, one, count) for name, one in reports.items()))


def _of(report: dict, episodes: int) -> str:
    """What a return is the mean of."""
    returns = report["return"]
    seeds, interval = len(returns["all"]), "" if returns["ci"] is None else f", {interval_in_words(returns['ci'])}"
    return (
        f"one seed, mean of {episodes:,} {'episode' if episodes == 1 else 'episodes'}"
        if seeds == 1
        else f"IQM of {seeds} seeds"
    ) + interval


def _success_in_words(report: dict) -> str:
    if report["success"] is None:
        return ""
    low, high = (100 * limit for limit in report["success_ci"])
    return f"success {100 * report['success']:.1f} % (95 % interval {low:.1f} to {high:.1f}), "


def _evaluation_in_words(name: str, report: dict, episodes: int) -> str:
    returns, skills = report["return"], report["skills"]
    lines = [
        f"{name}: return {number(returns['iqm'])} ({_of(report, episodes)}), {_success_in_words(report)}"
        f"{report['length']:.1f} steps per episode"
    ]
    for i, (usage, duration) in enumerate(zip(skills["usage"], skills["duration"])):
        lines.append(f"  skill {i}: {100 * usage:.1f} % of the steps, {duration:.1f} steps at a time")
    return "\n".join(lines)


def estimate_model(
    model: "ASAP", path: str, data: str, episodes: int | None, seed: int, as_json: bool, name: str | None = None
) -> None:
    """What logged data say about the learned policies, beside what playing says."""
    from asap.base.arrays import member, stack
    from asap.data.dataset import Dataset
    from asap.data.layout import layout_of
    from asap.experience.logged import local_file
    from asap.experience.off_policy import estimate, true_value

    task, discount = model.task(name), model.tasks.spec.discount
    dataset, column = Dataset(local_file(data), layout_of(task)), model.tasks.names.index(task.name)
    rows = []
    for index, trained in enumerate(model.seeds):
        policy = member(model.policies, index)
        played = model.play(stack([policy]), episodes, [seed], deterministic=False)
        judged, true = estimate(policy, dataset, discount, seed), true_value(played.on_task(column), seed)
        told = judged.value._asdict() if judged.available else None
        row = {"seed": trained, "estimate": told, "ess": judged.ess, "trusted": judged.is_trusted}
        note = TOO_FEW if judged.available and not judged.is_trusted else None
        rows.append({**row, "note": note, "played": true._asdict()})
    report = {
        "task": task.name,
        "data": data,
        "data_episodes": dataset.num_episodes,
        "discount": discount,
        "seeds": rows,
        "run": path,
    }
    tell(as_json, report, "\n".join(_estimate_in_words(row, report) for row in rows))


def _estimate_in_words(row: dict, report: dict) -> str:
    played = f"played: {_told(row['played'], report)}"
    if row["estimate"] is None:
        return f"seed {row['seed']}: no estimate: the behaviour is deterministic or unknown, so importance weights do not exist; {played}"
    worth = f"worth {row['ess']:,.1f} of {report['data_episodes']:,} episodes"
    worth += "" if row["note"] is None else f" ({row['note']})"
    return f"seed {row['seed']}: estimate: {_told(row['estimate'], report)}, {worth}; {played}"


def _told(value: dict, report: dict) -> str:
    (low, high), (least, most) = value["undiscounted_ci"], value["discounted_ci"]
    return (
        f"return {value['undiscounted']:.1f} ({low:.1f} to {high:.1f}), "
        f"discounted by {report['discount']:g} {value['discounted']:.1f} ({least:.1f} to {most:.1f})"
    )


@app.command()
def explain(
    run: RunPath,
    task: OfTheTasks = None,
    seed: TrainedSeed = None,
    env: Env = None,
    env_options: EnvOptions = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Print the learned rules: hyperplanes as inequalities, skills as actions."""
    explanation = _loaded(run, env, env_options, seed=seed).explanation(task)
    tell(json_, explanation.as_dict(), explanation.text)


@app.command()
def plot(
    run: RunPath,
    task: OfTheTasks = None,
    seed: TrainedSeed = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Where to write; default: in the run.")] = None,
    env: Env = None,
    env_options: EnvOptions = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Draw the partition with its skills, the learning curves, the use of skills, and in soccer a game."""
    from asap.base.files import saving
    from asap.show.figures.film import FILMED, save_game

    model = _loaded(run, env, env_options, seed=seed)
    shown, source = model.task(task), Path(run)
    folder = make_folder(out if out is not None else source if source.is_dir() else source.parent)
    title = f"{shown.name}, seed {model.seed}"
    pictures = {"partition": model.plot(shown.name, title)}
    if source.is_dir():
        pictures |= _curves(source, model.tasks.names.index(shown.name), shown)
    written = {}
    for name, figure in pictures.items():
        written[name] = str(folder / f"{name}.png")
        with saving(folder / f"{name}.png", "picture", "or choose another directory by --out") as file:
            figure.savefig(file, format="png", dpi=150)
    if shown.spec.place in FILMED:
        written["game"] = str(folder / "game.gif")
        save_game(written["game"], model.policy, shown, model.seed, title)
    tell(json_, {"pictures": written, "run": run}, "\n".join(written.values()))


def _curves(path: Path, column: int, task: "Task") -> dict[str, "Figure"]:
    """How a run went; a saved model does not know."""
    from asap.base.stats import SeedCurve
    from asap.runs.directory import Run
    from asap.runs.events import Curve
    from asap.show import figures

    curve = Curve.read(Run.open(path))
    if not len(curve.episodes):
        return {}
    seeds = [
        SeedCurve(*(values[curve.active[:, s] > 0] for values in (curve.episodes[:, s], curve.returns[:, s, column])))
        for s in range(curve.episodes.shape[1])
    ]
    usage = curve.usage.swapaxes(0, 1)
    return {
        "learning": figures.learning_curves(seeds, task.reference, title=f"{task.name}: learning"),
        "usage": figures.skill_usage(curve.episodes.T, usage, title=f"{task.name}: use of skills"),
    }
