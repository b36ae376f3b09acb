"""Promise: what is written into a run stays in it, whatever lies there; what is read costs no more than it is worth.

A link out of the run is not written through, a FIFO is not waited for, a huge file is not read whole.
"""

import builtins
import io
import os
from pathlib import Path

import pytest
from command_line import asap
from matplotlib.figure import Figure

from asap import ASAP
from asap.base import files
from asap.base.errors import RunError, UserError
from asap.envs.gymnasium.make import EnvLimits, EnvSource, HostedSource
from asap.paper.claims import Picture
from asap.runs import checkpoints
from asap.workers.failures import MAX_RECORDING, Recording
from asap.workers.pool import Pool

RECORDING = Recording("X-v0", {}, EnvLimits()._asdict(), 1, [0], "env.step: reward is nan")
SOURCES = (HostedSource(EnvSource("CartPole-v1"), EnvLimits()),)


def link(path: Path) -> None:
    precious = path.parent.parent / "precious.txt"
    precious.write_text("precious")
    path.symlink_to(precious)


SPOILS = {"link": link, "FIFO": os.mkfifo, "directory": os.mkdir, "dangling": lambda path: path.symlink_to("../made")}


@pytest.fixture(params=SPOILS)
def spoiled(request, tmp_path):
    """A place in a run where something else lies; afterwards nothing outside of the run is touched."""
    run = tmp_path / "run"
    run.mkdir()
    SPOILS[request.param](run / "place")
    yield run / "place"
    assert not (tmp_path / "made").exists()
    assert request.param != "link" or (tmp_path / "precious.txt").read_text() == "precious"


def test_files_that_grow_are_not_opened_elsewhere(spoiled):
    with pytest.raises(OSError, match=r"symbolic links|regular file|No such device|Is a directory"):
        os.close(files.open_to_write(spoiled, os.O_WRONLY | os.O_APPEND))


def test_the_log_of_workers_is_refused_where_it_is_no_file(spoiled):
    with pytest.raises(RunError, match="run: cannot write place: "):
        Pool(SOURCES, 1, spoiled).close()


@pytest.mark.parametrize(
    "write",
    [
        lambda path: RECORDING.save(path),
        lambda path: Picture(Figure(), "").save(path),
        lambda path: files.replace(path, b"page", "page"),
    ],
    ids=["recording", "picture", "page"],
)
def test_whole_files_take_the_place_of_what_lies_there(spoiled, write):
    if spoiled.is_dir():
        with pytest.raises(RunError, match="cannot save: Is a directory"):
            write(spoiled)
    else:
        write(spoiled)
        assert spoiled.is_file() and not spoiled.is_symlink()
    assert os.listdir(spoiled.parent) == ["place"]


def test_pictures_of_a_run_stay_in_it(tmp_path, capsys, monkeypatch):
    """As in a run that was made to overwrite a file of its reader's."""
    folder = tmp_path / "run"
    folder.mkdir()
    ASAP("two-rooms", settings=["run.final_episodes=2"]).save(folder / "model.asap")
    for name in ("partition.png", "game.gif"):
        link(folder / name)
        (tmp_path / "precious.txt").unlink()
    code, _, err = asap(["plot", str(folder / "model.asap")], capsys, monkeypatch)
    assert (code, err) == (0, "") and (folder / "partition.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "precious.txt").exists()


def test_a_recording_that_is_no_file_or_too_large_is_one_line(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UserError, match="--replay: cannot be read: not a regular file but a FIFO"):
        Recording.load(tmp_path / "fifo")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", MAX_RECORDING + 1)
    with pytest.raises(UserError, match="--replay: cannot be read: over "):
        Recording.load(tmp_path / "large")
    (tmp_path / "deep").write_text("[" * 200_000)
    with pytest.raises(UserError, match="--replay: cannot be read"):
        Recording.load(tmp_path / "deep")


NAN = float("nan")
BAD_RULES = [
    {"max_steps": 0},
    {"max_steps": "x"},
    {"max_steps": 2.5},
    {"strict_obs": 1},
    {"reward_scale": 0},
    {"reward_scale": NAN},
    {"reward_scale": 10**400},
    {"reward_scale": "1"},
    {"env_retries": -1},
    {"env_retries": None},
]


@pytest.mark.parametrize("rules", BAD_RULES)
def test_rules_in_a_recording_are_checked(tmp_path, rules):
    RECORDING._replace(rules=RECORDING.rules | rules).save(tmp_path / "recording.json")
    with pytest.raises(UserError, match=f"--replay: has limits that cannot be used: {next(iter(rules))}"):
        Recording.load(tmp_path / "recording.json")


@pytest.mark.parametrize("rules", [rules for rules in BAD_RULES if rules != {"reward_scale": NAN}])  # Not in JSON.
def test_rules_in_a_saved_model_are_checked(tmp_path, monkeypatch, rules):
    seal = checkpoints.seal

    def sealed(step, arrays, meta):
        record = meta["tasks"][0] | {"rules": [*(RECORDING.rules | rules).values()]}
        return seal(step, arrays, {**meta, "tasks": [record]})

    monkeypatch.setattr(checkpoints, "seal", sealed)
    ASAP("CartPole-v1").save(tmp_path / "model.asap")
    with pytest.raises(RunError, match="model: cannot be used by this release: task: cannot be read from the file"):
        ASAP.load(tmp_path / "model.asap")


class Counted(io.BufferedReader):
    """Counts the bytes that are read of a file."""

    total = 0

    def read(self, size=-1, /):
        data = super().read(size)
        Counted.total += len(data)
        return data


def test_no_more_of_a_model_is_read_than_its_head_promises(tmp_path, monkeypatch):
    """Three gigabytes of nothing, alone and after a model."""
    empty, long = tmp_path / "empty.asap", tmp_path / "long.asap"
    empty.touch()
    ASAP("two-rooms").save(long)
    head = long.stat().st_size
    for path in (empty, long):
        os.truncate(path, 3 << 30)

    def counted(descriptor, mode):
        return Counted(io.FileIO(descriptor, mode))

    monkeypatch.setattr(files, "open", counted, raising=False)
    for path, said in ((empty, "not a saved ASAP model"), (long, "bytes too long")):
        with pytest.raises(RunError, match=said):
            ASAP.load(path)
    assert 0 < Counted.total < head and files.open is not builtins.open
