"""A worker is two processes: the one that plays, and its keeper, which runs nobody's code but ours and so cannot hang.

Both are in a process group of their own, together with whatever an environment starts. The keeper's stdin is the
lifeline: it ends when the driver ends, however that happens, and then the keeper kills the group, simulators included.
When the player ends first, the keeper ends the way a shell would: with its exit code, or 128 and the signal.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
from typing import NoReturn

_SET_PARENT_DEATH_SIGNAL = 1  # Of prctl, Linux.


def keep(connection: int, board: int) -> NoReturn:
    """Runs in a new interpreter, as the leader of its process group; the arguments are file descriptors."""
    keeper = os.getpid()
    player = os.fork()
    if player == 0:
        _play(keeper, connection, board)
    os.close(connection)
    os.close(board)
    threading.Thread(target=_hold_the_lifeline, daemon=True).start()
    status = os.waitstatus_to_exitcode(os.waitpid(player, 0)[1])
    os._exit(status if status >= 0 else 128 - status)


def _hold_the_lifeline() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def _play(keeper: int, connection: int, board: int) -> NoReturn:
    _die_with(keeper)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for descriptor in (connection, board):  # Not for what the environment starts.
        os.set_inheritable(descriptor, False)
    from asap.workers.backend import Board
    from asap.workers.serve import serve

    serve(socket.socket(fileno=connection), Board(board))
    sys.exit(0)


def _die_with(keeper: int) -> None:
    """Should somebody kill the keeper, nobody would be left to end the player."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(1)
