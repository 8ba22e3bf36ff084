"""One control plane for all tests of this folder on a worker; each test has a namespace, a proxy and operators of its own."""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest

from support.envtest.cluster import ApiServerCluster
from support.envtest.environment import (
    NODE_IMAGE,
    OTHER_NODE_IMAGE,
    SIMULATED_NODE_IMAGE,
    Env,
    SharedQuorum,
    install_definitions,
)
from support.envtest.operator_process import OperatorProcess
from support.envtest.pod_runtime import Program
from support.envtest.simulated_nodes import SimulatedNodes
from support.envtest.volumes import FOLDER_PREFIX, remove_abandoned
from support.kind import ControlPlane, api_server
from support.kind_env.kube import Kube

__all__ = ["api_server"]  # a fixture is found by its name in this module

STAND_IN_IMAGE = "stand-in"
SIMULATED_NODES = SimulatedNodes()
_STAND_IN = Path(__file__).resolve().parents[1] / "support" / "envtest" / "stand_in.py"


def _listen_on(address: str, given: Sequence[str]) -> list[str]:
    """All pods share one loopback device, so a node listens on its pod's address only."""
    wanted = [f"listeners=CONTROLLER://{address}:9093"]
    if any(each.startswith("admin.listener=https:") for each in given):
        wanted += [
            f"admin.listener=https://{address}:8443",
            f"health.listener=http://{address}:8080",
            "quorum.files.poll.ms=500",
        ]
    else:
        wanted.append(f"admin.listener=http://{address}:8080")
    return [word for each in wanted for word in ("--override", each)]


def _programs() -> dict[str, Program | SimulatedNodes]:
    node = str(Path(sys.executable).with_name("quorum-node"))
    return {
        STAND_IN_IMAGE: Program(
            [sys.executable, str(_STAND_IN)], lambda at, given: ["--address", at]
        ),
        NODE_IMAGE: Program([node], _listen_on, module="quorum_node.server"),
        OTHER_NODE_IMAGE: Program([node], _listen_on),
        SIMULATED_NODE_IMAGE: SIMULATED_NODES,
    }


_HARNESS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A request that is cancelled (its caller, the operator, was killed) makes httpx drop the
    connection without closing it; the garbage collector then complains in some later test."""
    for item in items:
        if item.path.is_relative_to(_HARNESS):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test reports the state of its quorums and the end of the operators' logs."""
    report = yield
    used = getattr(item, "funcargs", {})
    env = used["shared_quorum"].env if "shared_quorum" in used else used.get("env")
    if report.failed and report.when == "call" and isinstance(env, Env):
        report.sections.append(("Env", env.account()))
    return report


@pytest.fixture(scope="package")
def cluster(api_server: ControlPlane) -> Iterator[ApiServerCluster]:
    """The control plane with our kubelet, until the last test of this folder."""
    if os.geteuid() != 0:
        pytest.skip("the harness mounts volumes and needs root")
    remove_abandoned(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))
    try:
        with ApiServerCluster(api_server.kubeconfig, folder, _programs()) as found:
            yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        gc.collect()  # what httpx dropped is found here, and not in a later test


@pytest.fixture(scope="package")
def api(api_server: ControlPlane, cluster: ApiServerCluster) -> Iterator[Kube]:
    """An administrator's client; the custom resource definition is there."""
    assert cluster.access.url == api_server.url
    client = Kube(api_server.kubeconfig)
    try:
        install_definitions(client)
        yield client
    finally:
        client.close()


@pytest.fixture
def env(api: Kube, cluster: ApiServerCluster, tmp_path: Path) -> Iterator[Env]:
    """Removed after the test, with everything in it. No operator may have lacked a right."""
    made = Env(api, cluster, tmp_path, warm=True)
    try:
        yield made
    finally:
        made.remove()
    assert made.denied() == set()


@pytest.fixture(scope="module")
def idle_env(
    api: Kube, cluster: ApiServerCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Env]:
    """One for the tests of a file that leave nothing in it: they read what the API server answers."""
    made = Env(api, cluster, tmp_path_factory.mktemp("idle"), warm=True)
    try:
        yield made
    finally:
        made.remove()
    assert made.denied() == set()


@pytest.fixture(scope="module")
def shared_quorum(
    api: Kube, cluster: ApiServerCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedQuorum]:
    """One for the tests of a file: half of what most tests take is forming a quorum."""
    env = Env(api, cluster, tmp_path_factory.mktemp("shared"), warm=True)
    try:
        operator, proxy = env.add_operator()
        operator.start()
        yield SharedQuorum(env, operator, proxy, env.create(3))
    finally:
        env.remove()
    assert env.denied() == set()


@pytest.fixture
def simulated_nodes() -> SimulatedNodes:
    """The stand-in nodes of this session."""
    return SIMULATED_NODES


@pytest.fixture
def operator(env: Env) -> OperatorProcess:
    """A running operator for the env's namespace."""
    made, _ = env.add_operator()
    made.start()
    return made
