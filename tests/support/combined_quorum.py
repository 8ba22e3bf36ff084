"""Processes with both roles: members of a quorum that are brokers as well."""

from pathlib import Path
from typing import Any

from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.ports import free_ports
from support.python_brokers import PythonBrokers
from support.tls_quorum import TlsQuorum, certificate_of, client_context, write_folder


class CombinedQuorum(LocalQuorum):
    """Each node has a second listener, `broker_listener`, for clients and brokers."""

    broker_listener = "PLAINTEXT"

    def __init__(self, root: Path, nodes: int = 3, **common: str) -> None:
        self.broker_ports: dict[int, int] = {}
        super().__init__(root, nodes, properties=common)

    def properties_of(self, node: LocalNode) -> dict[str, str]:
        """Both roles, and their listeners."""
        (port,) = free_ports(1)
        self.broker_ports[node.id] = port
        name = self.broker_listener
        both = f"CONTROLLER://127.0.0.1:{node.port},{name}://127.0.0.1:{port}"
        return {
            "process.roles": "broker,controller",
            "unstable.broker.role.enable": "true",
            "listeners": both,
            "advertised.listeners": both,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": name,
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{name}:PLAINTEXT",
            "log.dirs": str(node.root / "logs"),
            "broker.heartbeat.interval.ms": "200",
            "offsets.topic.replication.factor": "3",
            "offsets.topic.num.partitions": "4",
        }


class TlsCombinedQuorum(CombinedQuorum, TlsQuorum):
    """Mutual TLS at both listeners: each node has the certificate of a member and that of a broker."""

    broker_listener = "BROKERS"

    def properties_of(self, node: LocalNode) -> dict[str, str]:
        """See `CombinedQuorum` and `TlsQuorum`."""
        folder = self.folder(f"broker-{node.id}")
        write_folder(folder, certificate_of("broker", node.id, self.ca), *self.trusted)
        return {
            **TlsQuorum.properties_of(self, node),
            **super().properties_of(node),
            "listener.security.protocol.map": "CONTROLLER:SSL,BROKERS:SSL",
            "listener.name.brokers.ssl.keystore.location": str(folder / "keystore.pem"),
            "listener.name.brokers.ssl.truststore.location": str(folder / "ca.crt"),
            "listener.name.brokers.ssl.client.auth": "required",
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
        if isinstance(quorum, TlsCombinedQuorum):
            self.tls = client_context(quorum.folder("admin"), quorum.folder("admin") / "ca.crt")
        self.nodes = {
            node_id: _BrokerPort(node, quorum.broker_ports[node_id])  # type: ignore[misc]
            for node_id, node in quorum.nodes.items()
        }

    def wait_live(self) -> None:
        """Until every broker knows all of them."""
        wait_until(lambda: all(self.metadata(each) for each in self.nodes), "brokers answer", 60)
        self.wait_for(self.nodes)
