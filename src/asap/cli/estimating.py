"""`asap eval RUN --offline FILE`: what logged data say about the learned policies, beside what playing says."""

import json

FEWEST = 30  # Effective episodes below which neither the estimate nor its interval means much.
TOO_FEW = " (too few: do not trust it)"


def estimate_run(path: str, data: str, episodes: int, seed: int, best: bool, as_json: bool) -> None:
    from asap.data.dataset import Dataset
    from asap.data.layout import layout_of
    from asap.experience.off_policy import estimate, true_value
    from asap.offline.source import local_file
    from asap.trained import Trained

    trained = Trained.load(path, best)
    named = trained.named[0]
    dataset = Dataset(local_file(data), layout_of(named))
    discount = named.env.spec.discount
    rows = []
    for index in range(trained.config.run.seeds):
        policy = trained.policy(index)
        judged, played = estimate(policy, dataset, discount, seed), true_value(policy, named, episodes, seed)
        told = judged.value._asdict() if judged.available else None
        rows.append(
            {"seed": trained.config.run.seed + index, "estimate": told, "ess": judged.ess, "played": played._asdict()}
        )
    report = {
        "task": named.name,
        "data": data,
        "data_episodes": dataset.num_episodes,
        "discount": discount,
        "seeds": rows,
        "run": path,
    }
    print(json.dumps(report) if as_json else "\n".join(in_words(row, report) for row in rows))


def in_words(row: dict, report: dict) -> str:
    played = f"played: {_told(row['played'], report)}"
    if row["estimate"] is None:
        return f"seed {row['seed']}: no estimate: the behaviour is deterministic or unknown, so importance weights do not exist; {played}"
    worth = f"worth {row['ess']:,.1f} of {report['data_episodes']:,} episodes" + (
        TOO_FEW if row["ess"] < FEWEST else ""
    )
    return f"seed {row['seed']}: estimate: {_told(row['estimate'], report)}, {worth}; {played}"


def _told(value: dict, report: dict) -> str:
    (low, high), (least, most) = value["undiscounted_ci"], value["discounted_ci"]
    return (
        f"return {value['undiscounted']:.1f} ({low:.1f} to {high:.1f}), "
        f"discounted by {report['discount']:g} {value['discounted']:.1f} ({least:.1f} to {most:.1f})"
    )
