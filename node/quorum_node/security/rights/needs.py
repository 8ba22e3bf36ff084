"""The shape of what a request needs. PURE."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorum_node.security.acl_terms import CLUSTER_NAME, AclOperation, AclResource
from quorum_node.security.certificate_identity import Role


@dataclass(frozen=True, slots=True)
class Need:
    """A right. `name`: of the resource; None is the name that the request gives, so its handler has to ask."""

    operation: AclOperation
    resource: AclResource = AclResource.CLUSTER
    name: str | None = CLUSTER_NAME

    @property
    def text(self) -> str:
        """As documentation writes it."""
        named = self.name not in (None, CLUSTER_NAME)
        return f"{self.operation.name} on {self.resource.name}" + (f" {self.name}" if named else "")

    @property
    def is_known_ahead(self) -> bool:
        """Whether it can be asked before the request is looked into."""
        return self.name is not None


def on_named(operation: AclOperation, resource: AclResource) -> Need:
    """A right on what the request names."""
    return Need(operation, resource, None)


@dataclass(frozen=True, slots=True)
class Rule:
    """What one API, or one route, needs.

    `needs`: any one of them is enough; none means that nobody is asked. `roles`: who needs no access control entry for it.
    `limited_roles`: the same for resources of these names alone. `members_only`: beside the right, the caller has to be a
    member of the quorum or a super user. `own_voter`: a member may do it to its own id, where it joins by itself.
    """

    needs: tuple[Need, ...]
    roles: frozenset[Role] = frozenset({Role.ADMIN})
    limited_roles: dict[Role, frozenset[str]] = field(default_factory=dict)
    members_only: bool = False
    own_voter: bool = False
    note: str = ""

    @property
    def is_asked_ahead(self) -> bool:
        """Whether the whole rule can be decided before the request is looked into."""
        return all(need.is_known_ahead for need in self.needs)


@dataclass(frozen=True, slots=True)
class ApiTable:
    """What each API of a port needs, by key. `as_a_reader`: in its place, for a request that comes from no node."""

    rules: Mapping[int, Rule]
    as_a_reader: Mapping[int, Rule]
