"""What is finished is kept, one file per seed, so that a comparison that was stopped goes on where it was."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from asap.base.files import BadFile, parsed, read_regular, replace

LARGEST_FILE = 10_000_000  # Bytes.

Row = dict[str, Any]  # Of one seed, as JSON has it.


def kept_rows(
    path: Callable[[int], Path],
    settings: Mapping[str, Any],
    seeds: Sequence[int],
    compute: Callable[[Sequence[int]], Sequence[Row]],
    notice: Callable[[str], None],
    read: Callable[[Row], Any] = dict,
) -> list[Row]:
    """A row for each seed: from its file, or computed, all missing seeds together, and kept. Files that were made with other
    settings are not used, nor those that `read` can do nothing with."""
    wanted = json.loads(json.dumps(settings, default=str))  # As they are read back.
    found = {seed: _read(path(seed), wanted, notice, read) for seed in seeds}
    missing = [seed for seed in seeds if found[seed] is None]
    if missing:
        for seed, row in zip(missing, compute(missing), strict=True):
            found[seed] = row
            text = json.dumps({"settings": wanted, "result": row}, indent=1)
            replace(path(seed), f"{text}\n".encode(), "comparison")
    return [row for row in found.values() if row is not None]


def _read(
    path: Path, wanted: Mapping[str, Any], notice: Callable[[str], None], read: Callable[[Row], Any]
) -> Row | None:
    if not path.exists():
        return None
    why = "cannot be read"
    with suppress(BadFile, LookupError, TypeError, ValueError, AttributeError):
        record = parsed(read_regular(path, LARGEST_FILE)) or {}
        made = record["settings"]
        differing = [name for name in wanted if made.get(name) != wanted[name]]
        if not differing:
            read(record["result"])
            return record["result"]
        why = f"was made with other settings ({', '.join(differing)})"
    notice(f"{path} {why}; it is made anew")
    return None
