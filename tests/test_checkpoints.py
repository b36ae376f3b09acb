"""A checkpoint is whole or refused, and saving never harms an earlier one (bad inputs 54-63, 66, 71)."""

import base64
import errno
import io
import json
import os
import pickle
import random
import signal
import stat
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from asap.base import files
from asap.base.errors import RunError, UserError
from asap.runs import checkpoints

GOLDEN_1 = """
yAEAAAAAAAB7Il9fbWV0YWRhdGFfXyI6eyJzZWFsIjoiYzMxNzU3OTdmYThlMGRkM2M5YTlhYzllNTNkNjNmMjk1ODRlZTUzMmY1YTgzMjExND
Y2YmVmY2MyMWVmMjI3ZiIsIm1hbmlmZXN0Ijoie1wiZm9ybWF0XCI6IDEsIFwic3RlcFwiOiAxMjAsIFwidmVyc2lvbnNcIjoge1wiYXNhcC1y
bFwiOiBcIjAuMS4wXCJ9LCBcIm1ldGFcIjoge1wiZW52XCI6IFwiMlJcIiwgXCJiZXN0XCI6IDYxLjV9LCBcInBheWxvYWRfYnl0ZXNcIjogMj
AsIFwicGF5bG9hZF9zaGEyNTZcIjogXCJhYjRjNjkzNDUzYzJhYjQ4NWM5NzViNDUxOWUzOWQ4NDY5MDU0MmMxMjcwNTYwMTlkZjlmZGU5NzZk
ZTdiN2JlXCJ9In0sImJldGEiOnsiZHR5cGUiOiJGMzIiLCJzaGFwZSI6WzEsM10sImRhdGFfb2Zmc2V0cyI6WzAsMTJdfSwia2V5Ijp7ImR0eX
BlIjoiVTMyIiwic2hhcGUiOlsyXSwiZGF0YV9vZmZzZXRzIjpbMTIsMjBdfX0gICAgICAAAAC/AAAAAAAAgD8AAAAABwAAAA==
"""
ARRAYS = {
    "beta": np.array([[-0.5, 0.0, 1.0]], np.float32),
    "theta": np.arange(600.0).reshape(20, 30),
    "key": np.array([0, 7], np.uint32),
    "count": np.array(3),
    "none": np.zeros((0, 4)),
}


def unsealed(blob: bytes) -> checkpoints.Checkpoint:
    return checkpoints._load(io.BytesIO(blob), len(blob))


def same(left, right):
    return checkpoints.digest(left) == checkpoints.digest(right)


def sealed(manifest, tensors=None, payload=b""):
    """A file with a correct seal around whatever an attacker likes."""
    return checkpoints._frame(manifest if isinstance(manifest, str) else json.dumps(manifest), tensors or {}) + payload


def manifest_of(blob):
    (length,) = struct.unpack("<Q", blob[:8])
    return json.loads(json.loads(blob[8 : 8 + length])["__metadata__"]["manifest"])


@pytest.fixture
def two(tmp_path):
    """A good generation 110 and the path of a later one, 120, for tests to spoil."""
    checkpoints.write(tmp_path, 110, ARRAYS, {"good": True})
    return tmp_path, checkpoints.write(tmp_path, 120, ARRAYS, {"good": False})


def refusal(folder):
    """The notice about 120, after checking that 110 is what loads."""
    notices = []
    found = checkpoints.newest(folder, notices.append)
    assert found.step == 110 and found.meta == {"good": True} and same(found.arrays, ARRAYS)
    assert len(notices) == 1 and notices[0].startswith("ckpt-000120: ") and notices[0].endswith("; using ckpt-000110")
    return notices[0]


def test_what_was_written_is_read_back_bit_by_bit(tmp_path):
    arrays = ARRAYS | {"nan": np.array([np.nan, -0.0, np.inf]), "ü": np.array([True]), "half": np.float16([1.5])}
    path = checkpoints.write(tmp_path, 120, arrays, {"env": "CartPole-v1", "nested": {"x": [1, 0.1, None, "ü"]}})
    found = checkpoints.read(path)
    assert path.name == "ckpt-000120.safetensors" and found.step == 120
    assert found.meta == {"env": "CartPole-v1", "nested": {"x": [1, 0.1, None, "ü"]}}
    assert {"asap-rl", "jax", "numpy", "python", "platform"} <= found.versions.keys()
    for name, array in arrays.items():
        assert found.arrays[name].dtype == array.dtype and found.arrays[name].shape == array.shape
        assert found.arrays[name].tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "array", [np.arange(6.0).reshape(2, 3).T, np.arange(6.0)[::2], np.arange(3, dtype=">f4"), np.float64(2)]
)
def test_the_layout_in_memory_does_not_matter(tmp_path, array):
    found = checkpoints.read(checkpoints.write(tmp_path, 1, {"x": array}, {}))
    assert found.arrays["x"].tolist() == array.tolist()
    assert same(found.arrays, {"x": array})


def test_files_of_every_release_are_read():
    found = unsealed(base64.b64decode(GOLDEN_1))
    assert (found.step, found.meta, found.versions) == (120, {"env": "2R", "best": 61.5}, {"asap-rl": "0.1.0"})
    assert found.arrays["beta"].tolist() == [[-0.5, 0, 1]] and found.arrays["key"].tolist() == [0, 7]


def test_any_safetensors_reader_opens_the_file(two):
    from safetensors import safe_open

    with safe_open(two[1], framework="np") as file:
        assert json.loads(file.metadata()["manifest"])["step"] == 120
        assert file.get_tensor("beta").tolist() == ARRAYS["beta"].tolist()


def test_the_same_state_gives_the_same_file():
    reordered = dict(reversed(ARRAYS.items()))
    assert checkpoints.seal(7, ARRAYS, {"a": 1}) == checkpoints.seal(7, reordered, {"a": 1})


def test_the_digest_sees_names_dtypes_shapes_and_bytes():
    base = {"a": np.zeros(4, np.float32), "b": np.ones(2)}
    others = [
        {"a": np.zeros(4, np.float32), "c": np.ones(2)},
        {"a": np.zeros(4, np.int32), "b": np.ones(2)},
        {"a": np.zeros((2, 2), np.float32), "b": np.ones(2)},
        {"a": np.float32([0, 0, 0, -0.0]), "b": np.ones(2)},
        {"a": np.zeros(4, np.float32)},
    ]
    assert len({checkpoints.digest(arrays) for arrays in [base, *others]}) == 6
    assert same(base, {"b": np.ones(2), "a": np.zeros(4, np.float32)})
    assert len(checkpoints.digest({})) == 64


@pytest.mark.parametrize(
    "step, arrays, meta, word",
    [
        (1, {"x": np.array([None])}, {}, "'x'"),
        (1, {"x": np.array(["a"])}, {}, "'x'"),
        (1, {"__metadata__": np.zeros(1)}, {}, "__metadata__"),
        (1, {"\udcff": np.zeros(1)}, {}, "cannot be stored"),
        (1, {}, {"x": float("nan")}, "not JSON"),
        (1, {}, {"x": object()}, "not JSON"),
        (1, {}, {"x": "y" * checkpoints.MAX_HEADER}, "header over"),
        (-1, {}, {}, "got -1"),
        (1.5, {}, {}, "got 1.5"),
    ],
)
def test_what_cannot_be_kept_is_refused_when_saving(tmp_path, step, arrays, meta, word):
    with pytest.raises(UserError, match=word):
        checkpoints.write(tmp_path, step, arrays, meta)
    assert os.listdir(tmp_path) == []


def test_bfloat16_is_refused_when_saving_rather_than_when_loading(tmp_path):
    import ml_dtypes

    with pytest.raises(UserError, match="bfloat16"):
        checkpoints.write(tmp_path, 1, {"x": np.zeros(2, ml_dtypes.bfloat16)}, {})


def test_truncation_at_any_length_falls_back_one_generation(two):
    folder, path = two
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        said = refusal(folder)
        assert "empty file" in said if length == 0 else f"truncated ({length:,}" in said
    assert f"truncated ({length:,} of {len(whole):,} bytes)" in said
    path.write_bytes(whole + b"\0")
    assert "1 bytes too long" in refusal(folder)


def test_no_flipped_bit_is_accepted():
    small = base64.b64decode(GOLDEN_1)
    large = checkpoints.seal(120, ARRAYS, {"reward": [0.1] * 50})
    draw = random.Random(0)
    flips = [(small, bit) for bit in range(8 * len(small))]
    flips += [(large, draw.randrange(8 * len(large))) for _ in range(20_000)]
    for blob, bit in flips:
        damaged = bytearray(blob)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(files.BadFile) as refused:
            unsealed(bytes(damaged))
        if bit >= 64:  # In the length of the header, a flip looks like truncation.
            assert "checksum mismatch" in str(refused.value)
    for blob in (small, large):
        unsealed(blob)


def test_a_flipped_bit_falls_back_one_generation(two):
    folder, path = two
    whole = bytearray(path.read_bytes())
    whole[-5] ^= 4
    path.write_bytes(whole)
    assert "checksum mismatch" in refusal(folder)


def make_empty(path):
    path.touch()


def make_directory(path):
    path.mkdir()


def make_fifo(path):
    os.mkfifo(path)


def link_to_device(path):
    path.symlink_to("/dev/zero")


def link_out(path):
    outside = path.parent.parent / "outside.safetensors"
    outside.write_bytes(checkpoints.seal(120, ARRAYS, {}))
    path.symlink_to("../outside.safetensors")


def link_to_itself(path):
    path.symlink_to(path.name)


def other_step(path):
    path.write_bytes(checkpoints.seal(7, ARRAYS, {}))


def npz(path):
    with open(path, "wb") as file:
        np.savez(file, x=np.array([{}], dtype=object))


@pytest.mark.parametrize(
    "spoil, word",
    [
        (make_empty, "empty file"),
        (make_directory, "a directory"),
        (make_fifo, "a FIFO"),
        (link_to_device, "path escapes run directory"),
        (link_out, "path escapes run directory"),
        (link_to_itself, "cannot read"),
        (other_step, "holds step 7"),
        (npz, "not an ASAP checkpoint"),
    ],
)
def test_what_is_not_a_checkpoint_is_refused_without_hanging(tmp_path, spoil, word):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    checkpoints.write(folder, 110, ARRAYS, {"good": True})
    start = time.monotonic()
    spoil(folder / "ckpt-000120.safetensors")
    assert word in refusal(folder)
    with pytest.raises(RunError, match=f"^checkpoint: ckpt-000120: .*{word}"):
        checkpoints.read(folder / "ckpt-000120.safetensors")
    assert time.monotonic() - start < 2


def test_a_device_is_never_opened():
    with pytest.raises(RunError, match="not a regular file but a device"):
        checkpoints.read(Path("/dev/zero"))


def test_a_link_inside_the_folder_is_followed(two):
    folder, path = two
    path.rename(folder / "kept")
    path.symlink_to("kept")
    assert checkpoints.newest(folder, pytest.fail).step == 120


def test_a_newer_format_stops_the_run_instead_of_being_overwritten(two):
    folder, path = two
    path.write_bytes(sealed(manifest_of(path.read_bytes()) | {"format": 7, "whatever": [1]}))
    for attempt in (lambda: checkpoints.read(path), lambda: checkpoints.newest(folder, pytest.fail)):
        with pytest.raises(RunError, match=r"written by format 7, this release reads <= 1 .*; upgrade"):
            attempt()


def test_when_no_generation_is_valid_the_run_does_not_start_over_silently(two):
    folder, path = two
    assert checkpoints.newest(folder / "missing", pytest.fail) is None
    for each in checkpoints.generations(folder):
        each.write_bytes(b"")
    with pytest.raises(RunError, match="no valid checkpoint among 2: ckpt-000120: empty file"):
        checkpoints.newest(folder, pytest.fail)


def hostile():
    """Files with a correct seal: it shows that nothing changed, not that the contents are sane."""
    good = manifest_of(checkpoints.seal(120, {}, {}))
    yield sealed("[" * 200_000)
    yield sealed("{}")
    yield sealed("[]")
    yield sealed('"text"')
    for key, value in [("step", -1), ("step", "120"), ("step", True), ("meta", []), ("versions", None), ("format", 0)]:
        yield sealed(good | {key: value})
    for key in good:
        yield sealed({other: good[other] for other in good if other != key})
    yield sealed(good | {"payload_bytes": -5})
    yield sealed(good | {"payload_bytes": 10**15})
    for key in (
        "payload_bytes",
        "step",
        "format",
    ):  # As many digits as Python reads.
        yield sealed(good | {key: 10**4300 - 1})
    yield sealed(good | {"step": 10**15}, {"x": {"dtype": "F32", "shape": [1 << 60], "data_offsets": [0, 1 << 62]}})
    yield sealed(good, {"x": {"dtype": "F32", "shape": [1 << 63, 0], "data_offsets": [0, 0]}})
    yield sealed(good, {"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 0]}})
    yield sealed(good, {"x": {"dtype": "BF16", "shape": [0], "data_offsets": [0, 0]}})
    yield sealed(good, {"../../x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})
    yield sealed(good, {"x": ["python/object"]})


@pytest.mark.parametrize("blob", [pytest.param(blob, id=str(number)) for number, blob in enumerate(hostile())])
def test_a_hostile_file_with_a_correct_seal_is_refused(blob):
    with pytest.raises(files.BadFile):
        unsealed(blob)


def test_a_pickle_in_disguise_is_not_executed(two):
    folder, path = two
    canary = folder / "canary"

    class Malicious:
        def __reduce__(self):
            return os.mkdir, (str(canary),)

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        path.write_bytes(pickle.dumps(Malicious(), protocol))
        refusal(folder)
        path.write_bytes(sealed(manifest_of(checkpoints.seal(120, {}, {})), payload=path.read_bytes()))
        refusal(folder)
    assert not canary.exists()


READ_BOMBS = """
import sys
from asap.runs import checkpoints
from asap.base.errors import RunError
for path in sys.argv[1:]:
    try:
        checkpoints.read(path)
    except RunError:
        continue
    sys.exit(f"accepted {path}")
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def test_bombs_are_refused_in_little_memory(tmp_path):
    good = manifest_of(checkpoints.seal(120, {}, {}))
    bombs = [tmp_path / f"bomb-{number}" for number in range(5)]
    bombs[0].write_bytes(struct.pack("<Q", 1 << 62) + b"{")
    with open(bombs[1], "wb") as file:  # A header that is really there: a sparse file of 3 GB.
        file.write(struct.pack("<Q", 3 << 30))
        file.truncate(8 + (3 << 30))
    bombs[2].write_bytes(sealed("[{}," * 180_000))
    tensor = {"x": {"dtype": "U8", "shape": [3 << 30], "data_offsets": [0, 3 << 30]}}
    bombs[3].write_bytes(sealed(good | {"payload_bytes": 3 << 30}, tensor))
    with zipfile.ZipFile(bombs[4], "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(1 << 25))
    done = subprocess.run([sys.executable, "-c", READ_BOMBS, *bombs], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200_000  # Kilobytes.


def test_steps_order_checkpoints_not_clocks(tmp_path):
    for age, step in enumerate([2_000_000, 999_999, 110, 9]):
        os.utime(checkpoints.write(tmp_path, step, {}, {}), (10**9 + age, 10**9 + age))
    assert checkpoints.newest(tmp_path, pytest.fail).step == 2_000_000
    (tmp_path / "ckpt-2000000.safetensors").unlink()
    assert checkpoints.newest(tmp_path, pytest.fail).step == 999_999


def test_pruning_keeps_the_last_three_valid_ones_and_the_best(tmp_path):
    checkpoints.write(tmp_path, 1, {}, {}, name="best")
    for step in range(1, 9):
        checkpoints.write(tmp_path, step, {}, {})
    (tmp_path / "notes.txt").touch()
    for step in (6, 7, 8):
        (tmp_path / f"ckpt-{step:06d}.safetensors").write_bytes(b"damaged")
    checkpoints.prune(tmp_path)
    assert [path.stem for path in checkpoints.generations(tmp_path)] == [f"ckpt-{n:06d}" for n in (8, 7, 6, 5, 4, 3)]
    assert (tmp_path / "notes.txt").exists()
    assert checkpoints.newest(tmp_path, pytest.fail, name="best").step == 1


def listing(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("function", ["open", "fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_failed_save_leaves_the_folder_as_it_was(two, monkeypatch, function, code):
    folder, _ = two
    before = listing(folder)

    def fail(*args, **options):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, function, fail)
    what = rf"^checkpoint: cannot save: {os.strerror(code)} \(needs [\d,]+ bytes\)"
    with pytest.raises(RunError, match=what) as error:
        checkpoints.write(folder, 120, ARRAYS, {"new": True})
    monkeypatch.undo()
    assert "then resume: the last checkpoint is intact" in str(error.value) and error.value.exit_code == 1
    assert listing(folder) == before


def test_bytes_reach_the_disk_before_the_name_and_the_name_before_the_return(tmp_path, monkeypatch):
    order, fsync, replace = [], os.fsync, os.replace

    def watched_fsync(descriptor):
        order.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "bytes")
        fsync(descriptor)

    def watched_replace(source, target):
        order.append("name")
        assert Path(source).stat().st_size == len(checkpoints.seal(1, ARRAYS, {}))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    checkpoints.write(tmp_path, 1, ARRAYS, {})
    assert order == ["bytes", "name", "directory"]


def test_an_interrupted_save_leaves_no_litter(two, monkeypatch):
    folder, _ = two
    before = listing(folder)

    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.write(folder, 120, ARRAYS, {"new": True})
    assert listing(folder) == before


FILL_DISK = """
import os, subprocess, sys
from pathlib import Path
import numpy as np
from asap.runs import checkpoints
from asap.base.errors import RunError
folder = Path(sys.argv[1])
def save(step, kilobytes):
    try:
        checkpoints.write(folder, step, {"x": np.full(kilobytes * 128, float(step))}, {})
    except RunError as error:
        print(error)
save(1, 600)
save(2, 600)
save(1, 700)
found = checkpoints.newest(folder, print)
assert found.step == 1 and len(found.arrays["x"]) == 600 * 128 and len(os.listdir(folder)) == 1, os.listdir(folder)
subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
save(3, 1)
assert checkpoints.newest(folder, print).step == 1
"""


def test_a_really_full_then_read_only_disk(tmp_path):
    alone = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    mount = 'mount -t tmpfs -o size=1m none "$0"'
    with_disk = [*alone, "sh", "-c"]
    if subprocess.run([*with_disk, mount, tmp_path], capture_output=True).returncode:
        pytest.skip("may not mount here; the same promise is tested with injected errors")
    command = [*with_disk, mount + ' && exec "$1" -c "$2" "$0"', tmp_path, sys.executable, FILL_DISK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == 3 and "Read-only file system" in said[2]
    assert all("cannot save: No space left on device (needs 6" in line or "(needs 7" in line for line in said[:2])


SAVE_FOR_EVER = """
import itertools, os, sys
from pathlib import Path
import numpy as np
from asap.runs import checkpoints
folder, first = Path(sys.argv[1]), int(sys.argv[2])
for step in itertools.count(first):
    checkpoints.write(folder, step, {"x": np.full(100_000, float(step))}, {"step": step})
    checkpoints.prune(folder)
    os.write(1, b"%d\\n" % step)
"""


def test_a_kill_while_saving_never_costs_a_finished_checkpoint(tmp_path):
    draw, step = random.Random(0), 0
    for _ in range(15):
        command = [sys.executable, "-c", SAVE_FOR_EVER, tmp_path, str(step + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            finished = [int(child.stdout.readline())]
            time.sleep(draw.uniform(0, 0.02))
            child.kill()
            finished += [int(line) for line in child.stdout if line.endswith(b"\n")]
        files.remove_litter(tmp_path)
        found = checkpoints.newest(tmp_path, pytest.fail)
        assert finished[-1] <= found.step == found.meta["step"] <= finished[-1] + 1
        assert (found.arrays["x"] == found.step).all()
        assert not [name for name in os.listdir(tmp_path) if not name.startswith("ckpt-")]
        step = found.step


DIE_WHILE_WRITING = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from asap.runs import checkpoints
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
checkpoints.write(Path(sys.argv[1]), 120, {"x": np.ones(100_000)}, {})
"""


def test_a_kill_in_the_middle_of_the_bytes_leaves_litter_but_the_old_generation(two):
    folder, path = two
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", DIE_WHILE_WRITING, folder])
    assert done.returncode == -signal.SIGXFSZ
    litter = [entry for entry in folder.iterdir() if entry.name.startswith(".tmp-")]
    assert len(litter) == 1 and 0 < litter[0].stat().st_size <= 50_000
    assert path.read_bytes() == before and checkpoints.newest(folder, pytest.fail).step == 120


def test_litter_is_removed_and_nothing_else(tmp_path):
    for name in [".tmp-123-abcd", ".tmp-", "ckpt-000001.safetensors", ".hidden"]:
        (tmp_path / name).touch()
    (tmp_path / ".tmp-folder").mkdir()
    files.remove_litter(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".hidden", ".tmp-folder", "ckpt-000001.safetensors"]


def test_importing_stays_cheap():
    code = "import sys, asap.runs.directory, asap.runs.signals; print({'jax', 'numpy', 'safetensors'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.parametrize("name", ["ckpt", "best"])
def test_a_file_under_the_name_of_another_step_is_refused(tmp_path, name):
    path = checkpoints.write(tmp_path, 3, ARRAYS, {}, name=name)
    path.rename(path.with_name(path.name.replace("000003", "000004")))
    with pytest.raises(RunError, match="holds step 3"):
        checkpoints.newest(tmp_path, pytest.fail, name=name)


def test_saving_leaves_no_file_open(tmp_path):
    def num_open() -> int:
        return len(os.listdir("/proc/self/fd"))

    checkpoints.write(tmp_path, 0, ARRAYS, {})
    before = num_open()
    for step in range(1, 6):
        checkpoints.write(tmp_path, step, ARRAYS, {})
        checkpoints.read(tmp_path / f"ckpt-{step:06d}.safetensors")
    assert num_open() == before
