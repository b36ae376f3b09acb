"""Whoever plays, and whatever happens to them, the episodes are the same; and nobody is left behind (bad inputs 22-25,
33, 34, 37, 67, 84-86)."""

import contextlib
import functools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from ray_network import require_ray

from asap.base.episodes import EpisodeId
from asap.base.errors import RunError, UserError
from asap.envs.gymnasium.make import EnvLimits, EnvSource, HostedSource
from asap.policy.host import Plan
from asap.workers import dispatch, pool
from asap.workers import hire as hiring
from asap.workers.dispatch import Dispatcher
from asap.workers.failures import failure
from asap.workers.hire import InProcess
from asap.workers.messages import Ready
from asap.workers.pool import Pool
from asap.workers.work import Died, Event, Failed, Finished, Work, WorkerProgress, Workers, digest

TESTS = Path(__file__).parent
PATH = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])  # For other interpreters.


def new_plan() -> Plan:
    rng = np.random.default_rng(0)
    psi = {"kind": "polynomial", "degree": 1, "inputs": [0, 1, 2, 3], "observations": 4}
    arrays = {
        "psi.shift": np.zeros(4),
        "psi.scale": np.ones(4),
        "beta": rng.normal(size=(2, 5)),
        "alpha_beta": np.asarray(20.0),
        "theta": rng.normal(size=(4, 2, 1)),
        "alpha_theta": np.asarray(1.0),
    }
    return Plan({"psi": psi, "phi": {"kind": "constant"}, "skills": "gibbs", "termination": None}, arrays)


def new_works(count: int, size: int = 5) -> list[Work]:
    return [Work(i, new_plan(), tuple(EpisodeId(3, 0, size * i + j) for j in range(size))) for i in range(count)]


def digests(results: list[Finished]) -> list[str]:
    return [digest(played) for finished in results for played in finished.played]


def walk(name: str = "walk", **options) -> EnvSource:
    return EnvSource(f"worker_envs:{name}", options)


def hosted(*sources: EnvSource) -> tuple[HostedSource, ...]:
    return tuple(HostedSource(source, EnvLimits()) for source in sources)


def new_ray(sources: tuple[HostedSource, ...]) -> Workers:
    """On a cluster that all tests share: starting one takes seconds."""
    ray = require_ray()
    from asap.workers.ray_cluster import RayWorkers, connect

    connect(None, 2)
    assert ray.is_initialized()
    return RayWorkers(sources, 2)


@pytest.fixture(scope="module", autouse=True)
def no_ray_is_left():
    yield
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()


BACK_ENDS = {
    "in process": InProcess,
    "pool of 1": functools.partial(Pool, num_workers=1),
    "pool of 2": functools.partial(Pool, num_workers=2),
    "pool of 3": functools.partial(Pool, num_workers=3),
    "ray": new_ray,
}
PROTECTED = [name for name in BACK_ENDS if name not in ("in process", "pool of 3")]


class Told(list):
    """Notices to the user."""

    def __call__(self, line: str) -> None:
        self.append(line)


@contextlib.contextmanager
def dispatching(workers: Workers, told: Told | None = None, **settings):
    def explain(failed):
        return failure(failed, EnvSource("NAME"))

    dispatcher = Dispatcher(workers, explain, Told() if told is None else told, **settings)
    try:
        yield dispatcher
    finally:
        dispatcher.close()


def play(back_end: str, source: EnvSource, works: list[Work], told: Told | None = None, **settings) -> list[Finished]:
    with dispatching(BACK_ENDS[back_end](hosted(source)), told, **settings) as dispatcher:
        return dispatcher.play(works)


@functools.cache
def expected(count: int) -> list[str]:
    """Digests of the walk's episodes."""
    return digests(play("in process", walk(), new_works(count)))


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_the_same_bits_in_the_same_order(back_end):
    works = new_works(8)
    with dispatching(BACK_ENDS[back_end](hosted(walk()))) as dispatcher:
        first, again = dispatcher.play(works), dispatcher.play(works[::-1])
    assert [finished.number for finished in first] == list(range(8))
    assert digests(first) == digests(again[::-1]) == expected(8)
    assert len(set(digests(first))) == 40


def test_bits_of_an_environment_of_gymnasium():
    found = {tuple(digests(play(name, EnvSource("CartPole-v1"), new_works(4)))) for name in ("in process", "pool of 2")}
    assert len(found) == 1


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_an_environment_that_raises_is_one_line_and_always_the_same(back_end):
    with pytest.raises(RunError, match="env raised RuntimeError: simulator gone at episode 8 step 3") as raised:
        play(back_end, walk("fails", what="raise"), new_works(8))
    assert f"(seed {EpisodeId(3, 0, 8).reset_seed})" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("back_end", ["pool of 2", "ray"])
@pytest.mark.parametrize(
    "source, line", [(EnvSource("CartPol-v1"), "CartPole-v1"), (walk("stubborn_exit"), "no licence")]
)
def test_what_the_user_must_know_is_not_tried_again(back_end, source, line):
    with pytest.raises(UserError, match=line) as raised:
        play(back_end, source, new_works(1))
    assert raised.value.exit_code == 2 and raised.value.field == "env"


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_what_environments_print_stays_off_our_stdout(back_end, capfd):
    if back_end == "in process":
        pytest.skip("a child process writes to the descriptor of its parent")
    results = play(back_end, walk("fails", what="print"), new_works(3))
    assert digests(results) == expected(3)
    assert capfd.readouterr() == ("", "")


def test_what_environments_print_is_kept_in_the_log(tmp_path):
    log = tmp_path / "workers.log"
    with dispatching(Pool(hosted(walk("fails", what="print")), 2, log)) as dispatcher:
        dispatcher.play(new_works(3))
    assert "to the descriptor\n" in log.read_text() and "from a child\n" in log.read_text()


@pytest.mark.parametrize("back_end", PROTECTED)
@pytest.mark.parametrize("where", ["step", "reset"])
def test_one_that_hangs_once_is_replaced(back_end, where, tmp_path):
    told = Told()
    source = walk("fails", what="hang", where=where, once=str(tmp_path / "once"))
    assert digests(play(back_end, source, new_works(3), told, step_timeout=1.0)) == expected(3)
    assert len(told) == 1
    assert told[0].endswith("silent for 1 s in episode 8; restarted (1/5)") and told[0].startswith("worker ")


@pytest.mark.parametrize("back_end", PROTECTED)
@pytest.mark.parametrize("what, reason", [("exit", "exit code 3"), ("kill", "signal 9")])
def test_one_that_dies_once_is_replaced(back_end, what, reason, tmp_path):
    told = Told()
    source = walk("fails", what=what, once=str(tmp_path / "once"))
    assert digests(play(back_end, source, new_works(3), told)) == expected(3)
    assert len(told) == 1 and told[0].endswith(f"died ({reason}) in episode 8; restarted, episode re-run")


@pytest.mark.parametrize("where, field, step", [("step", "env.step", 3), ("reset", "env.reset", 0)])
def test_one_that_always_hangs_ends_the_run(where, field, step):
    told = Told()
    with pytest.raises(RunError) as raised:
        play("pool of 2", walk("fails", what="hang", where=where), new_works(3), told, step_timeout=0.6, retries=1)
    seed = EpisodeId(3, 0, 8).reset_seed
    assert f"{field}: silent for 0.6 s, 2 times at episode 8 step {step} (seed {seed}); " in str(raised.value)
    assert [line.rpartition("; ")[2] for line in told] == ["restarted (1/1)", "given up"]


def test_one_that_always_dies_ends_the_run():
    with pytest.raises(RunError) as raised:
        play("pool of 2", walk("fails", what="exit"), new_works(3), retries=2)
    assert "env.step: the worker died (exit code 3), 3 times at episode 8 step 3" in str(raised.value)


@pytest.mark.parametrize("what, line", [("exit", r"died \(exit code 3\)"), ("hang", "silent for 3 s")])
def test_one_that_cannot_be_made_ends_the_run(what, line, monkeypatch):
    monkeypatch.setattr(pool, "PATIENCE_AT_CLOSE", 0.5)
    source, told = walk("fails", what=what, where="make"), Told()
    with pytest.raises(RunError, match=f"workers: worker 0 {line} while starting, 2 times"):
        play("pool of 1", source, new_works(1), told, step_timeout=0.5, retries=1, longest_start=3.0)
    assert len(told) == 1


def test_one_that_hangs_while_it_is_closed_is_killed(monkeypatch):
    monkeypatch.setattr(pool, "PATIENCE_AT_CLOSE", 0.5)
    workers = Pool(hosted(walk("fails", what="hang", where="close")), 2)
    with dispatching(workers) as dispatcher:
        dispatcher.play(new_works(3))
        began, pids = time.monotonic(), workers.pids()
    assert time.monotonic() - began < 2 and not any(map(is_alive, pids))


def test_kills_change_nothing():
    """Of players and of their keepers, while they play."""
    works, told = new_works(20), Told()
    workers = Pool(hosted(walk(pause=0.005)), 2)
    rng, is_over = random.Random(0), threading.Event()

    def kill():
        while not is_over.wait(0.7):
            groups = [(pid, *children(pid)) for pid in workers.pids()]
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(rng.choice(groups)), signal.SIGKILL)

    with dispatching(workers, told) as dispatcher:
        dispatcher.play(works[:2])
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            results = dispatcher.play(works)
        finally:
            is_over.set()
            killer.join()
    assert digests(results) == expected(20)
    assert sum("died (signal 9)" in line for line in told) >= 3


DRIVER = """
import signal
import sys
from asap.workers.dispatch import Dispatcher
from asap.workers.pool import Pool
from test_workers import hosted, new_works, walk
print("main", flush=True)
workers = Pool(hosted(walk("tells_pids", folder=sys.argv[1], pause=float(sys.argv[2]))), 2)
dispatcher = Dispatcher(workers, None, print)
# A background job of a shell, `make test &`, inherits a SIGINT that is ignored.
patient = "patient" in sys.argv
signal.signal(signal.SIGINT, (lambda *_: print("asked to stop")) if patient else signal.default_int_handler)
try:
    dispatcher.play(new_works(int(sys.argv[3])))
finally:
    dispatcher.close()
"""


@contextlib.contextmanager
def driver(folder: Path, pause: float, num_works: int, *more: str):
    """A program that has works played, in a process group of its own."""
    command = [sys.executable, "-c", DRIVER, str(folder), f"{pause:g}", str(num_works), *more]
    environment = {**os.environ, "PYTHONPATH": PATH}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, process_group=0
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nobody_outlives_the_driver(how, tmp_path):
    with driver(tmp_path, 0.01, 1000) as process:
        assert wait_for(lambda: len(list(tmp_path.iterdir())) == 6)
        os.killpg(process.pid, how)
        pids = [int(path.name) for path in tmp_path.iterdir()]
        process.communicate(timeout=30)
        assert wait_for(lambda: not any(map(is_alive, pids)))


def test_a_ctrl_c_in_the_terminal_is_for_the_driver_alone(tmp_path):
    with driver(tmp_path, 0.01, 4, "patient") as process:
        assert wait_for(lambda: len(list(tmp_path.iterdir())) == 6)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert (output, errors, process.returncode) == (b"main\nasked to stop\n", b"", 0)


def test_nobody_outlives_close_and_main_runs_once(tmp_path):
    with driver(tmp_path, 0.0, 1) as process:
        output, errors = process.communicate(timeout=30)
    assert (output, errors, process.returncode) == (b"main\n", b"", 0)
    assert wait_for(lambda: not any(is_alive(int(path.name)) for path in tmp_path.iterdir()))


@pytest.mark.parametrize("back_end", ["pool of 1", "ray"])
def test_factories_that_cannot_travel(back_end):
    with pytest.raises(
        UserError, match="env factory cannot be sent to workers .lambda.; |importable 'module:function'"
    ):
        BACK_ENDS[back_end](hosted(EnvSource.of(lambda: None)))


def test_workers_start_without_jax():
    code = "import sys, asap.workers.supervisor, asap.workers.play; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


class Scripted(Workers):
    """Does what the test says: each poll takes the next entry, and so many seconds of the test's clock."""

    def __init__(self, script, num_workers=1):
        self.script, self.num_workers, self.now = iter(script), num_workers, 1000.0
        self.submitted, self.restarted, self.place = [], 0, WorkerProgress()

    def submit(self, worker, work):
        self.submitted.append(work)

    def poll(self, timeout):
        seconds, events = next(self.script)
        self.now += seconds
        return events(self) if callable(events) else events

    def progress(self, worker):
        return self.place

    def restart(self, worker):
        self.restarted += 1

    def close(self): ...


def started(worker: int) -> Event:
    return Event(worker, Ready({}))


@pytest.fixture
def scripted(monkeypatch):
    def new(*script, num_workers=1):
        workers = Scripted(script, num_workers)
        monkeypatch.setattr(dispatch.time, "monotonic", lambda: workers.now)
        return workers

    return new


def played(count: int) -> list[Finished]:
    return play("in process", walk(), new_works(count))


def test_a_driver_that_was_asleep_blames_nobody(scripted):
    done, told = played(1)[0], Told()
    workers = scripted((0, [started(0)]), (1, []), (500, []), (1, []), (0, [Event(0, done)]))
    with dispatching(workers, told) as dispatcher:
        assert dispatcher.play(new_works(1)) == [done]
    assert told == [] and workers.restarted == 0


def test_one_that_is_late_but_shows_progress_is_not_silent(scripted):
    done = played(1)[0]

    def move(workers):
        workers.place = WorkerProgress(0, 0, workers.place.step + 1)
        return []

    workers = scripted((0, [started(0)]), *[(1, [])] * 29, (0, move), *[(1, [])] * 29, (0, [Event(0, done)]))
    with dispatching(workers) as dispatcher:
        assert dispatcher.play(new_works(1)) == [done]
    assert workers.restarted == 0


def test_a_second_result_must_be_the_same(scripted):
    first, second = played(2)
    script = (0, [started(0), started(1)]), (0, [Event(0, first), Event(1, first)]), (0, [Event(1, second)])
    with dispatching(scripted(*script, num_workers=2)) as dispatcher:
        assert dispatcher.play(new_works(2)) == [first, second]
    other = first._replace(played=tuple(episode._replace(rewards=episode.rewards + 1) for episode in first.played))
    script = (0, [started(0), started(1)]), (0, [Event(0, first), Event(1, other)])
    with dispatching(scripted(*script, num_workers=2)) as dispatcher:
        with pytest.raises(RunError, match="env: episode 0 gave two different digests for the same seed"):
            dispatcher.play(new_works(2))


def test_of_several_failures_the_first_in_order_is_told(scripted):
    first, *others = played(3)
    failures = [failing(other) for other in others]
    for order in (failures, failures[::-1]):
        script = (
            (0, [started(0), started(1), started(2)]),
            *((0, [Event(0, other)]) for other in order),
            (0, [Event(1, first)]),
        )
        with dispatching(scripted(*script, num_workers=3)) as dispatcher:
            with pytest.raises(RunError, match="env.step: broken at episode 5 step 1 "):
                dispatcher.play(new_works(3))


def failing(finished: Finished) -> Finished:
    return Finished(finished.number, (), Failed(finished.played[0].episode, "env.step", "broken", "", 1, [0], ""))


def test_results_of_a_work_given_up_are_let_go(scripted):
    first, second = played(2)
    events = started(0), Event(0, Died("signal 9")), started(0), Event(0, first), Event(0, second)
    workers = scripted(*((0, [event]) for event in events))
    with dispatching(workers, retries=0) as dispatcher:
        with pytest.raises(RunError, match="env.reset: the worker died"):
            dispatcher.play(new_works(2)[:1])
        assert dispatcher.play(new_works(2)[1:]) == [second]


def test_external_kills_at_other_steps_do_not_end_a_run(scripted):
    done = played(1)[0]

    def die(step):
        def events(workers):
            workers.place = WorkerProgress(0, 2, step)
            return [Event(0, Died("signal 9"))]

        return events

    script = [entry for step in range(20) for entry in ((0, [started(0)]), (0, die(step)))]
    workers = scripted(*script, (0, [started(0)]), (0, [Event(0, done)]))
    with dispatching(workers, retries=2) as dispatcher:
        assert dispatcher.play(new_works(1)) == [done]


def test_without_workers_it_waits_or_fails(scripted):
    done, told = played(1)[0], Told()
    script = [(1, [])] * 130
    workers = scripted(*script, (0, [started(0)]), (0, [Event(0, done)]), num_workers=4)
    workers.progress = lambda worker: None
    with dispatching(workers, told) as dispatcher:
        assert dispatcher.play(new_works(1)) == [done]
    assert told == ["0 of 4 workers alive for 60 s: waiting"] * 2
    workers = scripted(*script, num_workers=4)
    workers.progress = lambda worker: None
    with dispatching(workers, on_no_workers="fail") as dispatcher:
        with pytest.raises(RunError, match="workers: 0 of 4 workers alive for 60 s"):
            dispatcher.play(new_works(1))


def test_who_hires_them_decides_whether_it_waits_or_fails(scripted, monkeypatch, tmp_path):
    done, told = played(1)[0], Told()

    def hired(script, **settings) -> Dispatcher:
        workers = scripted(*script)
        workers.progress = lambda worker: None
        monkeypatch.setattr(hiring, "Pool", lambda *_: workers)
        return hiring.hire("1", hosted(walk()), tmp_path, told, **settings)

    silence = [(1, [])] * 70
    assert hired([*silence, (0, [started(0)]), (0, [Event(0, done)])]).play(new_works(1)) == [done]
    assert told == ["0 of 1 workers alive for 60 s: waiting"]
    with pytest.raises(RunError, match="workers: 0 of 1 workers alive for 60 s"):
        hired(silence, on_no_workers="fail").play(new_works(1))


def test_starts_that_fail_count_only_in_a_row(scripted):
    """Twelve of them where ten would be too many, but after each a start that goes well."""
    done = played(1)[0]
    fails, starts, dies = Event(0, Died("exit code 3")), started(0), Event(0, Died("killed"))
    workers = scripted(*[(0, [fails, starts, dies])] * 12, (0, [starts]), (0, [Event(0, done)]))
    with dispatching(workers, retries=1) as dispatcher:
        assert dispatcher.play(new_works(1)) == [done]
    assert workers.restarted == 24


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
