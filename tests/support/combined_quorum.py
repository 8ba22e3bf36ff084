"""Processes with both roles: members of a quorum that are brokers as well."""

from pathlib import Path
from typing import Any

from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.ports import free_ports
from support.python_brokers import PythonBrokers


class CombinedQuorum(LocalQuorum):
    """Each node has a second listener, PLAINTEXT, for clients and brokers."""

    def __init__(self, root: Path, nodes: int = 3, **common: str) -> None:
        self.broker_ports: dict[int, int] = {}
        super().__init__(root, nodes, properties=common)

    def properties_of(self, node: LocalNode) -> dict[str, str]:
        """Both roles, and their listeners."""
        (port,) = free_ports(1)
        self.broker_ports[node.id] = port
        both = f"CONTROLLER://127.0.0.1:{node.port},PLAINTEXT://127.0.0.1:{port}"
        return {
            "process.roles": "broker,controller",
            "unstable.broker.role.enable": "true",
            "listeners": both,
            "advertised.listeners": both,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(node.root / "logs"),
            "broker.heartbeat.interval.ms": "200",
            "offsets.topic.replication.factor": "3",
            "offsets.topic.num.partitions": "4",
        }


class _BrokerPort:
    """A node as a client of its broker sees it."""

    def __init__(self, node: LocalNode, port: int) -> None:
        self._node = node
        self.port = port

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


class CombinedBrokers(PythonBrokers):
    """Requests to the brokers of a combined quorum, which starts and stops the processes."""

    def __init__(self, quorum: CombinedQuorum) -> None:
        self._quorum = quorum
        self.tls = None
        self.nodes = {
            node_id: _BrokerPort(node, quorum.broker_ports[node_id])  # type: ignore[misc]
            for node_id, node in quorum.nodes.items()
        }

    def wait_live(self) -> None:
        """Until every broker knows all of them."""
        wait_until(lambda: all(self.metadata(each) for each in self.nodes), "brokers answer", 60)
        self.wait_for(self.nodes)
