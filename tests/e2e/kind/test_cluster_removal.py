"""`make distclean` while a real cluster runs, by a Python that lacks the project: nothing is left of the cluster.

A cluster of one worker with a state and a cache of its own. Where no docker daemon answers, one is started for this state, and it
has to go as well; one that was there stays. `tests/tidy/test_cleaning.py` has the same for files, without a cluster.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed import daemon
from testbed.places import cache_directory

from support.bare_python import BARE, mount_points
from support.local_quorum import wait_until
from support.source_tree import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(1800)]

NAME = "goes"
FIRST_HOST_PORT = 31100
_KEPT = ("debian", "images", "programs")
"""What takes long to build: the copy of the cache begins with it."""


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Path]:
    """A state and a cache. Whatever the test leaves goes after it."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for name in _KEPT:
        source = cache_directory() / name
        if source.is_dir():
            shutil.copytree(source, cache / name, symlinks=True)
    yield tmp_path
    run(tmp_path, [*cluster_program(), "down", "--all"])


def cluster_program() -> list[str]:
    return [sys.executable, "-B", str(ROOT / "tests" / "e2e" / "kind" / "cluster.py")]


def run(folders: Path, command: list[str], folder: Path = ROOT) -> str:
    environment = {
        **os.environ,
        "METADATAQUORUM_STATE": str(folders / "state"),
        "METADATAQUORUM_CACHE": str(folders / "cache"),
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def processes(word: str) -> dict[int, str]:
    """Processes with this word in their command line, except those of the test."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, UnicodeDecodeError):
            continue
        if word in command and "pytest" not in command:
            found[int(folder.name)] = command
    return found


def network_namespaces() -> set[str]:
    """Of all processes that there are, by inode."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found.add(os.readlink(folder / "ns" / "net"))
            except OSError:
                continue
    return found


def loop_files() -> set[str]:
    """The files behind loop devices: the disks of a cluster."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return {each.read_text().strip() for each in files}


def containers() -> str:
    """Names of containers and networks that docker has, one a line; empty without a daemon."""
    if not daemon.answers():
        return ""
    names = ""
    for what in (["ps", "-a"], ["network", "ls"], ["volume", "ls"]):
        listed = ["docker", *what, "--format", "{{.Name}}" if what[0] != "ps" else "{{.Names}}"]
        names += subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    return names


def test_distclean_removes_a_running_cluster_completely(folders: Path) -> None:
    """No process, mount, network namespace, container, disk or file remains; `distclean` also removes the cache."""
    state = str(folders / "state")
    daemon_was_there = daemon.answers()
    before = set(mount_points()), network_namespaces(), set(containers().splitlines())
    up = ["up", "--name", NAME, "--workers", "1", "--first-host-port", str(FIRST_HOST_PORT)]
    run(folders, [*cluster_program(), *up])
    run(folders, [*cluster_program(), "disk", "make", "1", "3", "--name", NAME])
    assert any(state in each for each in loop_files())
    assert f"{NAME}-control-plane" in containers()
    assert network_namespaces() - before[1]
    assert bool(processes(f"--data-root={state}")) is not daemon_was_there

    checkout = folders / "checkout"
    copied = ["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", str(checkout)]
    subprocess.run(copied, check=True, timeout=60)
    run(folders, ["make", "--no-print-directory", "distclean", f"PYTHON={BARE}"], checkout)

    assert not (folders / "state").exists()
    assert not (folders / "cache").exists()
    assert not any(state in each for each in loop_files())
    wait_until(lambda: not processes(state), f"no process of {state} is left: {processes(state)}")
    assert not any(each.startswith(str(folders)) for each in mount_points())
    left = {each for each in set(mount_points()) - before[0] if "docker" in each or NAME in each}
    assert left == set()
    assert daemon.answers() is daemon_was_there
    if daemon_was_there:
        of_it = {each for each in set(containers().splitlines()) - before[2] if NAME in each}
        assert of_it == set()
    wait_until(
        lambda: not processes(f"{NAME}-control-plane") and not processes(f"{NAME}-worker"),
        "no process of a node is left",
    )
