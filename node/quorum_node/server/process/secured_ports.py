"""TLS of a running node: authentication at its ports, its outgoing connections, and the renewal of certificates.

Ensures that a node in clear text loads no TLS code.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from quorum_node.api import TlsDescription
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.server.listener.port_authentication import PortAuthentication
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.peers.dialling import Dialling
from quorum_node.server.starting.tls_loading import TlsOfPorts

VoterAt = Callable[[str, int], int | None]


class SecuredPorts(Protocol):
    """The TLS parts of one node."""

    @property
    def authentications(self) -> Mapping[str, PortAuthentication]:
        """Authentication at the ports with TLS, by listener."""

    @property
    def dialling(self) -> Dialling | None:
        """How this node connects to members; None: in clear text."""

    def dial_brokers(self, broker_at: VoterAt) -> Dialling | None:
        """How a broker connects to other brokers, at its first listener; None: in clear text. `broker_at`: returns the id of the broker at an address."""

    def dial_controllers_as_broker(self) -> Dialling | None:
        """How the broker of a process with both roles connects to controllers: with the certificate of the broker. None: in clear text."""

    def describe(self) -> TlsDescription | None:
        """The certificate that the node presents, and the authorities that it trusts."""

    def start(self, renew: Callable[..., None]) -> None:
        """Check for changed certificates from now on. `renew`: see `PeerPool.renew`."""

    def stop(self) -> None:
        """Stop checking."""


class NoneSecured:
    """The TLS parts of a node in clear text: none."""

    authentications: Mapping[str, PortAuthentication] = {}
    dialling: None = None

    def dial_brokers(self, broker_at: VoterAt) -> Dialling | None:
        """See `SecuredPorts`."""
        return None

    def dial_controllers_as_broker(self) -> Dialling | None:
        """See `SecuredPorts`."""
        return None

    def describe(self) -> TlsDescription | None:
        """See `SecuredPorts`."""
        return None

    def start(self, renew: Callable[..., None]) -> None:
        """Without certificates there is nothing to check."""

    def stop(self) -> None:
        """Nothing was started."""


def secured_ports(
    config: NodeConfig, tls: TlsOfPorts, metrics: Metrics, voter_at: VoterAt
) -> SecuredPorts:
    """`tls`: the files that were loaded at start."""
    if not tls:
        return NoneSecured()
    # A node in clear text saves the memory and the time of loading these modules.
    from quorum_node.server.process.ports_with_tls import PortsWithTls

    return PortsWithTls(config, tls, metrics, voter_at)
