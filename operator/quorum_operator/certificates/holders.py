"""The holders of certificates of a quorum, and their names.

Nodes identify a holder by the URI (`quorum_node.security.certificate_identity`). The subject is for people and for
Kafka's mapping rules: CN is the holder, OU the role, O the quorum and its namespace. Hosts are checked against DNS
names.
"""

from dataclasses import dataclass

from quorum_node.security.certificate_identity import CertificateIdentity, Role
from quorum_operator.desired.names import Owner

MOST_CN_LENGTH = 64
"""ub-common-name of RFC 5280."""


@dataclass(frozen=True, slots=True)
class Holder:
    """One holder. `name`: unique within the quorum. `node_id`: of a member or a broker."""

    name: str
    role: Role
    node_id: int | None = None
    dns_names: tuple[str, ...] = ()

    def identity(self, owner: Owner) -> CertificateIdentity:
        """The identity in the URI of the certificate."""
        return CertificateIdentity(owner.namespace, owner.name, self.role, self.node_id)

    def subject(self, owner: Owner) -> tuple[tuple[str, str], ...]:
        """O, OU and CN, in the order in which they are encoded."""
        organization = f"{owner.name}.{owner.namespace}"
        # The last attribute distinguishes incarnations.
        return (
            ("O", organization),
            ("OU", self.role.value),
            ("CN", self.name[-MOST_CN_LENGTH:]),
        )


def member(owner: Owner, node_id: int, number: int, cluster_domain: str = "") -> Holder:
    """The holder for one incarnation. `cluster_domain`: such as cluster.local, if known.

    Its DNS names are those of the pod and of its Services, and localhost for quorumctl in the pod.
    """
    name = owner.member(node_id, number)
    space = owner.namespace
    services = (owner.nodes_service, owner.bootstrap_service, owner.admin_service)
    names = [owner.host(name)]
    for service in services:
        names += [service, f"{service}.{space}", f"{service}.{space}.svc"]
    if cluster_domain:
        domain = cluster_domain.strip(".")
        names += [f"{each}.{domain}" for each in names if each.endswith(".svc")]
    return Holder(name, Role.MEMBER, node_id, (*names, "localhost"))


def operator() -> Holder:
    """The operator's own certificate for a quorum; it is kept in memory."""
    return Holder("operator", Role.OPERATOR)


def person(name: str, role: Role = Role.ADMIN) -> Holder:
    """An administrator, a reader or an archiver: a client without a listener and DNS names."""
    return Holder(name, role)


def broker(name: str, node_id: int, dns_names: tuple[str, ...] = ()) -> Holder:
    """A broker. Its own listeners may use other certificates."""
    return Holder(name, Role.BROKER, node_id, dns_names)


def named(name: str, role: str, node_id: int | None, dns_names: tuple[str, ...] = ()) -> Holder:
    """A holder from spec.tls.identities."""
    if node_id is not None:
        return broker(name, node_id, dns_names)
    return Holder(name, Role(role), None, dns_names)
