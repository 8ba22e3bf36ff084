"""Brokers of this software with TLS only: mutual TLS between brokers and with the controllers, an authorizer for clients.

Owns their files, and the certificates of clients. The tests send the requests.
"""

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path

from quorum_node.security.authorizer import STANDARD_AUTHORIZER
from support.generated_certificates import issue
from support.local_quorum import LocalNode
from support.ports import free_ports
from support.python_brokers import FIRST_BROKER_ID, PythonBrokers
from support.tls_quorum import HOURS, TlsQuorum, certificate_of, client_context, now, write_folder

ADMIN = "User:CN=admin"
"""The principal of the quorum's administrator. Requests that a broker forwards for it are authorized by this name alone."""


class TlsPythonBrokers(PythonBrokers):
    """`tls` is the administrator, unless a test selects another client (`asking_as`)."""

    def __init__(self, quorum: TlsQuorum, root: Path, brokers: int, **properties: str) -> None:
        self.quorum = quorum
        self.login_ports: dict[int, int] = {}
        """The listener where clients log in by SASL_SSL."""
        super().__init__(quorum, root, brokers, FIRST_BROKER_ID, **properties)
        self.tls = self.context_of("admin")

    def properties_of(self, node: LocalNode) -> dict[str, str]:
        """See `PythonBrokers`; makes the certificate that this names."""
        folder = self.quorum.folder(f"broker-{node.id}")
        made = certificate_of("broker", node.id, self.quorum.ca)
        write_folder(folder, made, *self.quorum.trusted)
        between, logins = free_ports(2)
        self.login_ports[node.id] = logins
        ports = {"CLIENTS": node.port, "BROKERS": between, "LOGINS": logins}
        return {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            "inter.broker.listener.name": "BROKERS",
            "listener.security.protocol.map": "CONTROLLER:SSL,BROKERS:SSL,CLIENTS:SSL,LOGINS:SASL_SSL",
            "ssl.keystore.location": str(folder / "keystore.pem"),
            "ssl.truststore.location": str(folder / "ca.crt"),
            "ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": ADMIN,
        }

    def make_client(self, name: str) -> None:
        """Create a client with a certificate that names no node."""
        made = issue(
            name,
            issuer=self.quorum.ca,
            start=now() - HOURS,
            end=now() + HOURS,
            hosts=(),
            uris=(),
        )
        write_folder(self.quorum.folder(name), made, *self.quorum.trusted)

    def context_of(self, who: str | None) -> ssl.SSLContext:
        """The context of the owner of a folder, or of a client without a certificate."""
        folder = None if who is None else self.quorum.folder(who)
        return client_context(folder, self.quorum.folder("admin") / "ca.crt")

    @contextlib.contextmanager
    def asking_as(self, who: str | None) -> Iterator[None]:
        """Within the context, requests are sent as this client."""
        before, self.tls = self.tls, self.context_of(who)
        try:
            yield
        finally:
            self.tls = before
