"""What TLS adds to a running node: gates of its ports, how it dials, and certificates that change meanwhile.

Owns that a node in clear text has none of it, and loads none of it.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from quorum_node.api import TlsDescription
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.server.listener.gate import Gate
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.peers.dialling import Dialling
from quorum_node.server.starting.tls_loading import TlsOfPorts

VoterAt = Callable[[str, int], int | None]


class SecuredPorts(Protocol):
    """Of one node."""

    @property
    def gates(self) -> Mapping[str, Gate]:
        """Of the ports that speak TLS, by listener."""

    @property
    def dialling(self) -> Dialling | None:
        """How members are dialled; None: in clear text."""

    def dial_brokers(self, broker_at: VoterAt) -> Dialling | None:
        """How a broker reaches others at its first listener; None: in clear text. `broker_at`: the broker's id at an address."""

    def describe(self) -> TlsDescription | None:
        """What the node shows to others, and whom it trusts."""

    def start(self, renew: Callable[..., None]) -> None:
        """Look for changed certificates from now on. `renew`: see `PeerPool.renew`."""

    def stop(self) -> None:
        """Look no more."""


class NoneSecured:
    """A node in clear text."""

    gates: Mapping[str, Gate] = {}
    dialling: None = None

    def dial_brokers(self, broker_at: VoterAt) -> Dialling | None:
        """See `SecuredPorts`."""
        return None

    def describe(self) -> TlsDescription | None:
        """See `SecuredPorts`."""
        return None

    def start(self, renew: Callable[..., None]) -> None:
        """Nothing changes."""

    def stop(self) -> None:
        """Nothing was begun."""


def secured_ports(
    config: NodeConfig, tls: TlsOfPorts, metrics: Metrics, voter_at: VoterAt
) -> SecuredPorts:
    """`tls`: what was loaded at start."""
    if not tls:
        return NoneSecured()
    # A node in clear text spares the memory and the time that these take.
    from quorum_node.server.process.ports_with_tls import PortsWithTls

    return PortsWithTls(config, tls, metrics, voter_at)
