"""For every test: shapes and types are checked at run time, compiled functions are shared; and a few things to test on.

The annotations of the package hold under the import hook or the test fails. Nothing of the package may be imported
before the hook is installed, hence the imports inside the fixtures.
"""

import getpass
import os
import tempfile
from pathlib import Path

import jaxtyping
import pytest

# Compiling takes most of the time of the tests: workers and later runs share what has been compiled.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"asap-tests-{getpass.getuser()}"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")

CHECKED = ("keys", "vector", "features", "envs", "policy", "learn", "evaluate")  # Where arrays have shapes.
jaxtyping.install_import_hook([f"asap.{name}" for name in CHECKED], "beartype.beartype")
