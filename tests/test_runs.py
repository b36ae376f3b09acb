"""A run directory survives kills, second processes, torn logs and strange paths (bad inputs 61, 66, 68-71, 73-75)."""

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asap.base.errors import RunError, UserError
from asap.runs import checkpoints
from asap.runs import directory as runs
from asap.runs import lock as locks
from asap.runs.directory import Run
from asap.runs.events import Curve, InMemory

ARRAYS = {"beta": np.array([-0.5, 0.0, 1.0], np.float32)}
PATHS = ["run ü space", "new\nline", "-rf", " ", "ü" * 127, "a" * 255, "\udcff undecodable", "50% {x} 'q' \"", "~"]


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "run ü space", "seed = 1\n", notice=pytest.fail)


@pytest.fixture
def held(run):
    with run.locked():
        yield run


def entry(**other):
    """What is logged of an update with one seed, two tasks and two skills."""
    told = {"kind": "update", "update": 0, "seconds": 0.5, "episodes": [3], "active": [True]}
    return told | {"returns": [[1.0, None]], "success": [[0.0, 1.0]], "usage": [[0.25, 0.75]]} | other


def test_updates_are_read_as_a_learning_curve(held):
    held.append(entry())
    held.append(entry(update=7, episodes=[9]))
    curve = Curve.read(held)
    assert curve.episodes.tolist() == [[3], [9]] and curve.usage.shape == (2, 1, 2)
    assert Curve.read(InMemory()).episodes.size == 0


WRONG = [{"update": None}, {"update": {}}, {"episodes": [1, 2]}, {"episodes": 3}, {"episodes": [None]}, {"active": []}]
WRONG += [{"returns": [[1.0]]}, {"returns": [1.0, 2.0]}, {"returns": "x"}, {"usage": [[[1]]]}, {"seconds": [1]}]
WRONG += [{"seconds": 10**400}, {"episodes": [1e300]}, {"success": {"a": 1}}]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: str(wrong)[:30])
def test_updates_that_are_no_learning_curve_are_one_line(held, wrong):
    held.append(entry())
    with open(held.path / "events.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(entry(update=7) | wrong) + "\n")
    with pytest.raises(RunError, match="^run: events.jsonl has updates that are no learning curve .got .*; restore it"):
        Curve.read(held)


def live_a_life(path):
    """Everything a run does, once: what holds on a plain path holds on any."""
    config = f'name = "ü"\r\n# {path}'.replace("\udcff", "")
    run = Run.create(path, config, notice=pytest.fail)
    with run.locked():
        for step in range(1, 6):
            run.save(step, ARRAYS, {"step": step})
            if step == 2:
                run.save_best(step, ARRAYS, {"step": step})
            run.append({"step": step, "text": "ü\n"})
    again = Run.open(path, notice=pytest.fail)
    assert again.config_text() == config.encode("utf-8", "surrogateescape").decode()
    assert [event["step"] for event in again.events()] == [1, 2, 3, 4, 5]
    assert again.latest().step == 5 and again.best().step == 2
    assert len(os.listdir(again.checkpoints)) == 4
    assert sorted(os.listdir(path)) == ["checkpoints", "config.toml", "events.jsonl", "lock"]


@pytest.mark.parametrize("name", PATHS, ids=ascii)
def test_any_path_works(tmp_path, name, monkeypatch):
    live_a_life(tmp_path / name)
    monkeypatch.chdir(tmp_path / name)
    live_a_life("-relative")
    live_a_life(Run.next_free(".", name[:60]))
    assert len(list((tmp_path / name).glob("*/config.toml"))) == 2


def test_everything_works_in_the_c_locale(tmp_path):
    code = "import sys, test_runs; print(sys.getfilesystemencoding()); test_runs.live_a_life(sys.argv[1])"
    sources = os.pathsep.join([str(Path(runs.__file__).parents[1]), os.path.dirname(__file__)])
    plain = {"PYTHONPATH": sources, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", code, tmp_path / "run ü space"]
    done = subprocess.run(command, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "ascii"
    assert (tmp_path / "run ü space" / "config.toml").read_text().endswith("run ü space")


def test_a_working_directory_that_changes_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Run.create("here", "")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    with run.locked():
        run.append({"step": 1})
    assert (tmp_path / "here" / "events.jsonl").exists()


def test_next_free_numbers_are_taken_once(tmp_path):
    assert Run.next_free(tmp_path / "new", "run").name == "run-001"
    assert Run.next_free(tmp_path / "new", "run").name == "run-002"
    (tmp_path / "new" / "run-003").touch()
    assert Run.next_free(tmp_path / "new", "run") == tmp_path / "new" / "run-004"
    for stem in ("a/b", "../x", "nul\0"):
        with pytest.raises(UserError):
            Run.next_free(tmp_path, stem)
    with pytest.raises(RunError, match="File name too long"):
        Run.next_free(tmp_path, "a" * 253)


def missing(path):
    pass


def a_file(path):
    path.touch()


def an_empty_directory(path):
    path.mkdir()


def a_config_that_is(make):
    def spoil(path):
        path.mkdir()
        make(path / "config.toml")

    return spoil


@pytest.mark.parametrize(
    "spoil, word",
    [
        (missing, "no such directory"),
        (a_file, "is a file, not a run directory"),
        (an_empty_directory, "not a run directory: no config.toml"),
        (a_config_that_is(lambda path: path.write_bytes(b"\xff\xfe")), "config.toml: not UTF-8"),
        (a_config_that_is(lambda path: path.mkdir()), "config.toml: not a regular file but a directory"),
        (a_config_that_is(os.mkfifo), "config.toml: not a regular file but a FIFO"),
        (a_config_that_is(lambda path: path.symlink_to("/etc/passwd")), "config.toml: path escapes run directory"),
    ],
)
def test_what_is_not_a_run_is_named(tmp_path, spoil, word):
    spoil(tmp_path / "x")
    with pytest.raises(UserError, match=rf"^run: .*{word}.* \(got .*x\); "):
        Run.open(tmp_path / "x")


def test_creating_takes_nothing_from_anybody(tmp_path, run):
    with pytest.raises(UserError, match="already exists .* resume it"):
        Run.create(run.path, "other")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="is a file, not a directory"):
        Run.create(tmp_path / "file", "")
    with pytest.raises(RunError, match="cannot create: Not a directory"):
        Run.create(tmp_path / "file" / "below", "")
    with pytest.raises(UserError, match="config.toml would not be UTF-8"):
        Run.create(tmp_path / "new", "# \udcff")
    assert not (tmp_path / "new").exists()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").touch()
    with pytest.raises(UserError, match="other files"):
        Run.create(tmp_path / "home", "")
    assert os.listdir(tmp_path / "home") == ["thesis.tex"] and run.config_text() == "seed = 1\n"


def test_a_folder_whose_run_was_deleted_but_for_its_checkpoints_begins_anew(run):
    with run.locked():
        run.save(9, ARRAYS, {})
        run.save_best(9, ARRAYS, {})
    (run.path / "config.toml").unlink()
    (run.path / "tasks.json").touch()  # As a creation leaves it that is killed before its last step.
    new = Run.create(run.path, "seed = 2\n")
    assert new.config_text() == "seed = 2\n" and new.latest() is None and new.best() is None


def test_the_last_three_and_the_best_are_kept(run):
    with run.locked():
        for step in range(1, 7):
            run.save(step, ARRAYS, {"step": step})
            if step < 3:
                run.save_best(step, ARRAYS, {"step": step})
    names = ["best-000002", "ckpt-000004", "ckpt-000005", "ckpt-000006"]
    assert sorted(path.stem for path in run.checkpoints.iterdir()) == names
    assert (run.latest().step, run.best().step) == (6, 2)


def test_the_run_goes_on_from_the_newest_valid_checkpoint_and_says_so(run):
    said = []
    run.notice = said.append
    with run.locked():
        for step in (1, 2, 3):
            run.save(step, ARRAYS, {})
        for step in (2, 3):
            (run.checkpoints / f"ckpt-{step:06d}.safetensors").write_bytes(b"")
        assert run.latest().step == 1
        assert said == [f"ckpt-{n:06d}: empty file; using ckpt-000001" for n in (3, 2)]
        run.save(2, ARRAYS, {"again": True})
        assert run.latest().meta == {"again": True}


def test_litter_of_a_killed_writer_is_removed_by_the_next(run):
    litter = [folder / ".tmp-4711-abcd" for folder in (run.path, run.checkpoints)]
    for path in litter:
        path.touch()
    Run.open(run.path).latest()
    assert all(path.exists() for path in litter), "reading must not touch what a live writer may be writing"
    with run.locked():
        assert not any(path.exists() for path in litter)


def test_a_checkpoint_folder_that_leads_out_of_the_run_is_refused(tmp_path, run):
    run.checkpoints.rmdir()
    (tmp_path / "victim").mkdir()
    run.checkpoints.symlink_to(tmp_path / "victim")
    with pytest.raises(RunError, match="path escapes run directory"):
        Run.open(run.path)
    with pytest.raises(RunError, match="path escapes run directory"), run.locked():
        pass


def test_a_directory_without_permission_is_one_line(run):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere; test_checkpoints remounts a disk read-only instead")
    with run.locked():
        run.save(1, ARRAYS, {})
        for folder in (run.checkpoints, run.path):
            folder.chmod(0o555)
        for attempt in (lambda: run.save(2, ARRAYS, {}), lambda: run.append({})):
            with pytest.raises(RunError, match="Permission denied"):
                attempt()
    try:
        assert Run.open(run.path).latest().step == 1
        (run.path / "lock").chmod(0o444)
        with pytest.raises(RunError, match="Permission denied"), run.locked():
            pass
        run.path.chmod(0o000)
        with pytest.raises(UserError, match="config.toml: cannot read: Permission denied"):
            Run.open(run.path)
    finally:
        run.path.chmod(0o755)
        run.checkpoints.chmod(0o755)


# Events ---------------------------------------------------------------------------------------------------------------


def test_events_are_strict_json_whatever_the_numbers(held):
    values = {"nan": float("nan"), "inf": [-float("inf"), np.float32("nan")], "i": np.int64(3), "b": np.bool_(True)}
    values |= {"array": np.array([1.5, np.nan]), "path": Path("some/ü"), "odd": "\udcff", "t": (1, None), 7: 1.0}
    held.append(values)
    line = (held.path / "events.jsonl").read_bytes()
    event = json.loads(line.decode("ascii"), parse_constant=pytest.fail)
    assert line.endswith(b"}\n") and line.count(b"\n") == 1
    assert event["nan"] is None and event["inf"] == [None, None] and event["i"] == 3 and event["b"] is True
    assert event["array"] == [1.5, None] and event["path"] == "some/ü" and event["odd"] == "\udcff"
    assert event["t"] == [1, None] and event["7"] == 1.0
    assert list(held.events()) == [event]


def test_a_log_cut_at_any_byte_is_read_and_continued(held):
    said = []
    held.notice = said.append
    for step in range(3):
        held.append({"step": step, "text": "ü\n{"})
    log = held.path / "events.jsonl"
    whole = log.read_bytes()
    ends = [position + 1 for position, byte in enumerate(whole) if byte == 10]
    for length in range(len(whole) + 1):
        log.write_bytes(whole[:length])
        # An event without its newline is complete: it ends with the brace that opened it.
        num_whole = sum(end <= length + 1 for end in ends)
        torn = length not in [0, *ends, *(end - 1 for end in ends)]
        said.clear()
        assert [event["step"] for event in held.events()] == list(range(num_whole))
        assert ["torn last line ignored" in line for line in said] == [True] * torn
        said.clear()
        held.append({"step": "next"})
        held.append({"step": "after"})
        assert ["torn last line cut off" in line for line in said] == [True] * torn
        said.clear()
        assert [event["step"] for event in held.events()] == [*range(num_whole), "next", "after"] and not said


def test_rubbish_inside_the_log_is_skipped_with_one_notice(run):
    said = []
    run.notice = said.append
    (run.path / "events.jsonl").write_bytes(b'{"step": 1}\n\x00\xff\n[1]\n' + b"[" * 50_000 + b'\n{"step": 2}\n')
    assert [event["step"] for event in run.events()] == [1, 2]
    assert said == ["events.jsonl: unreadable lines ignored (3)"]


@pytest.mark.parametrize("spoil", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/full", path)])
def test_a_log_that_is_no_file_is_refused_without_hanging(held, spoil):
    spoil(held.path / "events.jsonl")
    with pytest.raises(RunError, match="events.jsonl"):
        held.append({"step": 1})
    with pytest.raises(RunError, match="events.jsonl"):
        list(held.events())


def test_a_full_disk_does_not_tear_the_log(held, monkeypatch):
    held.append({"step": 1})
    write = os.write

    def write_a_little_then_fail(descriptor, data):
        if len(data) < 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[:5])

    monkeypatch.setattr(os, "write", write_a_little_then_fail)
    with pytest.raises(RunError, match="cannot write events.jsonl: No space left on device"):
        held.append({"step": 2, "text": "long enough"})
    monkeypatch.undo()
    held.append({"step": 3})
    assert [event["step"] for event in held.events()] == [1, 3]


def test_a_log_without_lines_is_read_in_little_memory(run, monkeypatch):
    """Three million bytes without an end, where a line has at most a thousand."""
    said, sizes = [], []
    run.notice = said.append
    monkeypatch.setattr("asap.runs.directory.MAX_LINE", 1000)
    monkeypatch.setattr("asap.runs.directory.parsed", lambda line: sizes.append(len(line)))
    (run.path / "events.jsonl").write_bytes(bytes(3_000_000))
    assert list(run.events()) == [] and max(sizes) == 1000
    assert said == ["events.jsonl: unreadable lines ignored (3,000)"]
    with run.locked():
        run.append({"step": 1})
    assert max(sizes) == 1000 and (run.path / "events.jsonl").read_bytes() == b'{"step": 1}\n'


def test_a_config_that_is_no_config_is_read_in_little_memory(run):
    os.truncate(run.path / "config.toml", 3 << 30)
    with pytest.raises(UserError, match="config.toml: over 1,000,000 bytes"):
        Run.open(run.path)
    with pytest.raises(UserError, match="would be over 1,000,000 bytes"):
        Run.create(run.path, "#" * 1_000_001)


# The lock -------------------------------------------------------------------------------------------------------------

NO_FLOCK = """
import errno, fcntl
def flock(descriptor, operation):
    raise OSError(errno.ENOLCK, "No locks available")
fcntl.flock = flock
"""
HOLD = """
import os, sys, time
from asap.runs.directory import Run
with Run.open(sys.argv[1]).locked():
    orphan = os.fork()  # A worker that outlives its killed parent must not keep the run.
    if orphan == 0:
        print(os.getpid(), flush=True)
        os.close(0), os.close(1), os.close(2)
        time.sleep(60)
        os._exit(0)
    sys.stdin.read()
os.kill(orphan, 9)
"""


def without_flock(monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.parametrize("ending", ["finish", "kill"])
@pytest.mark.parametrize("has_flock", [True, False])
def test_one_process_at_a_time(run, monkeypatch, has_flock, ending):
    said = []
    run.notice = said.append
    code = HOLD if has_flock else NO_FLOCK + HOLD
    command = [sys.executable, "-c", code, run.path]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if not has_flock:
        without_flock(monkeypatch)
    with child:
        orphan = int(child.stdout.readline())
        who = f"^run: in use by pid {child.pid} on host {socket.gethostname()} since 20"
        with pytest.raises(RunError, match=f"{who}.*; wait for it or choose another --out"), run.locked():
            pass
        with pytest.raises(UserError, match="already exists"):
            Run.create(run.path, "seed = 2\n")
        if ending == "kill":
            child.kill()
        child.stdin.close()
        child.wait()
        with run.locked():  # A dead owner is taken over.
            assert json.loads((run.path / "owner.json").read_text())["pid"] == os.getpid()
        if ending == "kill":
            os.kill(orphan, 9)
    assert run.config_text() == "seed = 1\n" and not (run.path / "owner.json").exists()
    assert all("no flock" in line for line in said) and bool(said) != has_flock


WITHOUT_THE_LOCK = [
    lambda run: run.append({"kind": "error"}),
    lambda run: run.save(7, ARRAYS, {}),
    lambda run: run.save_best(7, ARRAYS, {}),
    lambda run: run.write_config("seed = 7\n"),
]


@pytest.mark.parametrize("write", WITHOUT_THE_LOCK)
def test_nothing_is_written_without_the_lock(run, write):
    """Half a line of the holder, who is about to write the rest, would be cut off by another who appends."""
    log = run.path / "events.jsonl"
    with run.locked():
        log.write_bytes(b'{"step": 1, "ret')
        with pytest.raises(RunError, match="not locked by this process"):
            write(Run.open(run.path))
        assert log.read_bytes() == b'{"step": 1, "ret'
    with pytest.raises(RunError, match="not locked by this process"):
        write(run)
    assert run.config_text() == "seed = 1\n" and not os.listdir(run.checkpoints)


def test_a_forked_child_writes_nothing(held, monkeypatch):
    with monkeypatch.context() as child, pytest.raises(RunError, match="not locked by this process"):
        child.setattr(os, "getpid", lambda: 1)
        held.append({"step": 1})
    assert list(held.events()) == []


def test_the_same_process_cannot_lock_twice(run):
    with run.locked(), pytest.raises(RunError, match=f"in use by pid {os.getpid()}"), Run.open(run.path).locked():
        pass
    with run.locked():
        pass


def test_a_lock_is_released_when_the_work_fails(run):
    with pytest.raises(ZeroDivisionError), run.locked():
        1 / 0
    with run.locked():
        pass
    assert not locks._held


@pytest.mark.parametrize(
    "owner", [b"", b"{}", b"[]", b"\xff", b'{"pid": "1", "host": "%s"}', b'{"pid": 4194305, "host": "elsewhere"}']
)
def test_with_flock_a_stale_owner_file_is_ignored_without_flock_doubt_protects(run, monkeypatch, owner):
    path = run.path / "owner.json"
    path.write_bytes(owner.replace(b"%s", socket.gethostname().encode()))
    with run.locked():
        pass
    path.write_bytes(owner.replace(b"%s", socket.gethostname().encode()))
    without_flock(monkeypatch)
    run.notice = lambda text: None
    with pytest.raises(RunError, match="in use by an unknown process.*remove its owner.json"), run.locked():
        pass


def test_two_processes_cannot_both_evict_a_dead_owner(run, monkeypatch):
    path, rename = run.path / "owner.json", os.rename
    me = {"host": socket.gethostname(), "started": "x"}
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    path.write_text(json.dumps(me | {"pid": dead.pid}))

    def rename_after_another_moved_in(source, target):
        if source == path:
            path.write_text(json.dumps(me | {"pid": os.getpid()}))
        rename(source, target)

    without_flock(monkeypatch)
    monkeypatch.setattr(os, "rename", rename_after_another_moved_in)
    run.notice = lambda text: None
    with pytest.raises(RunError, match=f"in use by pid {os.getpid()}"), run.locked():
        pass
    assert json.loads(path.read_text())["pid"] == os.getpid()


def test_a_claim_that_cannot_be_signed_is_withdrawn(run, monkeypatch):
    def fail():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    without_flock(monkeypatch)
    monkeypatch.setattr(locks, "_introduction", fail)
    run.notice = lambda text: None
    with pytest.raises(RunError, match="cannot lock: No space left on device"), run.locked():
        pass
    assert not (run.path / "owner.json").exists()


LEAVE_IN_A_FORK = """
import os, sys
from asap.runs.directory import Run
run = Run.open(sys.argv[1])
with run.locked():
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
    print((run.path / "owner.json").exists())
"""


def test_a_forked_child_that_leaves_the_block_gives_nothing_back(run):
    done = subprocess.run([sys.executable, "-c", LEAVE_IN_A_FORK, run.path], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize("spoil", [os.mkdir, lambda path: os.symlink("../elsewhere", path)])
def test_a_lock_that_is_no_file_is_refused(run, spoil):
    (run.path / "lock").unlink()
    spoil(run.path / "lock")
    with pytest.raises(RunError, match="cannot lock: "), run.locked():
        pass


def test_too_few_file_descriptors_is_one_line(run):
    code = (
        "import os, resource, sys; from asap.runs.directory import Run; import numpy, safetensors.numpy\n"
        "run, other = Run.open(sys.argv[1]), Run.open(sys.argv[1]); holding = run.locked(); holding.__enter__(); run.save(1, {}, {})\n"
        "used = os.open('/', os.O_RDONLY); resource.setrlimit(resource.RLIMIT_NOFILE, (used, used))\n"
        "save, append, lock = lambda: run.save(2, {}, {}), lambda: run.append({}), other.locked().__enter__\n"
        "for do in (save, append, lock, run.latest):\n"
        "    try: do()\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, run.path], capture_output=True, text=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["RunError"] * 4, done.stdout + done.stderr
    assert done.stdout.count("Too many open files") == 4 and checkpoints.newest(run.checkpoints, pytest.fail).step == 1


def test_notices_go_to_stderr(tmp_path, capsys):
    run = Run.create(tmp_path / "run", "")
    (run.path / "events.jsonl").write_bytes(b'{"st')
    assert list(run.events()) == []
    assert capsys.readouterr() == ("", "note: events.jsonl: torn last line ignored (4 bytes)\n")


def test_the_process_of_another_user_is_alive(monkeypatch):
    """The system refuses to signal it: it is there."""

    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    assert locks._may_be_alive(12345)


def test_a_run_that_appears_before_the_lock_is_held_stays(tmp_path, monkeypatch):
    """Two processes create the same run: the second finds it once it has the lock."""
    locked = Run.locked

    def late(run):
        (run.path / "config.toml").write_text("seed = 1\n")
        return locked(run)

    monkeypatch.setattr(Run, "locked", late)
    with pytest.raises(UserError, match="already exists"):
        Run.create(tmp_path / "run", "seed = 2\n", notice=pytest.fail)
    assert (tmp_path / "run" / "config.toml").read_text() == "seed = 1\n"
