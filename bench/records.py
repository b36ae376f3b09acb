"""The best readable policy on the problems that people compare on: measured here, and written to docs/records.md.

    .venv/bin/python bench/records.py --only CartPole-v1            # ten fresh seeds of `asap train CartPole-v1`
    .venv/bin/python bench/records.py --system asap --jobs 2        # all rows, two seeds at a time
    .venv/bin/python bench/records.py --page                        # only the page, from what is finished

A row of records_rows.py is the command `asap train ENV --steps N`, by the defaults or with the flags that stand there, on
seeds that no setting was chosen on. Its rivals get equally many steps: PPO with a network, a tree distilled from it, and
ARS with a linear policy. They live in an environment of their own, which is made when it is not there.

Each seed has a process of its own. It is played by the most probable actions, by drawn ones, and as its printed rules.
What is finished is kept, one JSON object in a line, and not run again: the same row, seed, steps, settings and code of the
library (of rivals, without the latter). A training that was stopped is resumed. MuJoCo needs the extra `mujoco`.
"""

import argparse
import os
import queue
import sys
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

from records_page import write_page
from records_rivals import PACKAGES
from records_rows import FIRST_FRESH_SEED, ROWS
from records_trainings import SYSTEMS, Training, digest_of_code, systems_of
from trainings import Failed, Finished, Processes, positive, rival_python, tell

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    options, processes = parse(), Processes()
    finished = Finished(options.out / "records.jsonl")
    failed = []
    if not options.page:
        with processes.ended_with_this():
            failed = run_all(options, finished, processes)
    page = write_page(finished.kept, options.docs, options.examples, options.steps, plays=not options.text)
    tell(f"wrote {page}")
    if failed:
        sys.exit(f"bench: failed: {', '.join(failed)}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    some = {"action": "append", "metavar": "NAME"}
    parser.add_argument("--only", choices=ROWS, help="this row; may be repeated", **some)
    parser.add_argument("--system", choices=SYSTEMS, help="asap, ppo (with its tree) or ars; default: all", **some)
    parser.add_argument("--seeds", type=positive, metavar="N", help="default: ten, of MuJoCo five")
    parser.add_argument("--seed", type=int, default=FIRST_FRESH_SEED, metavar="FIRST", help="the first of the seeds")
    parser.add_argument("--steps", type=positive, metavar="N", help="in place of each row's budget, to try things out")
    parser.add_argument(
        "--jobs", type=positive, default=1, metavar="N", help="seeds at a time, each on a core of its own"
    )
    parser.add_argument("--page", action="store_true", help="train nothing: write the page from what is finished")
    parser.add_argument("--text", action="store_true", help="play and draw nothing for the page: it keeps its pictures")
    parser.add_argument(
        "--out", type=Path, default=Path("bench-results"), metavar="DIR", help="finished seeds, and runs"
    )
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", metavar="DIR", help="where the page goes")
    parser.add_argument("--examples", type=Path, default=ROOT / "examples/rules", metavar="DIR", help="files of rules")
    parser.add_argument("--rival-env", type=Path, default=Path(".venv-sb3"), metavar="DIR", help="of the rivals")
    return parser.parse_args()


def planned(options: argparse.Namespace) -> Iterator[Training]:
    """Row by row and seed by seed, the systems in turns."""
    for name in options.only or ROWS:
        row = ROWS[name]
        if row.is_best and not row.flags:
            tell(f"{name}: has no flags yet, see records_rows.py")
        for seed in range(options.seed, options.seed + (options.seeds or row.about.seeds)):
            for system in systems_of(row):
                if system in (options.system or SYSTEMS):
                    yield Training(name, system, seed, options.steps or row.about.steps)


def run_all(options: argparse.Namespace, finished: Finished, processes: Processes) -> list[str]:
    """Those that failed; the others are not kept from running."""
    code, trainings = digest_of_code(), list(planned(options))
    left = [training for training in trainings if training.key(code) not in finished.kept]
    tell(f"{len(trainings)} trainings, {len(trainings) - len(left)} of them finished before; code {code}")
    pythons = {"asap": Path(sys.executable)}
    if any(training.system != "asap" for training in left):
        pythons |= dict.fromkeys(SYSTEMS[1:], rival_python(options.rival_env, PACKAGES))
    failed: list[str] = []
    cores: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    known = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    for place in range(options.jobs):  # One job alone goes where the system wants it.
        cores.put(known[place % len(known)] if known and options.jobs > 1 else None)

    def run(number: int, training: Training) -> None:
        core, name = cores.get(), f"{number}/{len(left)} {training.name} {training.system} seed {training.seed}"
        try:
            tell(f"{name}: started")
            script = "records_asap.py" if training.system == "asap" else "records_sb3.py"
            job = training.job(options.out / "records-runs", code)
            report = processes.run(pythons[training.system], script, job, name, core)
            finished.keep(training.key(code), report, training.settings)
            tell(f"{name}: return {report['return']:.1f}, {report['steps']:,} steps")
        except Failed as error:
            tell(str(error))
            failed.append(name)
        finally:
            cores.put(core)

    with ThreadPoolExecutor(options.jobs) as pool:
        futures: list[Future] = [pool.submit(run, number, training) for number, training in enumerate(left, 1)]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            processes.end()
            raise
    return failed


if __name__ == "__main__":
    main()
