"""Types for the permissions that a request needs. PURE."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorum_node.security.acl_terms import CLUSTER_NAME, AclOperation, AclResource
from quorum_node.security.certificate_identity import Role


@dataclass(frozen=True, slots=True)
class Need:
    """A permission. `name`: of the resource; None: the request names it, so its handler has to check."""

    operation: AclOperation
    resource: AclResource = AclResource.CLUSTER
    name: str | None = CLUSTER_NAME

    @property
    def text(self) -> str:
        """The form in documentation."""
        named = self.name not in (None, CLUSTER_NAME)
        return f"{self.operation.name} on {self.resource.name}" + (f" {self.name}" if named else "")

    @property
    def is_known_ahead(self) -> bool:
        """Whether it can be checked before the request is processed."""
        return self.name is not None


def on_named(operation: AclOperation, resource: AclResource) -> Need:
    """A permission on the resources that the request names."""
    return Need(operation, resource, None)


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule of one API, or one route.

    `needs`: one of them is sufficient; empty means no permission. `roles`: roles that need no
    access control entry. `limited_roles`: the same for resources of these names only.
    `members_only`: in addition, the caller has to be a member of the quorum or a super user.
    `own_voter`: a member is allowed it for its own id, where members join automatically.
    """

    needs: tuple[Need, ...]
    roles: frozenset[Role] = frozenset({Role.ADMIN})
    limited_roles: dict[Role, frozenset[str]] = field(default_factory=dict)
    members_only: bool = False
    own_voter: bool = False
    note: str = ""

    @property
    def is_checked_ahead(self) -> bool:
        """Whether the whole rule can be checked before the request is processed."""
        return all(need.is_known_ahead for need in self.needs)


@dataclass(frozen=True, slots=True)
class ApiTable:
    """Rules of a port's APIs, by key.

    `as_a_reader`: replaces the rule for a request that comes from no node. `taken_ids`: ids that always mean a node here.
    """

    rules: Mapping[int, Rule]
    as_a_reader: Mapping[int, Rule]
    taken_ids: frozenset[int] = frozenset()
