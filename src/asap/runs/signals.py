"""Stopping on request: Ctrl-C or SIGTERM asks the work at hand to save and end; a second one quits at once."""

import contextlib
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from asap.base.errors import Interrupted, QuitNow, to_stderr

PATIENCE = 5.0  # Seconds in which a command that was asked to stop ends, whatever hangs.
TOGETHER = 0.3  # Seconds. Signals that come so soon after the first are the same wish: `timeout` sends two.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """`with StopRequest() as stop:`; whoever plays or learns calls `stop.check` between steps, or looks at
    `stop.requested`. Outside the main thread nothing is installed, and nothing is ever requested.

    Python runs signal handlers between bytecodes of the main thread. So a compiled program, and an environment that is
    within a call that does not return, keep both requests waiting. A thread hears of signals at once (by the wakeup
    descriptor) and answers the first. A command, which has nothing to do but this, gives a `patience`: then that thread
    ends the process when that time is over or the second signal comes. Checkpoints are put in place whole or not at all, so the last one stands.
    """

    def __init__(self, patience: float | None = None) -> None:
        self.requested: int | None = None
        self._patience, self._since = patience, 0.0
        self._asking = threading.RLock()  # A signal may come while the handler of another one holds it.
        self._num_handled, self._is_repeated = 0, False
        self._deadline = math.inf
        self._previous: dict[int, Any] = {}
        self._bell: socket.socket | None = None

    @property
    def exit_code(self) -> int:
        """What a shell reports for a process ended by the signal: 130 for SIGINT, 143 for SIGTERM, 0 without any."""
        return 128 + self.requested if self.requested else 0

    def check(self, *_: object) -> None:
        """Raises `Interrupted` when somebody has asked to stop, or when the time that there was is over."""
        if self.requested is not None or time.monotonic() > self._deadline:
            raise Interrupted

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """What is done inside is given up after so many seconds."""
        self._deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline = math.inf

    def leaving(self) -> BaseException:
        """What to raise when all is saved: what Python itself raises at a Ctrl-C, or the exit of a SIGTERM."""
        return KeyboardInterrupt() if self.requested == signal.SIGINT else SystemExit(self.exit_code)

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._previous[number] = signal.signal(number, self._handle)
            self._listen()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if self._bell is not None:
            signal.set_wakeup_fd(self._wakeup)
            if self._patience is None or self.requested is None:
                self._bell.close()  # Otherwise the patience lasts until the process has ended.
        for number, handler in self._previous.items():
            # None: the handler was installed from C, and Python cannot put it back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()
        if isinstance(error, Interrupted) and self.requested:
            raise self.leaving() from None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._ask(number)
        self._num_handled += 1
        if self._patience is None and (self._is_repeated or self._is_another(self._num_handled)):
            raise QuitNow

    def _ask(self, number: int) -> None:
        """Handler and thread both hear of a signal; the first of them answers."""
        with self._asking:
            if self.requested is None:
                self._since, self.requested = time.monotonic(), int(number)
                to_stderr("note: stopping; press Ctrl-C again to quit now")

    def _is_another(self, count: int) -> bool:
        return count > 1 and time.monotonic() - self._since > TOGETHER

    def _listen(self) -> None:
        heard, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(heard,), daemon=True).start()

    def _watch(self, heard: socket.socket) -> None:
        count = 0
        try:
            while rung := heard.recv(1):
                if rung[0] in _SIGNALS:
                    count += 1
                    self._ask(rung[0])
                    self._is_repeated = self._is_another(count)
                if self._patience is None:
                    continue
                if self._is_repeated:
                    os._exit(128 + rung[0])
                if self.requested is not None:
                    heard.settimeout(max(self._since + self._patience - time.monotonic(), 0.001))
        except TimeoutError:
            to_stderr("note: quit at once; the last checkpoint is intact")
            os._exit(self.exit_code)
        heard.close()
