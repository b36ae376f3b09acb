"""Stopping on request: Ctrl-C or SIGTERM asks the loop to finish its chunk and save; a second Ctrl-C quits at once."""

import signal
import threading
from types import FrameType
from typing import Any


class StopRequest:
    """`with StopRequest() as stop:`; the loop looks at `stop.requested` between chunks.

    Python runs signal handlers between bytecodes, so inside a compiled chunk both the request and the second Ctrl-C
    wait for the chunk to return. Outside the main thread nothing is installed, and nothing is ever requested.
    """

    def __init__(self) -> None:
        self.requested: int | None = None
        self._previous: dict[int, Any] = {}

    @property
    def exit_code(self) -> int:
        """What a shell reports for a process ended by the signal: 130 for SIGINT, 143 for SIGTERM, 0 without any."""
        return 128 + self.requested if self.requested else 0

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            # None: the handler was installed from C, and Python cannot put it back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested is None:
            self.requested = int(number)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
