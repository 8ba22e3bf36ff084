"""The release from its folder alone: wheel, chart, definitions and images, on an empty environment and on a cluster.

The folder is copied to where there is no checkout around it. Nothing but its files is installed.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from release import bills, images, versions
from support.kind_env import installation, operator_cluster
from support.kind_env.environment import MOVE_TIMEOUT_S, KindEnv
from support.kind_env.installation import OPERATOR_NAMESPACE, RELEASE
from support.kind_env.operator_cluster import OperatorCluster
from support.kind_env.testbed import programs, run
from support.source_tree import ROOT
from support.yaml_text import read_yaml

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]

SCRIPTS = {
    "node": ("quorum-node", "quorumctl", "quorum-backup"),
    "operator": ("quorum-operator", "kubectl-quorum"),
    "pipeline": ("quorum-pipeline",),
}
"""The scripts that work with the packages of one extra alone."""
_BUILD_TIMEOUT_S = 1500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make release` has made, somewhere else."""
    built = tmp_path_factory.mktemp("built") / "release"
    command = [sys.executable, "-m", "release", "--output", str(built)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=_BUILD_TIMEOUT_S)
    return Path(shutil.move(built, tmp_path_factory.mktemp("elsewhere") / "files"))


@pytest.fixture(scope="module")
def version() -> str:
    return versions.one_version(ROOT)


def in_folder(folder: Path, *command: str, timeout_s: float = 600) -> str:
    """Its output. Nothing of this environment's Python is on its path."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        command,
        cwd=folder,
        env=kept,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
    return done.stdout


def test_release_checksums_cover_every_file(folder: Path) -> None:
    in_folder(folder, "sha256sum", "--check", "--strict", "SHA256SUMS")
    listed = {
        line.split()[1].lstrip("*") for line in (folder / "SHA256SUMS").read_text().splitlines()
    }
    assert listed == {each.name for each in folder.iterdir()} - {"SHA256SUMS"}


@pytest.mark.parametrize("image", images.NAMES)
def test_bill_of_materials_lists_python_and_debian_packages(
    folder: Path, version: str, image: str
) -> None:
    path = folder / f"metadataquorum-{image}-{version}.cdx.json"
    bills.validate(path.read_text(), path.name)
    components = json.loads(path.read_text())["components"]
    kinds = {
        kind: [each for each in components if kind in each["purl"]] for kind in ("pypi", "deb/")
    }
    pinned = (ROOT / "requirements" / f"{image}.txt").read_text()
    assert {each["name"].lower() for each in kinds["pypi"]} == {
        line.partition("==")[0].lower()
        for line in pinned.splitlines()
        if "==" in line and line[0] != " "
    }
    assert all(each["externalReferences"][0]["hashes"] for each in kinds["pypi"])
    assert "libc6" in {each["name"] for each in kinds["deb/"]}
    java = any("jre" in each["name"] for each in kinds["deb/"])
    assert java == (image == "pipeline")


@pytest.mark.parametrize("extra", SCRIPTS)
def test_wheel_works_in_an_empty_environment(
    folder: Path, version: str, extra: str, tmp_path: Path
) -> None:
    (wheel,) = folder.glob("*.whl")
    in_folder(folder, sys.executable, "-m", "venv", str(tmp_path / "venv"))
    python = tmp_path / "venv" / "bin" / "python"
    wanted = f"{wheel}[{extra}]"
    in_folder(folder, str(python), "-m", "pip", "install", "--quiet", wanted, timeout_s=900)
    for script in SCRIPTS[extra]:
        assert "usage" in in_folder(folder, str(python.with_name(script)), "--help").lower()
    where = in_folder(folder, str(python), "-c", "import quorum_node; print(quorum_node.__file__)")
    assert where.startswith(str(tmp_path)), "imported from the checkout"
    output = in_folder(folder, str(python), "-m", "pip", "show", "metadataquorum")
    assert f"Version: {version}" in output


@pytest.fixture
def released(
    ready_cluster: OperatorCluster, folder: Path, version: str
) -> Iterator[OperatorCluster]:
    """The cluster, with operator and images from the release; afterwards with those of this tree again."""
    for name in ("node", "operator"):
        (image,) = folder.glob(f"metadataquorum-{name}-{version}-*.oci.tar")
        load = ["load", "image-archive", str(image), "--name", ready_cluster.name]
        run([str(programs.kind()), *load], timeout_s=300)
    helm = installation.helm_command(ready_cluster.kubeconfig)
    chart = str(folder / f"metadataquorum-{version}.tgz")
    options = ["--namespace", OPERATOR_NAMESPACE, "--reset-values", "--set", "watchNamespaces={*}"]
    upgrade = [*helm, "upgrade", "--install", RELEASE, chart, *options]
    try:
        run([*upgrade, "--wait", "--timeout", "180s"], timeout_s=240)
        yield ready_cluster
    finally:
        _, operator_image = operator_cluster.load_images(ready_cluster)
        operator_cluster.install_operator(ready_cluster, operator_image)


def test_released_images_and_chart_run_a_quorum_that_repairs_itself(
    released: OperatorCluster, folder: Path, version: str, env: KindEnv
) -> None:
    definition = read_yaml((folder / "metadataquorums.yaml").read_text())
    assert definition["kind"] == "CustomResourceDefinition"
    (pod,) = installation.operator_pods(released.api)
    assert pod["spec"]["containers"][0]["image"] == f"metadataquorum-operator:{version}"
    # Null means an absent field: the image is the default of the definition.
    quorum = env.create_under_load(3, image=None)
    assert quorum.resource()["spec"]["image"] == f"metadataquorum-node:{version}"
    quorum.scale(5)
    before = quorum.wait_healthy(5, timeout_s=MOVE_TIMEOUT_S)
    env.faults.kill_9(quorum.pod_of(before.leader_id, before.leader_uuid))
    later = quorum.wait_healthy(
        5, timeout_s=MOVE_TIMEOUT_S, also=lambda now: now.leader_epoch > before.leader_epoch
    )
    victim = next(each for each in later.voters if each.id != later.leader_id)
    env.faults.fail_disk(victim.id, victim.uuid)
    gone = (victim.id, victim.uuid)
    quorum.wait_healthy(5, timeout_s=MOVE_TIMEOUT_S, also=lambda now: gone not in now.keys)
    quorum.wait_phase("Ready", timeout_s=60)
    env.prove_nothing_lost()
