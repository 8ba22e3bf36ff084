"""The caller of a request. PURE.

Owns its fields: results of the handshake, or the client that a forwarding broker names.
"""

from dataclasses import dataclass

from quorum_node.security.certificate_identity import CertificateIdentity, Role


@dataclass(frozen=True, slots=True)
class Caller:
    """`principal`: in Kafka's text form (`User:alice`). `host`: the address without a port. `listener`: its name."""

    principal: str
    host: str
    listener: str
    identity: CertificateIdentity | None = None
    """Identity in the certificate of this connection; never that of a request in an Envelope."""


def is_member(caller: Caller, node_id: int) -> bool:
    """Whether the caller's certificate is that of this member."""
    found = caller.identity
    return found is not None and found.role is Role.MEMBER and found.node_id == node_id


ANONYMOUS_PRINCIPAL = "User:ANONYMOUS"
ANONYMOUS = Caller(ANONYMOUS_PRINCIPAL, "", "CONTROLLER")
NOBODY = Caller("", "", "")
"""The controller itself, for maintenance."""


def token_holder(host: str, listener: str) -> Caller:
    """A caller with the admin token: the role admin, without a certificate."""
    return Caller("User:admin-token", host, listener, CertificateIdentity("", "", Role.ADMIN))
