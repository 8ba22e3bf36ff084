"""A quorum with certificates whose nodes have two more listeners where clients log in: TOOLS by SASL_SSL, BARE by SASL_PLAINTEXT.

Owns the properties of these listeners, and of the file with the first users.
"""

import functools
from pathlib import Path

from quorum_node.client.connections import Connections
from quorum_node.client.errors import AuthenticationFailed
from quorum_node.client_sasl import ClientSasl
from quorum_node.client_tls import ClientTls
from quorum_node.protocol import apis
from quorum_node.protocol.scram import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from quorum_node.security.scram.mechanism import ScramMechanism
from support.local_quorum import DEFAULT_WAIT_SECONDS, LocalNode, wait_until
from support.ports import free_ports
from support.tls_quorum import TlsQuorum

USER, PASSWORD = "alice", "alice-secret"
READER, READER_PASSWORD = "bob", "bob-secret"
SUPER_USERS = f"User:{USER}"
FIRST_USERS = f"""
# the first users
SCRAM-SHA-512=[name={USER},password={PASSWORD}]
SCRAM-SHA-256=[name={USER},password={PASSWORD},iterations=8192]
SCRAM-SHA-512=[name={READER},password={READER_PASSWORD}]
"""


class SaslQuorum(TlsQuorum):
    """With the authorizer; the user alice is a super user."""

    def __init__(self, root: Path, nodes: int = 1, **options: object) -> None:
        self.ports: dict[int, dict[str, int]] = {}
        root.mkdir(parents=True, exist_ok=True)
        self.users = root / "users"
        self.users.write_text(FIRST_USERS)
        super().__init__(root, nodes, **options)

    def properties_of(self, node: LocalNode) -> dict[str, str]:
        """See `LocalQuorum`."""
        tools, bare = free_ports(2)
        self.ports[node.id] = {"TOOLS": tools, "BARE": bare}
        addresses = {"CONTROLLER": node.port, "TOOLS": tools, "BARE": bare}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in addresses.items())
        folder = self.folder(str(node.id))
        return {
            **super().properties_of(node),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER,TOOLS,BARE",
            "listener.security.protocol.map": "CONTROLLER:SSL,TOOLS:SASL_SSL,BARE:SASL_PLAINTEXT",
            "listener.name.tools.ssl.keystore.location": str(folder / "keystore.pem"),
            "listener.name.tools.ssl.truststore.location": str(folder / "ca.crt"),
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": SUPER_USERS,
            "formation.scram.file": str(self.users),
        }

    def form(self, timeout_seconds: float = DEFAULT_WAIT_SECONDS) -> None:
        """As `LocalQuorum.form`, and until the first users can log in on every node: a node applies the records of the
        formation in its own time.
        """
        super().form(timeout_seconds)
        for user, password in ((USER, PASSWORD), (READER, READER_PASSWORD)):
            login = login_of(user, password)
            for server in self.servers("BARE"):
                wait_until(
                    functools.partial(_can_log_in, server, login),
                    f"{user} can log in at {server}",
                    timeout_seconds,
                )

    def servers(self, listener: str) -> list[str]:
        """The servers of a listener, for clients."""
        return [f"127.0.0.1:{ports[listener]}" for ports in self.ports.values()]

    @property
    def client_tls(self) -> ClientTls:
        """A client that trusts the quorum and has no certificate."""
        return ClientTls(self.folder("admin") / "ca.crt")


def _can_log_in(server: str, login: ClientSasl) -> bool:
    host, port = server.rsplit(":", 1)
    connections = Connections("me", None, login)
    request = DescribeUserScramCredentialsRequest(users=None)
    try:
        connections.ask(
            (host, int(port)),
            apis.DESCRIBE_USER_SCRAM_CREDENTIALS,
            0,
            request,
            DescribeUserScramCredentialsResponse,
            5.0,
        )
    except AuthenticationFailed:
        return False
    finally:
        connections.close()
    return True


def login_of(
    user: str = USER,
    password: str = PASSWORD,
    mechanism: ScramMechanism = ScramMechanism.SHA_512,
) -> ClientSasl:
    """A login of alice, or of another user."""
    return ClientSasl(mechanism, user, password)
