"""The Typer app, what the commands share, and how each error ends as one line.

JAX, NumPy and all that needs them are imported inside functions, here and in the commands: --help answers at once.
"""

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from asap.base.errors import RunError, UserError, message_of, to_stderr

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
_ENV = (
    "The environment to play in place of the recorded one: a Gymnasium id or module:function. "
    "Needed where the file is a stranger's, whose modules are not imported."
)
_KEYWORDS = "Keyword arguments of that environment."
Env = Annotated[str | None, typer.Option("--env", metavar="ENV", help=_ENV)]
EnvOptions = Annotated[str | None, typer.Option("--env-options", metavar="JSON", help=_KEYWORDS)]
Skills = Annotated[str | None, typer.Option(help="constant, linear, gaussian or network.")]
_FEATURES = "Under the hyperplanes: linear, poly2, fourier or network."
Features = Annotated[str | None, typer.Option(help=_FEATURES)]


def _show_version(asked: bool) -> None:
    if asked:
        from asap import __version__

        to_stdout(f"asap {__version__}")
        raise typer.Exit


@app.callback()
def asap(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Learn a handful of skills and the regions of the state space where each applies."""


def tell(as_json: bool, report: Mapping[str, Any], text: str) -> None:
    """The result of a command, as one line of JSON or in words."""
    to_stdout(json.dumps(report) if as_json else text)


def to_stdout(text: str) -> None:
    """A reader that has gone (`| head`) wants nothing more; the command goes on to its own end."""
    try:
        print(text, flush=True)
    except OSError as error:
        _discard(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise _unwritable(error) from None


def number(value: float) -> str:
    """Returns of the rooms are tens, those of soccer are about one."""
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def in_words(returns: Mapping[str, Any]) -> list[str]:
    """The mean return with what it is of; and that of each seed, where there are several."""
    from asap.base.numbers import play_in_words

    how, seeds, interval = play_in_words(returns["episodes"], returns["deterministic"]), returns["seeds"], ""
    if returns["ci"] is not None:
        interval = ", 95 % interval {} to {}".format(*map(number, returns["ci"]))
    if len(seeds) == 1:
        return [f"{number(returns['iqm'])} {how} (one seed{interval})"]
    of_seeds = f"interquartile mean (IQM) of {len(seeds)} seeds{interval}"
    each = ", ".join(map(number, returns["all"]))
    return [f"{number(returns['iqm'])} {how} ({of_seeds})", f"seeds {seeds[0]} to {seeds[-1]}: {each}"]


def other_in_words(verdict: Mapping[str, Any] | None, deterministic: bool) -> str | None:
    """What is known of the return with actions chosen the other way."""
    from asap.base.numbers import play_in_words
    from asap.base.stats import iqm

    for one in (verdict["evaluated"], verdict["trained"]) if verdict else ():
        if one is not None and one["deterministic"] != deterministic:
            of_seeds = "" if len(one["return"]) == 1 else f" (IQM of {len(one['return'])} seeds)"
            how = play_in_words(one["episodes"], one["deterministic"])
            return f"{number(float(iqm(one['return'])))} {how}{of_seeds}"
    return None


def references_in_words(reference: Mapping[str, Any]) -> str:
    best = "" if reference["dp_optimal"] is None else f", dynamic programming {number(reference['dp_optimal'])}"
    start, good = number(reference["misspecified"]), number(reference["approx_optimal"])
    return f"misspecified start {start}, approximately optimal partition {good}{best}"


def require_writable_place(out: str) -> None:
    """Asked before the work: a result that can not be written is lost."""
    folder, where = os.path.dirname(out) or ".", "a file in a directory that exists"
    if "\0" in out:
        raise UserError("--out", "a path can have no NUL in it", repr(out), "choose another name")
    require_named(out)
    if os.path.isdir(out) or not os.path.isdir(folder):
        raise UserError("--out", f"must name {where}", repr(out), f"choose {where}")
    _require_writable(folder)


def make_folder(out: str | Path) -> Path:
    """The folder that results go to, made where it is missing; asked before the work."""
    folder = Path(require_named(os.fspath(out)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path.
        what = f"cannot create: {getattr(error, 'strerror', None) or error}"
        raise UserError("--out", what, repr(os.fspath(out)), "choose another directory") from None
    _require_writable(folder)
    return folder


def require_named(out: str) -> str:
    """An empty path would be the current folder, which nobody has named."""
    if not out:
        raise UserError("--out", "is empty", repr(out), "name a directory, or `.` for this one")
    return out


def _require_writable(folder: str | Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError("--out", "the directory is not writable", folder, "choose another directory by --out")


ADDRESS_SPACE = 2_400_000_000  # Bytes that JAX maps to compile and run small programs; it aborts where it gets fewer.
WITHOUT_JAX = {"doctor", "cache", "-h", "--help", "--version"}


def low_address_space() -> int | None:
    """The limit on this process, where it is too low for JAX."""
    try:
        import resource
    except ImportError:  # Not on this system.
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return limit if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE else None


def _require_address_space() -> None:
    """A limit that would abort the process is reported beforehand."""
    limit, words = low_address_space(), sys.argv[1:]
    lists_settings = words[:1] == ["settings"] and all(word.startswith("-") for word in words[1:])
    if limit is not None and not lists_settings and not WITHOUT_JAX & set(words):
        cure = f"allow {ADDRESS_SPACE:,}: ulimit -v {ADDRESS_SPACE // 1024}"
        raise RunError("memory", "the limit on address space is too low", f"{limit:,} bytes", cure)


def main() -> None:
    """Runs a command; whatever goes wrong ends as one line on stderr."""
    debug = "--debug" in sys.argv
    try:
        _open_missing_streams()
        _require_address_space()
        code = app(standalone_mode=False)
    except BaseException as error:
        code = _fail(error, debug)
    for stream in (sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None:
                stream.flush()
        except OSError as lost:  # What could not be written has stayed in the buffer, and fails here again.
            _discard(stream)
            if stream is sys.__stdout__ and not isinstance(lost, BrokenPipeError):
                code = code or _fail(_unwritable(lost), debug)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(error: BaseException, debug: bool) -> int:
    if isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError):
        error = error.__context__  # Typer turns every broken pipe into an exit, an environment's too.
    if isinstance(error, OSError) and not _is_of_a_command(error):  # Typer prints its help.
        if isinstance(error, BrokenPipeError):
            return 0
        error = _unwritable(error)
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, KeyboardInterrupt):
        return 130
    if type(error).__name__ in ("Exit", "NoArgsIsHelpError"):  # Typer's own; its click is private in some releases.
        return getattr(error, "exit_code", 2)
    if debug:
        to_stderr("".join(traceback.format_exception(error)).rstrip())
    line, code = _as_line(error)
    to_stderr(f"error: {line}")
    return code


def _is_of_a_command(error: BaseException) -> bool:
    """Whether our code was running, beyond `main`."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(frame.f_globals["__name__"].startswith("asap.") for frame in frames if frame.f_code is not main.__code__)


def _open_missing_streams() -> None:
    """What the shell has closed (`>&-`) leads nowhere, and no file that is opened later takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _discard(stream: TextIO | None) -> None:
    """What is in its buffer and what comes later, so that the interpreter does not complain at its end."""
    with contextlib.suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _unwritable(error: OSError) -> RunError:
    return RunError("stdout", f"cannot be written: {error.strerror}", cure="free space, or write elsewhere")


def _as_line(error: BaseException) -> tuple[str, int]:
    if isinstance(error, UserError):
        return str(error), error.exit_code
    usage = getattr(error, "format_message", None)
    if usage is not None:
        context = getattr(error, "ctx", None)
        command = "asap" if context is None or context.parent is None else f"asap {context.info_name}"
        return " ".join(f"usage: {usage().rstrip('.')}; see `{command} --help`".split()), 2
    said = message_of(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in said or "Out of memory" in said:
        cure = "use fewer lanes, seeds or hyperplanes; the last checkpoint is intact"
        return str(RunError("memory", "not enough", type(error).__name__, cure)), 1
    what = said or "no message"
    return str(RunError("internal", what[:300], type(error).__name__, "run again with --debug and report it")), 1
