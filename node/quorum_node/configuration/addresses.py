"""Addresses of listeners, as written in properties. Must not know keys."""

from dataclasses import dataclass

from quorum_node.host_port import HostPort


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """NAME://host:port; the host may be a wildcard."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class VoterAddress:
    """id@host:port, an entry of controller.quorum.voters."""

    id: int
    address: HostPort

    def __str__(self) -> str:
        return f"{self.id}@{self.address}"
