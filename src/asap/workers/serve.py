"""The player's side of a connection: work comes in, episodes go out."""

import platform
import socket

import numpy as np

import asap
from asap.base.errors import UserError
from asap.workers.backend import Board
from asap.workers.messages import PREFIX, Hello, Message, Ready, Refused, decode, encode, frame_size
from asap.workers.play import Environments, play_chunk
from asap.workers.work import Work


def serve(connection: socket.socket, board: Board) -> None:
    """Plays what comes until it is told goodbye. Errors of our own end the worker, with their traceback in its
    output."""
    hello = receive(connection)
    assert isinstance(hello, Hello), hello
    environments = Environments(hello.sources)
    try:
        environments.of_task(0)  # One that is broken is told at the start.
        connection.sendall(encode(Ready(versions())))
        while isinstance(work := receive(connection), Work):
            board.begin(work.number)
            connection.sendall(encode(play_chunk(environments, work, board.note)))
    except UserError as error:
        connection.sendall(encode(Refused(str(error), error.exit_code)))
    environments.close()


def versions() -> dict[str, str]:
    """Of all that the bits of an episode depend on and that we know of."""
    import gymnasium

    packages = {module.__name__: module.__version__ for module in (asap, np, gymnasium)}
    return {"python": platform.python_version(), **packages}


def receive(connection: socket.socket) -> Message:
    """The next message, waited for."""
    prefix = _read(connection, PREFIX.size)
    return decode(prefix + _read(connection, frame_size(prefix) - PREFIX.size))


def _read(connection: socket.socket, size: int) -> bytearray:
    buffer, begin = bytearray(size), 0
    while begin < size:
        count = connection.recv_into(memoryview(buffer)[begin:])
        if count == 0:
            raise EOFError("the driver hung up")
        begin += count
    return buffer
