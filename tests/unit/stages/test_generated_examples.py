"""Which examples the tests of properties have."""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
_PROGRAM = """
from hypothesis import given, strategies

@given(strategies.integers())
def test_it(number):
    print(f"example {number}")
"""


def examples(folder: Path, *options: str) -> list[str]:
    file = folder / "test_it.py"
    file.write_text(_PROGRAM)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "support.example_profiles"]
    output = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(folder), *options, str(file)],
        env={**os.environ, "PYTHONPATH": f"{_ROOT / 'tests'}", "CI": "true"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    return [line for line in output.splitlines() if line.startswith("example")]


def test_examples_are_the_same_in_each_run_unless_one_searches(tmp_path: Path) -> None:
    first = examples(tmp_path)
    assert len(first) > 50
    assert examples(tmp_path) == first
    assert examples(tmp_path, "--hypothesis-profile=searching") != first
