"""What is in the wheel, and so in the images: what a process runs, and nothing that only tests it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.source_tree import ROOT, files

_BUILD = """
import sys
from hatchling.build import build_wheel
print(build_wheel(sys.argv[1]))
"""
SHIPPED = (
    *("node/quorum_node", "operator/quorum_operator", "pipeline/quorum_pipeline"),
    *(
        f"pipeline/pyspark_metadata_{name}"
        for name in ("log", "snapshot", "state", "changes", "archive")
    ),
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the build backend makes of this tree."""
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-c", _BUILD, str(target)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (made,) = target.iterdir()
    return made


@pytest.fixture(scope="module")
def packed(wheel: Path) -> set[str]:
    """Names of the files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_installs_the_kubectl_plugin(wheel: Path) -> None:
    """kubectl finds `kubectl-quorum` there, for `kubectl quorum`."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("/entry_points.txt"))
        text = archive.read(name).decode()
    assert "kubectl-quorum = quorum_operator.plugin.main:main" in text.splitlines()


def test_wheel_contains_no_simulation(packed: set[str]) -> None:
    assert not [name for name in packed if "simulation" in name]
    assert {name.split("/")[0] for name in packed if name.endswith(".py")} == {
        Path(package).name for package in SHIPPED
    }


def test_wheel_contains_every_module_of_its_packages(packed: set[str]) -> None:
    wanted = {
        str(path.relative_to((ROOT / package).parent).as_posix())
        for package in map(Path, SHIPPED)
        for path in files(".py")
        if path.is_relative_to(ROOT / package)
    }
    names = {name for name in packed if name.endswith(".py")}
    assert wanted
    assert names == wanted
