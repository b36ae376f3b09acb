"""A worker is two processes: the one that plays, and its supervisor, which runs our code alone and so cannot hang.

Both are in a process group of their own. The supervisor's stdin is the lifeline: it ends when the driver ends, however
that happens, or when the driver wants the worker to end. Then the supervisor kills all that descend from it, simulators
included. On Linux it is the parent of those whose own parents have ended (a "child subreaper"), so none gets away by a
session of its own. When the player ends first, the supervisor ends what is left of its children and then itself, the
way a shell would: with the player's exit code, or 128 and the signal.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from typing import NoReturn

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36  # Of prctl, Linux.
_PATIENCE = 2.0  # Seconds for killed processes to be gone.


def supervise(connection: int, progress: int) -> NoReturn:
    """Runs in a new interpreter, as the leader of its process group; the arguments are file descriptors."""
    supervisor = os.getpid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    player = os.fork()
    if player == 0:
        _play(supervisor, connection, progress)
    os.close(connection)
    os.close(progress)
    threading.Thread(target=_hold_the_lifeline, daemon=True).start()
    ended, status = 0, 0
    while ended != player:  # Others are orphans that it has become the parent of.
        ended, status = os.waitpid(-1, 0)
    code = os.waitstatus_to_exitcode(status)
    _end_descendants()
    os._exit(code if code >= 0 else 128 - code)


def _hold_the_lifeline() -> None:
    while os.read(0, 1):
        pass
    _end_descendants()
    os.killpg(0, signal.SIGKILL)


def _end_descendants() -> None:
    """Again until there are none: some may start others meanwhile."""
    deadline = time.monotonic() + _PATIENCE
    while (living := _descendants()) and time.monotonic() < deadline:
        for pid in living:
            with contextlib.suppress(OSError):  # Gone, or another user's.
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _descendants() -> list[int]:
    """Those that live. Empty where the system does not tell: there the process group must do."""
    supervisor, parents = os.getpid(), {}
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                state, parent = file.read().rpartition(b") ")[2].split()[:2]
        except (OSError, ValueError):
            continue
        parents[pid] = int(parent), state not in (b"Z", b"X")
    family, found = {supervisor}, [supervisor]
    while found:
        found = [pid for pid, (parent, _) in parents.items() if parent in found and pid not in family]
        family.update(found)
    return [pid for pid in family if pid != supervisor and parents[pid][1]]


def _play(supervisor: int, connection: int, progress: int) -> NoReturn:
    if sys.platform == "linux":  # Should somebody kill the supervisor, nobody would be left to end the player.
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # A Ctrl-C is for the driver. Not ignored: what the environment starts would inherit that.
    signal.signal(signal.SIGINT, lambda *_: None)
    for descriptor in (connection, progress):  # Not for what the environment starts.
        os.set_inheritable(descriptor, False)
    from asap.workers.play import serve
    from asap.workers.work import SharedProgress

    serve(socket.socket(fileno=connection), SharedProgress(progress))
    sys.exit(0)
