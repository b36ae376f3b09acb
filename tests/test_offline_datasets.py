"""Datasets: what is written is read; what is bad is refused with the row, or dropped; a file larger than memory
streams."""

import json
import subprocess
import sys

import numpy as np
import pytest
from command_line import asap

from asap.base.errors import UserError
from asap.data.dataset import Dataset
from asap.data.layout import Layout, Meta
from asap.data.writing import DatasetWriter

LAYOUT = Layout("two-rooms", 4, 4, np.float32([0.1, 0.2]))
LENGTHS = (3, 1, 4)


def good_columns() -> dict[str, np.ndarray]:
    """Three episodes: terminated, truncated, terminated."""
    rng = np.random.default_rng(0)
    rows = sum(LENGTHS)
    terminated, truncated = np.zeros((2, rows), bool)
    terminated[[2, 7]], truncated[3] = True, True
    return {
        "observation": rng.random((rows, 4), np.float32),
        "action": np.asarray([0, 1, 2, 3, 0, 1, 2, 3], np.int32),
        "reward": np.arange(rows, dtype=np.float32),
        "terminated": terminated,
        "truncated": truncated,
        "episode": np.repeat([5, 6, 9], LENGTHS).astype(np.int32),
        "behaviour_log_prob": np.full(rows, np.log(0.25), np.float32),
        "final_observation": rng.random((3, 4), np.float32),
    }


def write(path, columns, meta: Meta = Meta(task="two-rooms")):
    with DatasetWriter(path) as writer:
        writer.add(columns)
        writer.finish(meta)
    return path


def test_what_is_written_is_read(tmp_path):
    columns = good_columns()
    dataset = Dataset(write(tmp_path / "data ü.npz", columns), LAYOUT)
    assert (dataset.num_episodes, dataset.num_steps, dataset.longest, dataset.is_stochastic) == (3, 8, 4, True)
    np.testing.assert_array_equal(dataset.episodes.total, [3, 3, 22])
    np.testing.assert_allclose(dataset.episodes.behaviour_log_prob, np.log(0.25) * np.asarray(LENGTHS), rtol=1e-6)
    np.testing.assert_array_equal(dataset.episodes.success, [True, False, True])
    last = dataset.read(2)
    np.testing.assert_array_equal(last.observation, columns["observation"][4:])
    np.testing.assert_array_equal(last.action, [0, 1, 2, 3])
    np.testing.assert_array_equal(last.final_observation, columns["final_observation"][2])
    np.testing.assert_array_equal(last.descriptor, LAYOUT.descriptor)
    assert last.terminated and not dataset.read(1).terminated


def test_numpy_reads_and_writes_the_same_files(tmp_path):
    columns = good_columns()
    with np.load(write(tmp_path / "ours.npz", columns), allow_pickle=False) as theirs:
        assert json.loads(str(theirs["meta"]))["task"] == "two-rooms"
        for name, column in columns.items():
            np.testing.assert_array_equal(theirs[name], column)
    columns["observation"] = columns["observation"].astype(np.float64)  # As users have it.
    np.savez(tmp_path / "theirs.npz", **columns)
    dataset = Dataset(tmp_path / "theirs.npz", LAYOUT)
    np.testing.assert_array_equal(dataset.read(0).observation, columns["observation"][:3])


@pytest.mark.parametrize("kind", [np.uint8, np.uint32, np.uint64, np.int8, np.int64])
@pytest.mark.parametrize("first", ["lowest", "highest"])
def test_ids_of_any_integer_type_are_read(kind, first, tmp_path, monkeypatch):
    """From the lowest id that the type has, 0 where it has no sign, up to its highest."""
    monkeypatch.setattr("asap.data.scan.CHUNK_ROWS", 2)
    columns, ends = good_columns(), np.iinfo(kind)
    ids = [ends.min, ends.min + 1, ends.max] if first == "lowest" else [ends.max - 2, ends.max - 1, ends.max]
    columns["episode"] = np.repeat(np.array(ids, kind), LENGTHS)
    np.savez(tmp_path / "data.npz", **columns)
    assert Dataset(tmp_path / "data.npz", LAYOUT).episodes.length.tolist() == list(LENGTHS)


def test_chunks_do_not_matter(tmp_path, monkeypatch):
    path = write(tmp_path / "data.npz", good_columns())
    whole = Dataset(path, LAYOUT).episodes
    monkeypatch.setattr("asap.data.scan.CHUNK_ROWS", 2)
    for ours, theirs in zip(whole, Dataset(path, LAYOUT).episodes, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def changed(name, rows, value):
    def change(columns):
        columns[name] = columns[name].copy()
        columns[name][rows] = value

    return change


def without(name):
    return lambda columns: columns.pop(name)


def cut(name, rows):
    return lambda columns: columns.update({name: columns[name][:rows]})


# (id, what is done to good columns, must contain)
SPOILED = [
    ("76 reward", without("reward"), "column 'reward' missing; has observation, action, terminated"),
    ("76 final", without("final_observation"), "column 'final_observation' missing"),
    ("77 reward", changed("reward", 5, np.nan), "row 5: reward is nan"),
    ("77 observation", changed("observation", (6, 2), np.inf), "row 6: observation is inf"),
    ("77 final", changed("final_observation", (1, 0), np.nan), "row 1 of 'final_observation': is nan"),
    ("79 action", changed("action", 4, 4), "row 4: action is 4, two-rooms has 0 to 3"),
    ("79 action -1", changed("action", 4, -1), "row 4: action is -1"),
    ("79 lengths", cut("action", 7), "row 7: column 'action' has 7 rows, 'observation' has 8"),
    ("79 episode lengths", cut("final_observation", 2), "'final_observation' has 2 rows, there are 3 episodes"),
    ("79 interleaved", changed("episode", [4, 6], 5), "row 4: episode 5 comes after episode 6"),
    (
        "79 duplicate",
        changed("episode", slice(4, 8), 6),
        "row 4: episode 6 goes on after its end, or its id is given twice",
    ),
    ("79 no end", changed("terminated", 2, False), "row 3: episode 6 begins, but episode 5 has no end"),
    ("79 end inside", changed("truncated", 5, True), "row 6: episode 9 goes on after its end"),
    ("79 last end", changed("terminated", 7, False), "row 7: the last episode has no end"),
    ("50 above 1", changed("behaviour_log_prob", 2, 0.5), "row 2: behaviour_log_prob is 0.5, a probability above 1"),
    ("50 zero", changed("behaviour_log_prob", 2, -np.inf), "row 2: behaviour_log_prob is -inf"),
    ("80 shape", lambda c: c.update(observation=c["observation"][:, :3]), "with rows (3,), two-rooms has (4,)"),
    ("empty", lambda c: c.update({name: column[:0] for name, column in c.items()}), "has no rows"),
    ("kind", lambda c: c.update(action=c["action"].astype(np.float32)), "column 'action' has the type float32"),
    ("text", lambda c: c.update(reward=np.asarray(["x"] * 8)), "column 'reward' has the type <U1"),
    ("order", lambda c: c.update(observation=np.asfortranarray(c["observation"])), "Fortran order"),
]


@pytest.mark.parametrize(("spoil", "must_contain"), [case[1:] for case in SPOILED], ids=[case[0] for case in SPOILED])
@pytest.mark.parametrize("chunk", [2, 1 << 16])
def test_bad_rows_are_named(spoil, must_contain, chunk, tmp_path, monkeypatch):
    monkeypatch.setattr("asap.data.scan.CHUNK_ROWS", chunk)
    columns = good_columns()
    spoil(columns)
    np.savez(tmp_path / "x ü.npz", **columns)
    with pytest.raises(UserError) as refused:
        Dataset(tmp_path / "x ü.npz", LAYOUT)
    assert must_contain in str(refused.value) and "x ü.npz" in str(refused.value)


def test_bad_episodes_are_dropped_and_counted(tmp_path, capsys):
    columns = good_columns()
    columns["reward"][[4, 5]] = np.nan
    columns["action"][0] = 17
    dataset = Dataset(write(tmp_path / "data.npz", columns), LAYOUT, drop_bad_rows=True)
    assert dataset.dropped == {"bad_rows": 3, "episodes": 2} and dataset.num_episodes == 1
    assert (
        capsys.readouterr().err
        == f"note: dataset {tmp_path / 'data.npz'}: 3 bad rows: left out 2 of 3 episodes; the first: row 0: action is 17, two-rooms has 0 to 3\n"
    )
    np.testing.assert_array_equal(dataset.read(0).final_observation, columns["final_observation"][1])
    columns["reward"][:] = np.nan
    with pytest.raises(UserError, match="every episode has a bad row"):
        Dataset(write(tmp_path / "none.npz", columns), LAYOUT, drop_bad_rows=True)


def test_another_task_or_format_is_refused(tmp_path):
    with pytest.raises(UserError, match="is for three-rooms, not for two-rooms"):
        Dataset(write(tmp_path / "x.npz", good_columns(), Meta(task="three-rooms")), LAYOUT)
    with pytest.raises(UserError, match="written by format 7, this release reads <= 2; upgrade"):
        Dataset(write(tmp_path / "x.npz", good_columns(), Meta(format=7)), LAYOUT)


def test_damaged_files_are_named_with_the_byte(tmp_path):
    """78: cut at every length, and with any bit turned over, a file is refused."""
    whole = write(tmp_path / "whole.npz", good_columns()).read_bytes()
    path = tmp_path / "damaged.npz"
    for size in range(0, len(whole) - 1, 97):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match="byte") as refused:
            Dataset(path, LAYOUT)
        assert "damaged.npz" in str(refused.value) and "\n" not in str(refused.value)
    path.write_bytes(b"GIF89a" + whole)
    with pytest.raises(UserError, match="byte 0 is b'GI', should be b'PK'"):
        Dataset(path, LAYOUT)
    start = (
        whole.index(b"reward.npy") + 10 + 20
    )  # Behind the local header of the member; the flips are in its contents.
    for at in range(start, start + 128 + 32):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(UserError):
            Dataset(path, LAYOUT)


def test_nothing_is_executed_and_nothing_is_inflated(tmp_path):
    """60: objects would be unpickled, compressed members may be bombs."""

    class Canary:
        def __reduce__(self):
            return (open, (str(tmp_path / "canary"), "w"))

    columns = good_columns()
    np.savez(tmp_path / "x.npz", **{**columns, "meta": np.asarray([Canary()], object)})
    with pytest.raises(UserError, match="Python objects"):
        Dataset(tmp_path / "x.npz", LAYOUT)
    assert not (tmp_path / "canary").exists()
    np.savez_compressed(tmp_path / "x.npz", **columns)
    with pytest.raises(UserError, match="is compressed; write it with numpy.savez"):
        Dataset(tmp_path / "x.npz", LAYOUT)


STREAMING = """
import resource, sys
import numpy as np
from asap.data.dataset import Dataset
from asap.data.layout import Layout
used = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (used + 48_000_000,) * 2)
try:
    np.load(sys.argv[1])["observation"]
    print("the limit does not limit")
except MemoryError:
    pass
dataset = Dataset(sys.argv[1], Layout("two-rooms", 4, 4, np.zeros(2)))
order = np.random.default_rng(0).permutation(dataset.num_episodes)
print(dataset.num_steps, sum(len(dataset.read(i).action) for i in order))
"""


def test_a_file_larger_than_memory_streams(tmp_path):
    """81: 100 MB of data under a limit that leaves 48 MB."""
    length, num_episodes = 400, 8_000
    rows = length * 400
    ends = np.arange(rows) % length == length - 1
    with DatasetWriter(tmp_path / "large.npz") as writer:
        for first in range(0, num_episodes, 400):
            writer.add(
                {
                    "observation": np.zeros((rows, 4), np.float32),
                    "action": np.zeros(rows, np.int32),
                    "reward": np.zeros(rows, np.float32),
                    "terminated": ends,
                    "truncated": np.zeros(rows, bool),
                    "episode": np.repeat(np.arange(first, first + 400, dtype=np.int32), length),
                    "final_observation": np.zeros((400, 4), np.float32),
                }
            )
        writer.finish(Meta())
    assert (tmp_path / "large.npz").stat().st_size > 90_000_000
    done = subprocess.run(
        [sys.executable, "-c", STREAMING, str(tmp_path / "large.npz")], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["3200000", "3200000"], done.stdout + done.stderr


# (id, arguments after `asap train --offline FILE`, must contain)
CONTRADICTIONS = [
    ("task", ["three-rooms"], "is for two-rooms, not for three-rooms"),
    ("tasks", ["two-rooms", "three-rooms"], "a dataset is of one task"),
    ("learner", ["--learner", "natural"], "needs to play"),
    ("sampled", ["--gradient", "sampled"], "no skills to score"),
    ("commitment", ["--set", "policy.termination=0.1"], "policy.termination"),
]


@pytest.mark.parametrize(
    ("arguments", "must_contain"), [case[1:] for case in CONTRADICTIONS], ids=[case[0] for case in CONTRADICTIONS]
)
def test_contradictions_are_one_line(arguments, must_contain, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "x.npz", good_columns())
    code, out, err = asap(["train", "--offline", "x.npz", *arguments], capsys, monkeypatch)
    assert code == 2 and out == "" and err.count("\n") == 1 and must_contain in err, err
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"], "a refused command leaves no run behind"


def test_bad_commands_are_one_line(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    columns = good_columns()
    write(tmp_path / "unnamed.npz", columns, Meta())
    write(tmp_path / "sure.npz", {**columns, "behaviour_log_prob": np.zeros(8, np.float32)})
    columns["reward"][1] = np.nan
    write(tmp_path / "nan.npz", columns)
    cases = [
        (["train", "--offline", "missing.npz"], "missing.npz"),
        (["train", "--offline", "."], "not a regular file"),
        (["train", "--offline", "unnamed.npz"], "does not name its task"),
        (["train", "--offline", "nan.npz"], "row 1: reward is nan"),
        (["train", "--offline", "nan.npz"], "--drop-bad-rows"),
        (["train", "--offline", "sure.npz", "--learner", "importance"], "stochastic"),
        (["train", "two-rooms", "--learner", "likelihood"], "--offline"),
    ]
    for arguments, must_contain in cases:
        code, out, err = asap(arguments, capsys, monkeypatch)
        assert code == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1 and must_contain in err, (
            err
        )
    assert len(list(tmp_path.iterdir())) == 3


def test_minari_needs_its_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    code, _, err = asap(["train", "--offline", "minari:rooms/random-v0"], capsys, monkeypatch)
    assert code == 2 and err.count("\n") == 1 and "asap-rl[offline]" in err


@pytest.mark.filterwarnings("ignore")
def test_minari_datasets_become_ours(monkeypatch, tmp_path):
    minari = pytest.importorskip("minari")
    import gymnasium

    import asap  # noqa: F401
    from asap.data.minari import converted

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    env = minari.DataCollector(gymnasium.make("asap/TwoRooms-v0", max_episode_steps=5))
    seen = []
    for seed in range(3):
        seen.append([env.reset(seed=seed)[0], *(env.step(seed)[0] for _ in range(5))])
    env.create_dataset("rooms/some-v0", algorithm_name="constant")
    dataset = Dataset(converted("rooms/some-v0", {"asap/TwoRooms-v0": "two-rooms"}), LAYOUT)
    assert dataset.meta.task == "two-rooms" and dataset.num_episodes == 3 and not dataset.is_stochastic
    np.testing.assert_array_equal(dataset.read(2).observation, seen[2][:5])
    np.testing.assert_array_equal(dataset.read(2).final_observation, seen[2][5])
    np.testing.assert_array_equal(dataset.read(2).action, [2] * 5)
