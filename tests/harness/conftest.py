"""One control plane for the session; each test has a namespace, a proxy and operators of its own."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.harness.cluster import HarnessCluster
from support.harness.pod_runtime import Program

STAND_IN_IMAGE = "stand-in"
NODE_IMAGE = "quorum-node:harness"
_TESTS = Path(__file__).resolve().parents[1]


def _listen_on(address: str) -> list[str]:
    """All pods share one loopback device, so a node listens on its pod's address only."""
    return [
        "--override",
        f"listeners=CONTROLLER://{address}:9093",
        "--override",
        f"admin.listener=http://{address}:8080",
    ]


def _programs() -> dict[str, Program]:
    stand_in = [sys.executable, str(_TESTS / "support" / "harness" / "stand_in.py")]
    node = [str(Path(sys.executable).with_name("quorum-node"))]
    return {
        STAND_IN_IMAGE: Program(stand_in, lambda address: ["--address", address]),
        NODE_IMAGE: Program(node, _listen_on),
    }


@pytest.fixture(scope="session")
def cluster() -> Iterator[HarnessCluster]:
    """kube-apiserver, etcd, kube-controller-manager and our kubelet, for the whole session."""
    if os.geteuid() != 0:
        pytest.skip("the harness mounts volumes and needs root")
    folder = Path(tempfile.mkdtemp(prefix="metadataquorum-harness-"))
    try:
        with HarnessCluster(Path("/tmp/t_cp/d/kubeconfig"), folder, _programs()) as found:
            yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)
