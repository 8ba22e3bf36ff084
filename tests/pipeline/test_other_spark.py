"""Supported versions of PySpark other than the pinned one: the core of these tests, in a virtual environment of its own."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from quorum_node.json_text import read_json

FOLDER = Path(__file__).parent
CORE = (
    "test_archive.py",
    "test_archive_source.py",
    "test_audit_job.py",
    "test_hadoop_archive.py",
    "test_state_job.py",
    "test_table_sources.py",
    "test_timeline_job.py",
    "test_versions_frame.py",
)
INSTALL_SECONDS, RUN_SECONDS = 900, 2400


def environment_with(version: str, directory: Path) -> Path:
    """The Python of an environment with this PySpark, and with all other packages of this one."""
    run(sys.executable, "-m", "venv", "--without-pip", directory, seconds=60)
    python = directory / "bin" / "python"
    asked = ("install", "--quiet", f"pyspark=={version}")
    run(sys.executable, "-m", "pip", "--python", python, *asked, seconds=INSTALL_SECONDS)
    found = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", seconds=60)
    # Behind its own packages, with the editable project.
    others = sysconfig.get_path("purelib")
    (Path(found.strip()) / "others.pth").write_text(f"import site; site.addsitedir({others!r})\n")
    return python


def run(*command: object, seconds: int) -> str:
    ended = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=seconds, env=own_only()
    )
    assert ended.returncode == 0, ended.stdout[-8_000:] + ended.stderr[-2_000:]
    return ended.stdout


def own_only() -> dict[str, str]:
    """Without the variables that name the interpreter of the outer session, or a worker of pytest-xdist."""
    left_out = ("PYSPARK_PYTHON", "PYTEST_", "QUORUM_PIPELINE_PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


@pytest.mark.long
@pytest.mark.timeout(INSTALL_SECONDS + RUN_SECONDS + 120)
@pytest.mark.parametrize("version", ["4.3.0"])
@pytest.mark.requirement("SP-08")
def test_core_with_another_version(version: str, tmp_path: Path) -> None:
    python = environment_with(version, tmp_path / "environment")
    told = run(
        python,
        "-c",
        "import json, py4j, pyspark; print(json.dumps([pyspark.__version__, pyspark.__file__]))",
        seconds=60,
    )
    found, place = read_json(told)
    assert found == version
    assert place.startswith(str(tmp_path))
    tests = [str(FOLDER / name) for name in CORE]
    output = run(python, "-m", "pytest", "-q", "-n", "0", "-m", "", *tests, seconds=RUN_SECONDS)
    assert " passed" in output
    assert "skipped" not in output
