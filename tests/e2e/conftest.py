"""One cluster with the operator for all tests, and an env for each test.

The cluster is kept after the run, so that the next one starts in seconds; `make clean` removes it.
A failed test leaves a folder of diagnostics, whose path is in its report.
"""

import itertools
import re
import shutil
from collections.abc import Generator, Iterator

import pytest

from support.kind_env import diagnostics, operator_cluster
from support.kind_env.environment import KindEnv
from support.kind_env.operator_cluster import OperatorCluster
from support.kind_env.testbed import state_directory

_numbers = itertools.count(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and report.when in ("setup", "call"):
        used = getattr(item, "funcargs", {})
        env = used.get("env") or used.get("refusals")
        if isinstance(env, KindEnv):
            report.sections.append(("Diagnostics", _collected(env)))
    return report


def _collected(env: KindEnv) -> str:
    folder = diagnostics.collect(env.namespace, env.cluster.kubeconfig, env.quorum)
    return f"{folder}\nworkload files: {env.folder}\n{env.summary()}"


@pytest.fixture(scope="session")
def ready_cluster() -> Iterator[OperatorCluster]:
    """The cluster with current images and the operator."""
    ready = operator_cluster.bring_up()
    try:
        _, operator_image = operator_cluster.load_images(ready)
        operator_cluster.install_operator(ready, operator_image)
        yield ready
    finally:
        ready.api.close()


@pytest.fixture
def env(ready_cluster: OperatorCluster, request: pytest.FixtureRequest) -> Iterator[KindEnv]:
    """A namespace, disks and a NodePort for one test; removed after it."""
    yield from _env(ready_cluster, request.node.name)


@pytest.fixture(scope="module")
def refusals(ready_cluster: OperatorCluster) -> Iterator[KindEnv]:
    """One for all tests in which nothing comes to run."""
    yield from _env(ready_cluster, "refusals")


def _env(ready_cluster: OperatorCluster, name: str) -> Iterator[KindEnv]:
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:28].strip("-")
    folder = state_directory() / "e2e" / slug
    shutil.rmtree(folder, ignore_errors=True)
    made = KindEnv(ready_cluster, f"e2e-{slug}", number=next(_numbers), folder=folder)
    made.prepare()
    try:
        yield made
    finally:
        made.remove()
