"""The API without a cluster: what the tests of the operator's every call rely on."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_objects import spread_servers
from testbed.control_plane import ControlPlane
from testbed.kubectl import Kubectl
from testbed.places import KIND_DIRECTORY

from support.kind import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


def test_stateful_set_creates_its_pods_and_stop_removes_all_processes_and_files() -> None:
    with ControlPlane() as running:
        kubectl = Kubectl(running.kubeconfig)
        kubectl.apply(*spread_servers("any:image", 2, 30001))

        def pods() -> list[str]:
            return [pod["metadata"]["name"] for pod in kubectl.get("pods")["items"]]

        eventually(lambda: pods() == ["server-0", "server-1"], "two Pod objects")
        directory = running.kubeconfig.parent
        assert directory.is_dir()
    assert not directory.exists()
    assert not _processes_of(directory)


def test_api_server_stops_when_its_parent_process_ends() -> None:
    command = [sys.executable, str(KIND_DIRECTORY / "cluster.py"), "control-plane"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as verb:
        assert verb.stdout is not None
        directory = Path(verb.stdout.readline().strip()).parent
        assert len(_processes_of(directory)) == 3
        verb.send_signal(signal.SIGKILL)
    eventually(lambda: not _processes_of(directory), "API server, etcd and controllers end")
    with ControlPlane():
        assert not directory.exists()


def _processes_of(directory: Path) -> list[str]:
    """Command lines of living processes that name the directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended meanwhile
            continue
        if str(directory) in command:
            found.append(command)
    return found
