"""Controllers of stock Kafka and nodes of ours in one quorum with mutual TLS and an authorizer on every one of them.

Owns the certificates: each controller, stock or ours, has that of member ID, so ours know the stock ones by id, too.
"""

from pathlib import Path

from quorum_node.security.authorizer import STANDARD_AUTHORIZER
from support.java_quorum import JavaQuorum
from support.tls_quorum import certificate_of, client_context, new_authority, write_folder

_MEMBERS = range(1, 10)


class SecuredJavaQuorum(JavaQuorum):
    """See `JavaQuorum`. Requests are an administrator's, a super user by its subject."""

    def __init__(self, root: Path, controllers: int = 1) -> None:
        self._tls = root / "tls"
        self.ca = new_authority()
        admin = self._folder("admin", None)
        self.tls = client_context(admin, admin / "ca.crt")
        super().__init__(root, controllers)

    def security_of(self, node_id: int) -> dict[str, str]:
        """See `JavaQuorum`."""
        folder = self._folder("member", node_id)
        prefix = "listener.name.controller.ssl"
        users = ("User:CN=admin", *(f"User:CN=member-{each}" for each in _MEMBERS))
        return {
            "listener.security.protocol.map": "CONTROLLER:SSL",
            f"{prefix}.keystore.type": "PEM",
            f"{prefix}.keystore.location": str(folder / "keystore.pem"),
            f"{prefix}.truststore.type": "PEM",
            f"{prefix}.truststore.location": str(folder / "ca.crt"),
            f"{prefix}.client.auth": "required",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": ";".join(users),
        }

    def _folder(self, role: str, node_id: int | None) -> Path:
        folder = self._tls / f"{role}-{node_id}"
        write_folder(folder, certificate_of(role, node_id, self.ca), self.ca.certificate)
        return folder
