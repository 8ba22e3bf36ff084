"""Stock brokers and stock clients on controllers of ours: registration, topics, production, consumption, failures."""

from pathlib import Path

import pytest

from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum

SIGTERM_EXIT = 143
"""What a virtual machine exits with that ended in good order after a SIGTERM."""

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


def brokers_on(quorum: LocalQuorum, root: Path, count: int, **properties: str) -> JavaBrokers:
    """Stock brokers that know all controllers."""
    ports = [node.port for node in quorum.nodes.values()]
    return JavaBrokers(root, quorum.cluster_id, ports, count, **properties)


@pytest.mark.requirement("K631-08", "KV3-03")
def test_a_stock_broker_registers_serves_a_topic_and_leaves(tmp_path: Path) -> None:
    """The whole way of one broker: registered, unfenced, used by clients, shut down in a controlled way."""
    with LocalQuorum(tmp_path / "quorum") as quorum:
        quorum.form()
        with brokers_on(quorum, tmp_path, 1) as brokers:
            brokers.start()
            brokers.wait_for([101])
            clients = brokers.clients
            clients("create t 3 1")
            assert clients("describe t") == "0:101/101/101 1:101/101/101 2:101/101/101"
            clients("load t 200")
            clients.wait_for_load("t", 100)
            acknowledged = int(clients("stop t").split()[0])
            missing, doubled, disordered, seen = clients("check t readers 30000").split()
            assert (missing, doubled, disordered) == ("0", "0", "0")
            assert int(seen) >= acknowledged
            assert brokers.brokers[101].terminate() == SIGTERM_EXIT
