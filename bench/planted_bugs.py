"""Realistic one-line bugs, each of which a user would suffer from: what `plants.py` plants to see whether tests catch it.

They were written down before a test was looked at; those of `planted_bugs_safety` by who wrote the tests. A bug whose old text no longer stands exactly once in its file is
stale, and is replaced by one of the same kind.
"""

from typing import NamedTuple

import planted_bugs_lower
import planted_bugs_safety
import planted_bugs_upper


class Bug(NamedTuple):
    id: str
    file: str  # Under src/asap.
    old: str  # Exact text, which stands there once.
    new: str
    suffers: str  # What a user would see.
    first: tuple[str, ...]  # Files under tests that are likeliest to catch it.

    def planted(self, text: str) -> str | None:
        """The file's text with the bug in it; None if the bug is stale."""
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None


BUGS = tuple(Bug(*row) for row in (*planted_bugs_lower.ROWS, *planted_bugs_upper.ROWS, *planted_bugs_safety.ROWS))
