"""Runs, models, settings, recordings and data as a stranger might send them, and a look at what each of them touches.

`python tests/hostile_files.py FOLDER` lays them out in FOLDER and tries each command in this process, under an audit hook
that notes every import, file, program and connection. It prints one JSON object per case. `bench/strangers.py` gives each
case a process of its own.
"""

import contextlib
import hashlib
import hmac
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

RELEASE = Path(__file__).parent / "data" / "releases" / "0.1.0"
CANARY, MODULE = "canary", "hostile_module"
TOUCH = "import pathlib; pathlib.Path({canary!r}).touch()\ndef make(**options): pathlib.Path({canary!r}).touch()\n"


class Case(NamedTuple):
    """A command, what it must print on stderr, and with which exit code it must end."""

    name: str
    command: list[str]
    said: str
    code: int = 2


class Workshop:
    """Makes hostile copies of what an earlier release has saved."""

    def __init__(self, folder: Path):
        self.folder, self.canary = folder, folder / CANARY
        self.evil = {"command": f"touch '{self.canary}'"}
        (folder / f"{MODULE}.py").write_text(TOUCH.format(canary=str(self.canary)))
        os.mkfifo(folder / "fifo")
        (folder / "out").mkdir()

    def run(self, name: str, told: dict[str, Any] | None = None, base: str = "cartpole", **changes: Any) -> str:
        """A run directory with these settings in place of its own, and with what it tells about its tasks."""
        path = self.folder / "runs" / name
        shutil.copytree(RELEASE / base, path)
        text = (path / "config.toml").read_text()
        (path / "config.toml").write_text(changed(text, changes))
        if told is not None:
            (path / "tasks.json").write_text(json.dumps(told))
        return str(path)

    def model(self, name: str, record: dict[str, Any] | None = None, tag: Any = None, **changes: Any) -> str:
        """A saved model, sealed as ours are."""
        from asap.runs import checkpoints

        saved = checkpoints.read(RELEASE / "cartpole.asap")
        meta = {"kind": saved.meta["kind"], "config": changed(saved.meta["config"], changes), "steps": 20463}
        meta |= {"tasks": None if record is None else [record], "tag": tag}
        path = self.folder / f"{name}.asap"
        path.write_bytes(checkpoints.seal(saved.step, saved.arrays, meta))
        return str(path)

    def record(self, **changes: Any) -> dict[str, Any]:
        """What a file tells about an environment like CartPole."""
        from asap.runs import checkpoints

        return {**checkpoints.read(RELEASE / "cartpole.asap").meta["task"], **changes}

    def settings(self, name: str, text: str) -> str:
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return str(path)

    def recording(self, name: str, env: str, options: Any, **more: Any) -> str:
        path = self.folder / f"{name}.json"
        rules = {"max_steps": None, "strict_obs": False, "reward_scale": 1.0, "env_retries": 2}
        told = {"env": env, "options": options, "rules": rules, "seed": 1, "actions": [0], "error": "env.step: x"}
        path.write_text(json.dumps({**told, **more}))
        return str(path)


def changed(text: str, changes: dict[str, Any]) -> str:
    """Settings in TOML with `section__key` in place of what was said about it."""
    for where, value in changes.items():
        section, _, key = where.partition("__")
        lines = [line for line in text.splitlines() if not line.startswith(f"{key} = ")]
        lines.insert(lines.index(f"[{section}]") + 1, f"{key} = {json.dumps(value)}")
        text = "\n".join(lines) + "\n"
    return text


def tagged(names: dict[str, Any], key: bytes) -> str:
    """As a maker with that key would tag these names."""
    text = json.dumps(names, sort_keys=True, separators=(",", ":"))
    return hmac.new(key, b"asap names 1\n" + text.encode(), hashlib.sha256).hexdigest()


NOT_YOURS, UNNAMED = "nothing shows that you made", "only a file names it"


def runs(work: Workshop) -> Iterator[Case]:
    evil, options = work.evil, json.dumps(work.evil)
    out = str(work.folder / "out")

    def every(name: str, path: str, explains: bool) -> Iterator[Case]:
        """All commands that read a run. Words and pictures need no environment, if the file tells what they say."""
        words = (NOT_YOURS, 0) if explains else (NOT_YOURS, 2)
        yield Case(f"{name}, explained", ["explain", path], *words)
        yield Case(f"{name}, drawn", ["plot", path, "--out", out], *words)
        yield Case(f"{name}, played", ["eval", path, "--episodes", "2"], NOT_YOURS)
        yield Case(f"{name}, resumed", ["train", "--resume", path, "--steps", "9000"], NOT_YOURS)

    system = {"run__tasks": ["os:system"], "env__options": options}
    yield from every("a program by name", work.run("bare", **system), explains=False)
    told = {"tasks": [work.record(name="os:system", options=evil)], "tag": None}
    yield from every("a program in a record", work.run("recorded", told, **system), explains=True)
    names = {"run__tasks": [f"{MODULE}:make"]}
    told = {"tasks": [work.record(name=f"{MODULE}:make")], "tag": None}
    yield from every("a module of the folder", work.run("module", told, **names), explains=True)
    yield Case("a module before an id", ["eval", work.run("prefix", run__tasks=[f"{MODULE}:CartPole-v1"])], NOT_YOURS)
    for label, tag in (("zeros", "00" * 32), ("a list", ["x"]), ("a number", 7), ("other letters", "ü" * 64)):
        path = work.run(f"tag {label}", {**told, "tag": tag}, **names)
        yield Case(f"a tag of {label}", ["eval", path], NOT_YOURS)
    for label, named in (("Popen", "subprocess:Popen"), ("exec", "builtins:exec"), ("a path", "runpy:run_path")):
        yield Case(f"{label} by name", ["explain", work.run(f"by {label}", run__tasks=[named])], NOT_YOURS)
    yield Case("letters that move the cursor", ["explain", work.run("cursor", run__tasks=["a\x1b[2J:b"])], NOT_YOURS)
    yield Case("a name of 100,000 letters", ["explain", work.run("long", run__tasks=["a" * 10**5 + ":b"])], NOT_YOURS)
    cursor = {"tasks": [work.record(name="a\x1b[2J:b")], "tag": None}
    yield Case("the same in a record", ["explain", work.run("cursor 2", cursor, run__tasks=["a\x1b[2J:b"])], "task: ")
    many = {
        "tasks": [
            {**told["tasks"][0], "observation_space": {"kind": "MultiBinary", "dtype": "int8", "shape": [10**12]}}
        ]
    }
    yield Case("a space without end", ["explain", work.run("endless", many, **names)], "observation_space: ")
    placed = work.record(name=f"{MODULE}:make")
    placed["spec"] = {**placed["spec"], "place": "rooms"}
    yield Case("a place of ours", ["plot", work.run("placed", {"tasks": [placed]}, **names)], "task: ")
    yield Case("no records but text", ["explain", work.run("text", {"tasks": "x"}, **names)], "tasks: ")
    yield from parameters(work)
    yield from own_but_changed(work)


def parameters(work: Workshop) -> Iterator[Case]:
    """Numbers that a file sets: of a registered environment's own alone."""
    for label, words, said in (
        ("a method", "step=1", "has no number of that name that can be set (got step)"),
        ("a class", "__class__=1", "must be a plain public name"),
        ("the generator", "np_random=1", "(got np_random)"),
        ("a part of a part", "unwrapped.spec.id=1", "must be a plain public name"),
        ("infinity", "length=1e999", "must be finite"),
        ("a text", "length=/etc/passwd", "must be NAME=NUMBER"),
        ("a long name", f"{'a' * 10**5}=1", "a name may have 500 characters"),
        ("letters that move the cursor", "\x1b[2J=1", "must be a plain public name"),
    ):
        name = f"CartPole-v1?{words}"
        path = work.run(f"sets {label}", run__tasks=[name])
        yield Case(f"a file that sets {label}", ["eval", path, "--episodes", "1"], said)
        if len(name) < 100:
            told = {"tasks": [work.record(name=name)], "tag": None}
            path = work.run(f"sets {label} in a record", told, run__tasks=[name])
            yield Case(f"a record that sets {label}", ["eval", path, "--episodes", "1"], "error: ")
    told = {"tasks": [work.record(name=f"{MODULE}:make?length=1")], "tag": None}
    path = work.run("sets a number of a module", told, run__tasks=[f"{MODULE}:make?length=1"])
    yield Case("a number of a module of the folder", ["eval", path], NOT_YOURS)
    yield Case("another number of it", ["eval", path, "--task", f"{MODULE}:make?length=2"], NOT_YOURS)
    told = {"tasks": [work.record(own_values={"length": "x"})], "tag": None}
    yield Case("own numbers that are none", ["eval", work.run("own numbers", told)], "task: ")


def own_but_changed(work: Workshop) -> Iterator[Case]:
    """Files whose tag is, or looks like, the user's own."""
    from asap.base import trust

    record = work.record(name=f"{MODULE}:make")
    names = {"tasks": [f"{MODULE}:make"], "options": None, "records": [[f"{MODULE}:make", {}]]}
    names |= {"data": None, "source": None, "places": [[f"{MODULE}:make", "/elsewhere"]]}
    changes = {"run__tasks": [f"{MODULE}:make"]}
    for label, tag in (
        ("own, from another folder", trust.tag(names)),
        ("of another key", tagged({**names, "places": [[f"{MODULE}:make", os.path.realpath(os.getcwd())]]}, b"k" * 32)),
    ):
        path = work.run(label, {"tasks": [record], "tag": tag}, **changes)
        yield Case(f"a tag {label}", ["eval", path], NOT_YOURS)
    mine = {"tasks": ["CartPole-v1"], "options": None, "records": [["CartPole-v1", {}]]}
    tag = trust.tag(mine | {"data": None, "source": None, "places": []})
    for label, told, changes in (
        ("other name", work.record(name=f"{MODULE}:make"), {"run__tasks": [f"{MODULE}:make"]}),
        ("other name in the record", work.record(name=f"{MODULE}:make"), {}),
    ):
        path = work.run(f"own, {label}", {"tasks": [told], "tag": tag}, **changes)
        yield Case(f"own run, {label}", ["eval", path], NOT_YOURS)
    options = {"render_mode": "human", "sutton_barto_reward": "../../etc"}
    changes = {"env__options": json.dumps(options)}
    path = work.run("own, options", {"tasks": [work.record(options=options)], "tag": tag}, **changes)
    yield Case("own run, other options", ["eval", path, "--episodes", "1"], "not used", 0)
    path = work.run("old options", env__options=json.dumps(options))
    yield Case("an id with options that are paths", ["eval", path, "--episodes", "1"], "not used", 0)


def named_files(work: Workshop) -> Iterator[Case]:
    """Data and runs that a file names."""
    other = work.run("other", base="two-rooms")
    for label, data in (
        ("a device", "/dev/zero"),
        ("a FIFO", str(work.folder / "fifo")),
        ("Minari's", "minari:x/y-v0"),
    ):
        changes = {"offline__data": data, "learn__learner": "likelihood", "run__episodes": 60}
        path = work.run(f"data {label}", base="two-rooms", **changes)
        yield Case(f"data in {label}", ["train", "--resume", path, "--episodes", "90"], "offline.data: is not opened")
        yield Case(
            f"data in {label}, to start from", ["transfer", path, "flipped-two-rooms"], "offline.data: is not opened"
        )
    path = work.run("source", base="two-rooms", run__source=other)
    shutil.rmtree(Path(path) / "checkpoints")
    yield Case("a run to start from", ["train", "--resume", path], "run.source: is not opened")


def models(work: Workshop) -> Iterator[Case]:
    evil = work.evil
    call = {"run__tasks": ["subprocess:call"], "env__options": json.dumps({"args": ["touch", str(work.canary)]})}
    out = str(work.folder / "out")
    yield Case("a model without a record", ["explain", work.model("bare", **call)], NOT_YOURS, 1)
    named = work.model("named", work.record(name="os:system", options=evil), run__tasks=["os:system"])
    yield Case(
        "a model to go on from", ["train", "--from", named, "--steps", "9"], "is not imported: only a file names it"
    )
    yield Case("a model of a program, explained", ["explain", named], NOT_YOURS, 0)
    yield Case("a model of a program, drawn", ["plot", named, "--out", out], NOT_YOURS, 0)
    yield Case("a model of a program, played", ["eval", named], NOT_YOURS)
    for label, tag in (("zeros", "00" * 32), ("a word", "own")):
        path = work.model(f"tag {label}", work.record(name=f"{MODULE}:make"), tag, run__tasks=[f"{MODULE}:make"])
        yield Case(f"a model with a tag of {label}", ["eval", path], NOT_YOURS)
    path = work.model("other record", work.record(name=f"{MODULE}:make"))
    yield Case("a model whose record names another", ["eval", path], NOT_YOURS)


def settings_files(work: Workshop) -> Iterator[Case]:
    def train(label: str, text: str, said: str, *more: str, code: int = 2) -> Case:
        command = ["train", *more, "--config", work.settings(label, text), "--out", str(work.folder / "out" / label)]
        return Case(f"settings with {label}", command, said, code)

    options = json.dumps(work.evil)
    short = "[run]\nsteps = 600\ncandidates = 0\nfinal_episodes = 1\n"
    yield train("a program", f'[run]\ntasks = ["os:system"]\n[env]\noptions = {json.dumps(options)}\n', UNNAMED)
    yield train("a module", f'[run]\ntasks = ["{MODULE}:make"]\n', UNNAMED)
    yield train("an id after a module", f'[run]\ntasks = ["{MODULE}:CartPole-v1"]\n', UNNAMED)
    yield train("data", '[offline]\ndata = "/dev/zero"\n', "offline.data: is not opened")
    yield train("a source", '[run]\ntasks = ["two-rooms"]\nsource = "/etc"\n', "run.source: is not opened")
    human = json.dumps(json.dumps({"render_mode": "human"}))
    yield train("options", f"{short}[env]\noptions = {human}\n", "not used", "CartPole-v1", code=0)


def recordings(work: Workshop) -> Iterator[Case]:
    def replay(label: str, path: str, said: str, env: str = "CartPole-v1", code: int = 2) -> Case:
        return Case(f"a recording {label}", ["check", env, "--replay", path], said, code)

    yield replay("of a program", work.recording("program", "os:system", work.evil), "was recorded in 'os:system'")
    yield replay("in a FIFO", str(work.folder / "fifo"), "--replay: ")
    yield replay("with paths", work.recording("paths", "CartPole-v1", {"render_mode": "/x"}), "not all used", code=0)
    listed = work.recording("listed", "CartPole-v1", ["x"])
    yield replay("with options in a list", listed, "not the recording")
    forged = work.recording("forged", "CartPole-v1", {"render_mode": "human"}, tag="00" * 32)
    yield replay("with a forged tag", forged, "not all used", code=0)


def cases(folder: Path) -> list[Case]:
    """Laid out in the folder, which must be the working directory: modules are looked for there."""
    work = Workshop(folder)
    return [case for make in (runs, named_files, models, settings_files, recordings) for case in make(work)]


# ---- Looking ------------------------------------------------------------------------------------------------------

PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn")
NETWORK = ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo")
CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate")


class Watch:
    """Notes what is touched, apart from the package, Python itself, the user's caches and what the case may use."""

    def __init__(self, folder: Path):
        caches = [os.environ.get("JAX_COMPILATION_CACHE_DIR", ""), os.environ.get("MPLCONFIGDIR", "")]
        home = [os.path.expanduser("~/.cache"), os.path.expanduser("~/.config/matplotlib")]
        source = str(Path(__file__).parents[1] / "src")
        system = ["/proc", "/sys/devices", "/dev/null", "/dev/urandom", "/usr/share", "/usr/lib", "/usr/local", "/etc"]
        packages = [path for path in sys.path if path and os.path.realpath(path) != os.path.realpath(folder)]
        allowed = [sys.prefix, sys.base_prefix, source, *packages, *caches, *home, *system]
        self.allowed = tuple(os.path.realpath(path) for path in allowed if path)
        self.key = os.path.realpath(os.environ.get("ASAP_KEY_FILE", os.path.expanduser("~/.config/asap/key")))
        self.own = (os.path.join(os.path.realpath(tempfile.gettempdir()), f"asap-{os.getpid()}-"),)
        self.folder, self.touched, self.may_use, self.is_on = folder, [], (), False
        sys.addaudithook(self.note)

    def note(self, event: str, arguments: tuple) -> None:
        if not self.is_on:
            return
        if event in PROGRAMS or event in NETWORK:
            self.touched.append(f"{event} {arguments[0]!r}"[:200])
        elif event == "import" and arguments[0].partition(".")[0] == MODULE:
            self.touched.append(f"import {arguments[0]}")
        elif event == "open" or event in CHANGES:
            self._note_path(event, arguments[0])

    def _note_path(self, event: str, path: Any) -> None:
        if isinstance(path, int):
            return
        path = os.path.realpath(os.fsdecode(path))
        is_fine = path == self.key or path.startswith(self.own) or path.startswith(self.may_use)
        if not is_fine and not path.startswith(self.allowed):
            self.touched.append(f"{event} {path}")

    def look(self, case: Case) -> dict[str, Any]:
        """Runs the command; a case may use the paths that it names itself, and what is in them."""
        named = [word for word in case.command if os.path.isabs(word)]
        self.touched, self.may_use = [], tuple(os.path.realpath(path) for path in named)
        out, err = io.StringIO(), io.StringIO()
        self.is_on = True
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = _main(case.command)
        finally:
            self.is_on = False
        lines = err.getvalue().splitlines()
        return {
            "case": case.name,
            "code": code,
            "errors": [line for line in lines if not line.startswith(("note: ", "warning: "))],
            "said": case.said in err.getvalue(),
            "stderr": err.getvalue(),
            "touched": sorted(set(self.touched)),
            "canary": (self.folder / CANARY).exists(),
        }


def _main(command: list[str]) -> int | str | None:
    from asap.cli import app

    sys.argv = ["asap", *command]
    try:
        app.main()
    except SystemExit as error:
        return error.code
    return None


def main() -> None:
    folder, only = Path(sys.argv[1]).resolve(), sys.argv[2:]
    os.chdir(folder)
    watch = Watch(folder)
    for case in cases(folder):
        if not only or case.name in only:
            print(json.dumps({**watch.look(case), "expected": case.code}), flush=True)


if __name__ == "__main__":
    main()
