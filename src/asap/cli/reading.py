"""Commands that read: `asap eval`, `explain`, `plot`, `tasks` and `settings`."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asap.envs.resolve import Task
    from asap.trained import Trained


def _print(as_json: bool, report: dict, text: str) -> None:
    print(json.dumps(report) if as_json else text)


EPISODES, EPISODES_OF_FOREIGN = 1000, 100


def evaluate_run(
    path: str,
    episodes: int | None,
    task: str | None,
    seed: int,
    best: bool,
    deterministic: bool | None,
    workers: str,
    as_json: bool,
) -> None:
    from asap.base import stats
    from asap.envs.gymnasium.task import HostedTask
    from asap.state_arrays import parameter_digest
    from asap.trained import Trained

    trained = Trained.load(path, best)
    chosen = trained.named if task is None else (trained.task(task),)
    if episodes is None:
        episodes = EPISODES_OF_FOREIGN if isinstance(chosen[0], HostedTask) else EPISODES
    reports = {}
    for one in chosen:
        evaluation = trained.evaluate(one, episodes, seed, deterministic, workers)
        per_seed = evaluation.returns.mean(-1)
        steps, starts = evaluation.skill_steps.sum(0), evaluation.skill_starts.sum(0)
        low, high = stats.bootstrap_interval(per_seed)
        reports[one.name] = {
            "return": {"iqm": stats.iqm(per_seed), "ci": [low, high], "all": per_seed.tolist()},
            "success": None if np.isnan(evaluation.success).any() else float(evaluation.success.mean()),
            "length": float(evaluation.lengths.mean()),
            "skills": {
                "usage": (steps / steps.sum()).tolist(),
                "duration": (steps / np.maximum(starts, 1)).tolist(),
            },
        }
    report = {
        **reports[chosen[0].name],
        "task": chosen[0].name if len(chosen) == 1 else [one.name for one in chosen],
        "per_task": reports,
        "episodes": episodes,
        "seeds": trained.config.run.seeds,
        "parameters_sha256": parameter_digest(trained.policies),
        "run": str(path),
    }
    _print(as_json, report, "\n".join(_evaluation_in_words(name, one) for name, one in reports.items()))


def _evaluation_in_words(name: str, report: dict) -> str:
    from asap.cli.training import number

    returns, skills = report["return"], report["skills"]
    low, high = returns["ci"]
    lines = [
        f"{name}: return {number(returns['iqm'])} (IQM, 95 % interval {number(low)} to {number(high)}), "
        + ("" if report["success"] is None else f"success {100 * report['success']:.1f} %, ")
        + f"{report['length']:.1f} steps per episode"
    ]
    for i, (usage, duration) in enumerate(zip(skills["usage"], skills["duration"])):
        lines.append(f"  skill {i}: {100 * usage:.1f} % of the steps, {duration:.1f} steps at a time")
    return "\n".join(lines)


def explain_run(path: str, task: str | None, seed: int | None, as_json: bool) -> None:
    from asap.envs.gymnasium.task import HostedTask
    from asap.play_foreign import ForeignPlay
    from asap.show.words.explain import explain
    from asap.trained import Trained
    from asap.workers.hire import IN_PROCESS

    trained = Trained.load(path)
    index, named = trained.seed_index(seed), trained.task(task)
    if isinstance(named, HostedTask):
        explanation = ForeignPlay(trained.config, named, IN_PROCESS).explain(trained.policy(index))
    else:
        evaluation = trained.evaluate(named, 200, 0)
        usage, durations = np.asarray(evaluation.usage)[index], np.asarray(evaluation.durations)[index]
        explanation = explain(trained.policy(index), (named,), usage, durations)
    _print(as_json, explanation.as_dict(), explanation.text)


def plot_run(path: str, task: str | None, seed: int | None, out: str | None, as_json: bool) -> None:
    from asap.base.stats import SeedCurve
    from asap.envs.gymnasium.task import HostedTask
    from asap.envs.soccer.half_field import Striker
    from asap.session import Curve
    from asap.show import figures
    from asap.show.figures.film import save_game
    from asap.trained import Trained

    trained = Trained.load(path)
    index, named = trained.seed_index(seed), trained.task(task)
    column = trained.config.run.tasks.index(named.name)
    curve = Curve.read(trained.run)
    folder = Path(out) if out is not None else trained.run.path
    folder.mkdir(parents=True, exist_ok=True)
    title = f"{named.name}, seed {trained.config.run.seed + index}"
    pictures = {"partition": _partition(trained, named, index, title)}
    if len(curve.episodes):
        seeds = [
            SeedCurve(
                *(values[curve.active[:, s] > 0] for values in (curve.episodes[:, s], curve.returns[:, s, column]))
            )
            for s in range(trained.config.run.seeds)
        ]
        reference = None if isinstance(named, HostedTask) else named.reference
        pictures["learning"] = figures.learning_curves(seeds, reference, title=f"{named.name}: learning")
        pictures["usage"] = figures.skill_usage(
            curve.episodes.T, curve.usage.swapaxes(0, 1), title=f"{named.name}: use of skills"
        )
    written = {}
    for name, figure in pictures.items():
        written[name] = str(folder / f"{name}.png")
        figure.savefig(written[name], dpi=150)
    if not isinstance(named, HostedTask) and isinstance(named.env, Striker):
        written["game"] = str(folder / "game.gif")
        save_game(written["game"], trained.policy(index), named, trained.config.run.seed + index, title)
    _print(as_json, {"pictures": written, "run": str(path)}, "\n".join(written.values()))


def _partition(trained: "Trained", named: "Task", index: int, title: str) -> "Figure":
    from asap.envs.gymnasium.task import HostedTask
    from asap.play_foreign import ForeignPlay
    from asap.show import figures
    from asap.workers.hire import IN_PROCESS

    policy = trained.policy(index)
    if isinstance(named, HostedTask):
        return ForeignPlay(trained.config, named, IN_PROCESS).plot(policy, title=title)
    usage = np.asarray(trained.evaluate(named, 200, 0).usage)[index]
    return figures.policy_map(policy, named, None, usage, title)


def show_tasks(name: str | None, measure: bool, seed: int, as_json: bool) -> None:
    from asap.envs import catalog

    rows = []
    for task in [catalog.find(name)] if name else [catalog.find(each) for each in catalog.names()]:
        reference = task.reference
        if measure:
            from asap.paper.references import measure as measure_reference

            reference = measure_reference(task.name, seed)
        rows.append(
            {
                "task": task.name,
                "summary": task.summary,
                "gymnasium_id": task.gymnasium_id,
                "reference": {**dataclasses.asdict(reference), "near_optimal": reference.near_optimal},
            }
        )
    _print(as_json, {"tasks": rows}, "\n".join(_task_in_words(row) for row in rows))


def _task_in_words(row: dict) -> str:
    from asap.cli.training import number, references_in_words

    reference = row["reference"]
    return (
        f"{row['task']:<20}{row['summary']}\n{'':<20}returns: {references_in_words(reference)}; "
        f"near-optimal from {number(reference['near_optimal'])}\n{'':<20}Gymnasium: {row['gymnasium_id']}"
    )


def show_settings(as_json: bool) -> None:
    from asap.config.schema import Config
    from asap.config.settings import describe

    rows = [row._asdict() for row in describe(Config)]
    lines = [
        f"{row['key']:<30}{row['default']!s:<16}{row['help']}" + (f" ({row['range']})" if row["range"] else "")
        for row in rows
    ]
    _print(as_json, {"settings": rows}, "\n".join(lines))
