"""Certificates for the members of a quorum with an authorizer: without them, members could not even vote.

Owns the files and the ports: members connect to each other over TLS on a separate listener, and the node's usual port is in clear text,
where all clients are anonymous. Tests with more requirements for certificates use `tls_quorum`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from support.ports import free_ports

_HOUR = timedelta(hours=1)
_ANYBODY = "User:ANONYMOUS"


def needs_certificates(properties: Mapping[str, str]) -> bool:
    """Whether members have to authenticate: unless anonymous callers are super users."""
    users = {each.strip() for each in properties.get("super.users", "").split(";")}
    return "authorizer.class.name" in properties and _ANYBODY not in users


class UncertifiedMembers:
    """All callers use the same port."""

    def port_of(self, port: int) -> int:
        """The port that members connect to, of the node with this usual port."""
        return port

    def properties_of(self, node_id: int, host: str, port: int) -> dict[str, str]:
        """Additional properties of the node."""
        return {}


UNCERTIFIED = UncertifiedMembers()


class CertifiedMembers(UncertifiedMembers):
    """One authority, and a folder for each member."""

    def __init__(self, folder: Path) -> None:
        # Imported here: most quorums of tests need no certificates, and the library takes a while
        # to load.
        from support.generated_certificates import authority

        self._folder = folder
        self._ports: dict[int, int] = {}
        now = datetime.now(UTC)
        self._ca = authority("members", start=now - _HOUR, end=now + 24 * _HOUR)

    def port_of(self, port: int) -> int:
        """See `UncertifiedMembers`."""
        if port not in self._ports:
            (self._ports[port],) = free_ports(1)
        return self._ports[port]

    def properties_of(self, node_id: int, host: str, port: int) -> dict[str, str]:
        """See `UncertifiedMembers`; makes the files that this names."""
        from support.generated_certificates import issue, pem

        now = datetime.now(UTC)
        made = issue(
            f"member-{node_id}",
            issuer=self._ca,
            start=now - _HOUR,
            end=now + 24 * _HOUR,
            hosts=("127.0.0.1", "localhost"),
            uris=(f"urn:metadataquorum:ns:demo:member:{node_id}",),
        )
        folder = self._folder / str(node_id)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "keystore.pem").write_bytes(made.keystore)
        (folder / "ca.crt").write_bytes(pem(self._ca.certificate))
        places = f"CONTROLLER://{host}:{self.port_of(port)},TOOLS://{host}:{port}"
        return {
            "listeners": places,
            "advertised.listeners": places,
            "listener.security.protocol.map": "CONTROLLER:SSL,TOOLS:PLAINTEXT",
            "listener.name.controller.ssl.keystore.location": str(folder / "keystore.pem"),
            "listener.name.controller.ssl.truststore.location": str(folder / "ca.crt"),
        }
