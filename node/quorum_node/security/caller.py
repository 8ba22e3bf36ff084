"""Who asks. PURE.

Owns the shape: what a listener learned from the handshake, or what a forwarding broker said of its client.
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
    """What the certificate of this very connection says; never that of a request inside an Envelope."""


def is_member(caller: Caller, node_id: int) -> bool:
    """Whether the certificate is that of this member."""
    found = caller.identity
    return found is not None and found.role is Role.MEMBER and found.node_id == node_id


ANONYMOUS_PRINCIPAL = "User:ANONYMOUS"
ANONYMOUS = Caller(ANONYMOUS_PRINCIPAL, "", "CONTROLLER")
NOBODY = Caller("", "", "")
"""The controller itself, for maintenance."""


def token_holder(host: str, listener: str) -> Caller:
    """Who shows the admin token: the role admin, without a certificate."""
    return Caller("User:admin-token", host, listener, CertificateIdentity("", "", Role.ADMIN))
