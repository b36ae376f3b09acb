"""Ray listens on all interfaces: it is tested in a network namespace that has none but the loopback."""

import fcntl
import os
import socket
import struct
import sys

import pytest

_SET_FLAGS, _GET_FLAGS, _UP = 0x8914, 0x8913, 0x1


def require_ray():
    """The module; skips the test where Ray is not installed or others could reach it."""
    ray = pytest.importorskip("ray")
    if any(name != "lo" for _, name in socket.if_nameindex()):
        pytest.skip("tested in a network of its own, by test_ray_network.py")
    return ray


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sh", b"lo", 0).ljust(40, b"\0")
        flags = struct.unpack("16sh", fcntl.ioctl(probe, _GET_FLAGS, request)[:18])[1]
        fcntl.ioctl(probe, _SET_FLAGS, struct.pack("16sh", b"lo", flags | _UP).ljust(40, b"\0"))


if __name__ == "__main__":
    loopback_up()
    os.execv(
        sys.executable,
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *sys.argv[1:]],
    )
