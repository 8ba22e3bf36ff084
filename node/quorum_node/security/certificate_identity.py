"""Role and node id in a certificate. PURE.

Owns the name that contains both: a URI among the subject alternative names,
`urn:metadataquorum:NAMESPACE:QUORUM:ROLE:ID`. The operator writes it. A certificate without it only
identifies a principal. Must not know permissions (`roles.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

MAX_NODE_ID = 2**31 - 1
_PREFIX = "urn:metadataquorum:"


class Role(Enum):
    """The roles of a quorum."""

    MEMBER = "member"
    BROKER = "broker"
    OPERATOR = "operator"
    ADMIN = "admin"
    READER = "reader"
    ARCHIVER = "archiver"


ROLES_WITH_ID = frozenset({Role.MEMBER, Role.BROKER})
"""Roles whose certificates belong to one node."""


@dataclass(frozen=True, slots=True)
class CertificateIdentity:
    """`node_id`: of a member or a broker; None for all others."""

    namespace: str
    quorum: str
    role: Role
    node_id: int | None = None

    def uri(self) -> str:
        """The URI in the certificate."""
        parts = (self.namespace, self.quorum, self.role.value)
        end = () if self.node_id is None else (str(self.node_id),)
        return _PREFIX + ":".join((*parts, *end))


class WrongIdentity(ValueError):
    """A certificate with an invalid URI of ours, or with two different ones."""


def identity_in(uris: Iterable[str], namespace: str, quorum: str) -> CertificateIdentity | None:
    """Identity of a certificate in this quorum; None if it has none. Raises WrongIdentity."""
    here = [each for each in _all(uris) if (each.namespace, each.quorum) == (namespace, quorum)]
    if len(here) > 1:
        raise WrongIdentity(f"the certificate names several identities in {namespace}:{quorum}")
    return here[0] if here else None


def own_identity(
    uris: Iterable[str], node_id: int, role: Role = Role.MEMBER
) -> CertificateIdentity:
    """Identity in this node's own certificate; it also defines the quorum. Raises WrongIdentity."""
    found = list(_all(uris))
    if len(found) != 1:
        many = "names several identities" if found else "names no identity of a node"
        raise WrongIdentity(
            f"the certificate {many}: {_PREFIX}NAMESPACE:QUORUM:{role.value}:{node_id}"
        )
    if found[0].role is not role or found[0].node_id != node_id:
        why = f"the certificate {found[0].uri()} is not that of {role.value} {node_id}"
        raise WrongIdentity(why)
    return found[0]


def _all(uris: Iterable[str]) -> frozenset[CertificateIdentity]:
    """All URIs of ours.

    The prefix is case-insensitive, as in URNs, so that a variant is not ignored as foreign.
    """
    return frozenset(_parsed(uri) for uri in uris if uri.lower().startswith(_PREFIX))


def _parsed(uri: str) -> CertificateIdentity:
    namespace, quorum, role_text, node_id = ([*uri[len(_PREFIX) :].split(":"), *[""] * 4])[:4]
    many = uri.count(":") > _PREFIX.count(":") + 3
    try:
        role = Role(role_text)
    except ValueError:
        raise WrongIdentity(f"{uri!r} contains an unknown role") from None
    if many or not namespace or not quorum:
        raise WrongIdentity(f"{uri!r} is not {_PREFIX}NAMESPACE:QUORUM:ROLE:ID")
    if (role in ROLES_WITH_ID) != bool(node_id):
        wants = "needs a node id" if role in ROLES_WITH_ID else "has no node id"
        raise WrongIdentity(f"{uri!r}: a certificate of a {role.value} {wants}")
    if not node_id:
        return CertificateIdentity(namespace, quorum, role)
    return CertificateIdentity(namespace, quorum, role, _node_id(uri, node_id))


def _node_id(uri: str, text: str) -> int:
    """The node id. Its text must be canonical, so that two texts never mean one node."""
    if text.isascii() and text.isdigit() and (text == "0" or text[0] != "0"):
        number = int(text) if len(text) <= len(str(MAX_NODE_ID)) else MAX_NODE_ID + 1
        if number <= MAX_NODE_ID:
            return number
    raise WrongIdentity(f"{uri!r}: {text!r} is not a node id")
