"""Who made a file: a tag that only its maker can write, over what the file names.

A run, a saved model and a recorded episode name things: an environment to import and its options, data, a run to start
from. Whoever gets such a file from a stranger must not import, call or open them unawares. So the maker's names are
tagged with HMAC-SHA256 under 32 random bytes that are private to the user. No tag, a wrong one, or no key: the file is
a stranger's. docs/security.md says what follows from that.
"""

import contextlib
import hashlib
import hmac
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KEY_FILE = "ASAP_KEY_FILE"  # Environment variable: where the key is, in place of the user's configuration folder.
KEY_BYTES = 32
_DOMAIN = b"asap names 1\n"  # A tag of anything else can't be taken for one of these.


def tag(names: Mapping[str, Any]) -> str | None:
    """The user's tag over these names, in JSON's types; None where no key can be had."""
    key = read_key() or _new_key()
    return None if key is None else _tagged(key, names)


def is_own(names: Mapping[str, Any], tag: object) -> bool:
    """Whether the tag that a file tells is the user's own, over these names."""
    if not isinstance(tag, str) or not tag.isascii():
        return False
    key = read_key()
    return key is not None and hmac.compare_digest(_tagged(key, names), tag)


def _tagged(key: bytes, names: Mapping[str, Any]) -> str:
    text = json.dumps(names, sort_keys=True, separators=(",", ":"))
    return hmac.new(key, _DOMAIN + text.encode(), hashlib.sha256).hexdigest()


def key_path() -> Path | None:
    """Where the key is, or will be; None where the user has no folder of their own."""
    chosen = os.environ.get(KEY_FILE)
    if chosen:
        return Path(chosen)
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(folder) / "asap" / "key" if os.path.isabs(folder) else None


def read_key() -> bytes | None:
    """The key; None where there is none, or one that others can read: it proves nothing."""
    path = key_path()
    if path is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # Never waits at a FIFO.
    except (OSError, ValueError):  # ValueError: a NUL in the path.
        return None
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_size != KEY_BYTES:
            return None
        key = file.read(KEY_BYTES)
    return key if len(key) == KEY_BYTES else None


def _new_key() -> bytes | None:
    """Made on first use. Of two processes that make one at the same time, both take the first."""
    path = key_path()
    if path is None:
        return None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}-{os.getpid()}-{os.urandom(4).hex()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except (OSError, ValueError):
        return None
    try:
        with open(descriptor, "wb") as file:
            file.write(os.urandom(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)  # Unlike a rename, it never takes the place of a key that is there.
    except OSError:
        pass  # Another process was first, or the folder can't hold a key: reading tells which.
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)
    return read_key()
