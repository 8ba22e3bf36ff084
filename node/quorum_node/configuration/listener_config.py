"""The Kafka listeners of a node, each with its own settings.

Owns what a listener is started with. Today one is served, CONTROLLER in PLAINTEXT; everything behind this takes any
number, each under the protocol that `listener.security.protocol.map` names. Knows no sockets.
"""

from dataclasses import dataclass

from quorum_node.configuration.addresses import HostPort, ListenerAddress
from quorum_node.configuration.keys import listeners
from quorum_node.configuration.limits import ConnectionLimits
from quorum_node.configuration.properties import Properties
from quorum_node.security.tls.listener_security import SecurityProtocol


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """One listener: `address` to bind, `advertised` for others, and what it allows."""

    address: ListenerAddress
    advertised: HostPort
    limits: ConnectionLimits
    max_request_bytes: int
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    @property
    def name(self) -> str:
        """As in `listeners`, in capitals."""
        return self.address.name


def read_protocol(properties: Properties, name: str) -> SecurityProtocol:
    """What a listener speaks. Raises ConfigError; a listener that a map forgets must not be open."""
    protocols = properties.get(listeners.PROTOCOL_MAP)
    protocol = protocols.get(name)
    if protocol is None and protocols:
        raise properties.wrong(listeners.PROTOCOL_MAP, f"does not say what listener {name} speaks")
    if protocol not in (None, SecurityProtocol.PLAINTEXT):
        raise properties.wrong(
            listeners.PROTOCOL_MAP, f"this node serves PLAINTEXT: write {name}:PLAINTEXT"
        )
    return SecurityProtocol.PLAINTEXT
