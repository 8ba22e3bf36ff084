"""Which role and which node id a certificate stands for. PURE.

Owns the name that binds both: a URI among the subject's alternative names, `urn:metadataquorum:NAMESPACE:QUORUM:ROLE:ID`.
The operator writes it; a certificate without it proves a principal and nothing else. Must not know rights (`roles.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

MAX_NODE_ID = 2**31 - 1
_PREFIX = "urn:metadataquorum:"


class Role(Enum):
    """Who a quorum knows."""

    MEMBER = "member"
    BROKER = "broker"
    OPERATOR = "operator"
    ADMIN = "admin"
    READER = "reader"
    ARCHIVER = "archiver"


ROLES_WITH_ID = frozenset({Role.MEMBER, Role.BROKER})
"""A certificate of these is one node's."""


@dataclass(frozen=True, slots=True)
class CertificateIdentity:
    """`node_id`: of a member or a broker; None for everybody else."""

    namespace: str
    quorum: str
    role: Role
    node_id: int | None = None

    def uri(self) -> str:
        """As it stands in the certificate."""
        parts = (self.namespace, self.quorum, self.role.value)
        end = () if self.node_id is None else (str(self.node_id),)
        return _PREFIX + ":".join((*parts, *end))


class WrongIdentity(ValueError):
    """A certificate with a name of ours that says nothing, or with two that say different things."""


def identity_in(uris: Iterable[str], namespace: str, quorum: str) -> CertificateIdentity | None:
    """What a certificate is in this quorum; None if nothing: it may be that of another one. Raises WrongIdentity."""
    here = [each for each in _all(uris) if (each.namespace, each.quorum) == (namespace, quorum)]
    if len(here) > 1:
        raise WrongIdentity(f"the certificate names several identities in {namespace}:{quorum}")
    return here[0] if here else None


def own_identity(
    uris: Iterable[str], node_id: int, role: Role = Role.MEMBER
) -> CertificateIdentity:
    """What the certificate of this very node says. Which quorum it is in comes from there. Raises WrongIdentity."""
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
    """The prefix is compared in any case, as URNs are: a name that only looks like ours is not a foreign one."""
    return frozenset(_parsed(uri) for uri in uris if uri.lower().startswith(_PREFIX))


def _parsed(uri: str) -> CertificateIdentity:
    namespace, quorum, role_text, node_id = ([*uri[len(_PREFIX) :].split(":"), *[""] * 4])[:4]
    many = uri.count(":") > _PREFIX.count(":") + 3
    try:
        role = Role(role_text)
    except ValueError:
        raise WrongIdentity(f"{uri!r} names no role that is known") from None
    if many or not namespace or not quorum:
        raise WrongIdentity(f"{uri!r} is not {_PREFIX}NAMESPACE:QUORUM:ROLE:ID")
    if (role in ROLES_WITH_ID) != bool(node_id):
        wants = "needs a node id" if role in ROLES_WITH_ID else "has no node id"
        raise WrongIdentity(f"{uri!r}: a certificate of a {role.value} {wants}")
    if not node_id:
        return CertificateIdentity(namespace, quorum, role)
    return CertificateIdentity(namespace, quorum, role, _node_id(uri, node_id))


def _node_id(uri: str, text: str) -> int:
    """One number has one text, so that two certificates never differ in their text alone."""
    if text.isascii() and text.isdigit() and (text == "0" or text[0] != "0"):
        number = int(text) if len(text) <= len(str(MAX_NODE_ID)) else MAX_NODE_ID + 1
        if number <= MAX_NODE_ID:
            return number
    raise WrongIdentity(f"{uri!r}: {text!r} is no node id")
