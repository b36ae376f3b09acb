"""A worker's process, as seen by the one who started it."""

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

from asap.base.errors import RunError
from asap.workers.messages import PREFIX, BadMessage, frame_size
from asap.workers.work import SharedProgress, WorkerProgress, new_progress

_PATIENCE_AT_SEND = 10.0  # Seconds.
_PATIENCE_AT_DEATH = 2.0
_PIECE = 1 << 20
# The new interpreter finds what this one finds, whatever was done to sys.path, and it does not run anybody's __main__.
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from asap.workers.supervisor import supervise
supervise(*map(int, sys.argv[2:]))
"""


class WorkerEnded(Exception):
    """Its text is how: "signal 9", "exit code 1"."""


class WorkerProcess:
    """Starts at once. `output` takes what the environment prints: a file descriptor, or subprocess.DEVNULL."""

    def __init__(self, path: list[str], output: int):
        with contextlib.ExitStack() as if_it_fails, contextlib.ExitStack() as opened:
            try:
                self._socket, theirs = socket.socketpair()
                if_it_fails.callback(self._socket.close)
                opened.callback(theirs.close)
                progress = new_progress()
                opened.callback(os.close, progress)
                self._progress, shared = SharedProgress(progress), (theirs.fileno(), progress)
                program = [sys.executable, "-P", "-c", _START, json.dumps(list(map(str, path))), *map(str, shared)]
                # A session of its own: a group to kill as a whole, which a Ctrl-C in the terminal does not reach.
                streams = {"stdin": subprocess.PIPE, "stdout": output, "stderr": output}
                self._process = subprocess.Popen(program, **streams, pass_fds=shared, start_new_session=True)
            except OSError as error:
                cure = "use fewer workers, or raise the limit (ulimit -n)" if error.errno == errno.EMFILE else ""
                raise RunError("workers", f"cannot start a worker: {error.strerror}", cure=cure) from None
            if_it_fails.pop_all()
        self._socket.setblocking(False)
        self._received, self._fault = bytearray(), ""

    @property
    def pid(self) -> int:
        """Of the supervisor, which leads the group."""
        return self._process.pid

    def fileno(self) -> int:
        """Readable when there is something to `receive`."""
        return self._socket.fileno()

    def progress(self) -> WorkerProgress:
        return self._progress.read()

    def send(self, frame: bytes) -> None:
        """A worker that has ended takes nothing; `receive` tells."""
        self._socket.settimeout(_PATIENCE_AT_SEND)
        try:
            self._socket.sendall(frame)
        except TimeoutError:
            self._fault = "takes no work"
        except OSError:
            pass
        self._socket.setblocking(False)

    def receive(self) -> list[bytes]:
        """The frames that are here; `WorkerEnded` after the last of a worker that has ended."""
        # Asked first: what it sent before its end is then in the socket.
        has_ended = bool(self._fault) or self._process.poll() is not None
        has_ended |= self._read()
        frames = list(self._whole_frames())
        if has_ended and not frames:
            raise WorkerEnded(self._fault or self._reason())
        return frames

    def wait(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def kill(self) -> None:
        """With all that the environment has started: the supervisor sees to that, then the whole group is killed."""
        self._process.stdin.close()
        self.wait(_PATIENCE_AT_DEATH)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.wait(_PATIENCE_AT_DEATH)
        self._socket.close()

    def _read(self) -> bool:
        """Whether that was the end."""
        while True:
            try:
                piece = self._socket.recv(_PIECE)
            except BlockingIOError:
                return False
            except OSError:
                return True
            if not piece:
                return True
            self._received += piece

    def _whole_frames(self) -> Iterator[bytes]:
        while len(self._received) >= PREFIX.size:
            try:
                size = frame_size(self._received)
            except BadMessage as error:
                self._fault = str(error)
                return
            if len(self._received) < size:
                return
            yield bytes(self._received[:size])
            del self._received[:size]

    def _reason(self) -> str:
        self.wait(_PATIENCE_AT_DEATH)
        code = self._process.returncode
        if code is None:
            return "hung up"
        return f"signal {-code}" if code < 0 else f"signal {code - 128}" if code > 128 else f"exit code {code}"
