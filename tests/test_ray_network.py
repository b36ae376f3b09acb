"""The conformance suite and the faults of a two-node cluster, for Ray, in a network namespace with the loopback
alone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ALONE = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]


def test_ray_passes_what_all_workers_pass():
    pytest.importorskip("ray")
    if subprocess.run([*ALONE, "true"], capture_output=True).returncode:
        pytest.skip("this user may not make network namespaces")
    files = [TESTS / f"{name}.py" for name in ("test_workers", "test_worker_tasks", "test_ray_workers")]
    command = [*ALONE, sys.executable, TESTS / "ray_network.py", *files, "-k", "ray"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, cwd=TESTS.parent)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    dots = "".join(re.findall(r"^([.sFE]+) +\[", done.stdout, re.M))
    assert dots.count(".") > 15 and "s" not in dots  # All of them, and none skipped.
