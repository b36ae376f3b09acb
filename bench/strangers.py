"""Tries what a stranger's files can do: each hostile run, model, settings file and recording in a process of its own.

    .venv/bin/python bench/strangers.py            # some minutes
    .venv/bin/python bench/strangers.py --json

The files and the audit hook are those of the tests (`tests/hostile_files.py`). Exit code 1 if anything was imported, called,
opened or connected to that the user has not named, or if a command does not end in one clear line.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
SECONDS = 120  # For a case.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    rows = [tried(name) for name in names()]
    for row in rows:
        print(f"{row['verdict']:<10}{row['case']}: {' '.join(row['stderr'].split())[:150]}", file=sys.stderr)
    safe = sum(row["verdict"] == "safe" for row in rows)
    print(json.dumps({"cases": len(rows), "safe": safe}) if as_json else f"{safe} of {len(rows)} cases touched nothing")
    sys.exit(0 if safe == len(rows) else 1)


def names() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        program = "import sys, pathlib, hostile_files; [print(c.name) for c in hostile_files.cases(pathlib.Path.cwd())]"
        return _run(["-c", program], folder).stdout.splitlines()


def tried(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="from a stranger ") as folder:
        try:
            done = _run([str(TESTS / "hostile_files.py"), folder, name], folder)
            row = json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            return {"case": name, "stderr": f"silent for {SECONDS} s", "verdict": "HANGS"}
        except ValueError:
            return {"case": name, "stderr": done.stderr, "verdict": "FAILS"}
    is_clear = row["said"] and row["code"] == row["expected"] and len(row["errors"]) == (row["code"] != 0)
    row["verdict"] = "TOUCHES" if row["touched"] or row["canary"] else "safe" if is_clear else "UNCLEAR"
    return row


def _run(arguments: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "ASAP_KEY_FILE": os.path.join(folder, "key")}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS)


if __name__ == "__main__":
    main()
