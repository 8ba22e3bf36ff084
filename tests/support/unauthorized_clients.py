"""A quorum with TLS and an authorizer, and clients that try to exceed their rights.

Owns the identities: `nobody` has no certificate, `foreign` has one of another authority, `reader` and `broker` have one of this quorum.
The tests send the requests.
"""

import ssl
from pathlib import Path

import httpx

from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import APIS
from quorum_node.schema.schema import Message
from quorum_node.security.authorizer import STANDARD_AUTHORIZER
from support import one_request
from support.local_quorum import LocalNode
from support.tls_quorum import (
    TlsQuorum,
    certificate_of,
    client_context,
    new_authority,
    write_folder,
)

LOCKED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}
WHO = ("nobody", "foreign", "reader", "broker")
WITHOUT_CONNECTION = frozenset({"nobody", "foreign"})
"""Clients whose handshake on a Kafka listener fails."""
API = {api.name: api for api in APIS.values()}
BROKER_ID = 7
TIMEOUT_S = 30.0


class IdentifiedQuorum(TlsQuorum):
    """Requests of the clients in `WHO`, each with the certificate in its folder."""

    def without_token(self, node: LocalNode) -> None:
        """The node does not know the token from its next start on."""
        path = node.root / "node.properties"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(each for each in lines if not each.startswith("admin.token.file")))

    def context_of(self, who: str) -> ssl.SSLContext:
        """The context of a client in `WHO`, or of a member by its id."""
        folder = None if who == "nobody" else self.folder(who)
        return client_context(folder, self.folder("admin") / "ca.crt")

    def ask(
        self, who: str, node: LocalNode, name: str, body: Message, version: int | None = None
    ) -> Message:
        """One Kafka request. Raises OSError where the handshake fails."""
        api: Api = API[name]
        version = api.max_version if version is None else version
        address = node.host, node.port
        return one_request.ask(address, api, version, body, TIMEOUT_S, self.context_of(who))

    def browser(self, who: str) -> httpx.Client:
        """A client of the admin API, without a token."""
        return httpx.Client(timeout=TIMEOUT_S, trust_env=False, verify=self.context_of(who))


class LockedQuorum(IdentifiedQuorum):
    """Members with certificates and an authorizer; no admin token."""

    def __init__(self, root: Path, nodes: int = 3, **properties: str) -> None:
        super().__init__(root, nodes, properties={**LOCKED, **properties})
        for node in self.nodes.values():
            self.without_token(node)
        self.issue_for("reader", None)
        made = certificate_of("broker", BROKER_ID, self.ca)
        write_folder(self.folder("broker"), made, *self.trusted)
        foreign = certificate_of("member", 1, new_authority("another"))
        write_folder(self.folder("foreign"), foreign, *self.trusted)
