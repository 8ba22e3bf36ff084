"""Fixtures for tests on the kind cluster: the cluster itself, and a namespace of its own per test.

A running cluster is reused and left running; `make down` removes it. A test module takes the fixtures by importing them into a
conftest.py. Environment: METADATAQUORUM_CLUSTER, the cluster's name (mq).
"""

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

# The testbed is a separate program beside its Go modules and node files, not a package of tests/.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e" / "kind"))

from testbed import lifecycle, network, nodes, project_images
from testbed.control_plane import ControlPlane
from testbed.disks import Disks
from testbed.kubectl import Kubectl
from testbed.volumes import Volumes

KUBERNETES_VARIABLE = "METADATAQUORUM_KUBERNETES"

_POLL_S = 0.2
_WORKERS = 3


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster and what tests do with it."""

    name: str
    kubeconfig: Path
    kubectl: Kubectl
    disks: Disks
    volumes: Volumes

    @property
    def workers(self) -> tuple[str, ...]:
        """Node names of worker 1, 2, 3."""
        return tuple(nodes.worker_name(self.name, worker) for worker in range(1, _WORKERS + 1))


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """Started if it is not running; links that an earlier run cut are repaired."""
    name = os.environ.get("METADATAQUORUM_CLUSTER", "mq")
    kubeconfig = lifecycle.up(name, workers=_WORKERS)
    for node in nodes.node_names(name):
        network.heal(node)
    return Cluster(name, kubeconfig, Kubectl(kubeconfig), Disks(name), Volumes(name, kubeconfig))


@pytest.fixture(scope="session")
def loaded_images(cluster: Cluster) -> tuple[str, ...]:
    """Names of the project's images, built from this checkout and put onto the workers."""
    names = project_images.build_all()
    lifecycle.load(cluster.name, list(names))
    return names


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """An empty namespace, deleted with everything in it after the test. The deletion is not awaited: the name is unique."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.kubectl.run("create", "namespace", name)
    yield name
    cluster.kubectl.run("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="package")
def api_server() -> Iterator[ControlPlane]:
    """The API alone: no nodes, no pods; ready in seconds. METADATAQUORUM_KUBERNETES=1.36: of this minor version.

    It ends with the folder that uses it: an idle control plane takes a tenth of a core."""
    with ControlPlane(minor=os.environ.get(KUBERNETES_VARIABLE)) as running:
        yield running


def eventually(condition: Callable[[], bool], what: str, *, timeout_s: float = 30.0) -> float:
    """Waits until the condition holds; returns the seconds it took. Fails the test otherwise."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > timeout_s:
            pytest.fail(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(_POLL_S)
    return time.monotonic() - begun
