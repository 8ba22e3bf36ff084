"""Pytest plugin: nodes start as forks of a process that has loaded the node's code already (see `warm_process`).

Nodes with a command prefix other than another network, and all nodes outside of pytest (the benchmark), start normally, like the product
on kind.
"""

from pathlib import Path

import pytest

from support import local_quorum, warm_process
from support.local_quorum import NodeStart
from support.node_process import NodeProcess
from support.parallel_stages import stage_of
from support.warm_process import WarmProcess, WarmStart

_OF_PROCESSES = ("processes", "linearizability", "interop", "envtest", "pipeline")
_IN_NETWORK = ["ip", "netns", "exec"]


def _start(cold: NodeStart) -> NodeStart:
    def start(prefix: list[str], module: str, arguments: list[str], log: Path) -> NodeProcess:
        network = prefix[-1] if prefix[:-1] == _IN_NETWORK else None
        if prefix and network is None:
            return cold(prefix, module, arguments, log)
        return WarmProcess(WarmStart(module, arguments, log, network=network))

    return start


def install() -> None:
    """As the plugin does for tests, for a program of its own. It may enter another network afterwards."""
    warm_process.prepare(*warm_process.NODE)
    local_quorum.start_process = _start(local_quorum.start_process)
    warm_process.load()


def pytest_configure(config: pytest.Config) -> None:
    warm_process.prepare(*warm_process.NODE)
    local_quorum.start_process = _start(local_quorum.start_process)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The code is loaded before the test may enter another network: the forks would stay in it."""
    stage = stage_of(item.nodeid)
    if stage in _OF_PROCESSES:
        if stage == "envtest":
            warm_process.prepare(*warm_process.OPERATOR, *warm_process.NODE)
        warm_process.load()
