"""`make clean` and `make distclean` delete and keep what the README says, run by a Python that lacks the project.

A copy of the checkout, with a state and a cache of its own, and a PATH on which there is no docker: the machine's
clusters are out of reach. That a real cluster goes as well is for the end-to-end tests; here nothing may keep the
verbs from running, and whatever lies in the state goes.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.bare_python import BARE, mount_points
from support.source_tree import ROOT

MADE = (
    ".venv",
    ".venv-bench",
    ".requirements",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
    "dist",
)
TOOLS = ("make", "sh", "rm", "find", "umount", "mount", "sleep", "id", "date")
MAY_MOUNT = os.geteuid() == 0 and shutil.which("mount") is not None


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Every file that belongs to the checkout, and what making and testing adds."""
    copy = tmp_path / "checkout"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, listed):
        source, target = ROOT / name, copy / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for name in MADE:
        (copy / name / "deep").mkdir(parents=True)
        (copy / name / "deep" / "file").write_text("made")
    (copy / "node" / "quorum_node" / "__pycache__").mkdir()
    (copy / "node" / "quorum_node" / "__pycache__" / "api.pyc").write_text("made")
    return copy


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Path]:
    """State of a cluster and of a docker daemon, and a cache."""
    state, cache = tmp_path / "state", tmp_path / "cache"
    for folder in (
        state / "clusters" / "cleaning-test",
        state / "docker" / "data" / "overlay",
        state / "logs" / "cleaning-test",
        state / "locks",
        cache / "programs",
    ):
        folder.mkdir(parents=True)
        (folder / "file").write_text("made")
    if MAY_MOUNT:
        mount(["-t", "tmpfs", "none", str(state / "docker" / "data" / "overlay")])
    yield tmp_path
    if MAY_MOUNT:
        for point in mounts_below(tmp_path):
            subprocess.run(["umount", "-l", point], check=False)


def mount(arguments: list[str]) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this root may not mount: {done.stderr.strip()}")


def mounts_below(directory: Path) -> list[str]:
    return sorted(each for each in mount_points() if each.startswith(f"{directory}/"))


@pytest.fixture
def daemon(folders: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that the state takes for a docker daemon of ours: pid file and name are all that counts."""
    program = folders / "dockerd"
    shutil.copy2(shutil.which("sleep") or "/bin/sleep", program)
    process = subprocess.Popen([str(program), "600"])
    (folders / "state" / "docker" / "pid").write_text(str(process.pid))
    yield process
    if process.poll() is None:
        process.kill()
    process.wait(10)


def tools_without_docker(folders: Path) -> Path:
    folder = folders / "bin"
    folder.mkdir(exist_ok=True)
    for name in TOOLS:
        found = shutil.which(name)
        if found is not None and not (folder / name).exists():
            (folder / name).symlink_to(found)
    assert shutil.which("docker", path=str(folder)) is None
    return folder


def make(verb: str, checkout: Path, folders: Path) -> None:
    environment = {
        "PATH": str(tools_without_docker(folders)),
        "HOME": str(folders),
        "METADATAQUORUM_STATE": str(folders / "state"),
        "METADATAQUORUM_CACHE": str(folders / "cache"),
    }
    done = subprocess.run(
        ["make", "--no-print-directory", verb, f"PYTHON={BARE}"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def files_of(checkout: Path) -> set[str]:
    return {str(p.relative_to(checkout)) for p in checkout.rglob("*") if p.is_file()}


def test_clean_keeps_the_checkout_and_the_cache(
    checkout: Path, folders: Path, daemon: "subprocess.Popen[bytes]"
) -> None:
    wanted = {name for name in files_of(checkout) if not name.startswith(MADE)}
    wanted = {name for name in wanted if "__pycache__" not in name}
    make("clean", checkout, folders)
    assert files_of(checkout) == wanted
    assert not (folders / "state").exists()
    assert (folders / "cache" / "programs" / "file").exists()
    assert daemon.wait(10) is not None, "the docker daemon was ended"
    assert mounts_below(folders) == []
    make("clean", checkout, folders)  # where nothing is left to be removed


def test_distclean_removes_the_cache(checkout: Path, folders: Path) -> None:
    make("distclean", checkout, folders)
    assert not (folders / "state").exists()
    assert not (folders / "cache").exists()
    assert mounts_below(folders) == []
    assert (checkout / "README.md").exists()


@pytest.mark.parametrize("verb", ["down", "tools", "up", "disk", "kubeconfig"])
def test_every_command_is_parsed_without_the_project(verb: str) -> None:
    program = ROOT / "tests" / "e2e" / "kind" / "cluster.py"
    done = subprocess.run(
        [*BARE.split(), "-B", str(program), verb, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
