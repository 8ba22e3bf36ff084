"""The harness against control planes of newer Kubernetes versions than the one that kind and the short set use."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from testbed.control_plane import ControlPlane
from testbed.pins import NEWER_KUBERNETES

from support.kind import KUBERNETES_VARIABLE
from support.kind_env.testbed import programs
from support.source_tree import ROOT

pytestmark = [pytest.mark.envtest, pytest.mark.long]

_FEWEST = 120
"""Tests of the short set in this folder; a run of fewer has left some out."""


@pytest.mark.timeout(5400)  # compiling the control plane, on a new machine, and the harness
@pytest.mark.parametrize("minor", NEWER_KUBERNETES)
def test_test_harness_passes_with_a_newer_control_plane(
    minor: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    programs.control_plane(minor)
    with ControlPlane(minor=minor) as running:
        version = json.loads(running.get("/version"))["gitVersion"]
    assert version == NEWER_KUBERNETES[minor]
    output = tmp_path / "output"
    command = [sys.executable, "-m", "pytest", "-m", "envtest and not long", "tests/envtest"]
    with open(output, "wb") as log:
        ended = subprocess.run(
            [*command, "-q", "-p", "no:cacheprovider"],
            cwd=ROOT,
            env=_environment(minor),
            stdout=log,
            stderr=log,
            check=False,
        )
    report = output.read_text(errors="replace")
    passed = re.search(r"(\d+) passed", report)
    assert ended.returncode == 0, report[-20_000:]
    assert passed is not None, report[-2_000:]
    assert int(passed[1]) >= _FEWEST, report[-2_000:]
    record_property("passed", int(passed[1]))
    record_property("version", version)


def _environment(minor: str) -> dict[str, str]:
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return {**outer, KUBERNETES_VARIABLE: minor}
