"""promtool, if it is installed: Debian's package `prometheus` has it. Nothing is installed here."""

import os
import shutil
from pathlib import Path

import pytest


def promtool() -> Path:
    """On the PATH, or named by METADATAQUORUM_PROMTOOL; else the test is skipped."""
    found = os.environ.get("METADATAQUORUM_PROMTOOL") or shutil.which("promtool")
    if found is None:
        pytest.skip("no promtool on PATH (Debian: apt-get install prometheus)")
    return Path(found)


def beside_promtool(name: str) -> Path:
    """Another program of the same package."""
    found = promtool().with_name(name)
    if not found.exists():
        pytest.skip(f"no {name} beside promtool")
    return found
