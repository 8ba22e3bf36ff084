"""Authorization by the rules of Kafka's StandardAuthorizer over the entries of the image. PURE.

Owns the rule (KIP-11, KIP-290, KIP-801), in this order: super users are allowed; a matching deny
entry denies; a matching allow entry allows; without an entry for the resource the configuration
decides. Must not know requests (`api_table.py`) nor roles (`roles.py`).
Before the entries are loaded only super users are allowed, so members of a quorum have to be super
users or have a role.
"""

from dataclasses import dataclass
from enum import Enum

from quorum_node.image.access import AclsImage
from quorum_node.image.host_text import host_text
from quorum_node.records.metadata import AccessControlEntryRecord
from quorum_node.security.acl_terms import (
    ANYBODY,
    CLUSTER_NAME,
    IMPLIED_BY,
    WILDCARD,
    AclOperation,
    AclPermission,
    AclResource,
)
from quorum_node.security.caller import Caller
from quorum_node.security.errors import SecuritySettingError

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_SUPER_USERS = "super.users"
_BLANKS = "".join(map(chr, range(ord(" ") + 1)))
"""Characters that Java's `String.trim` removes: fewer than Unicode white space."""


@dataclass(frozen=True, slots=True)
class AuthorizerSettings:
    """`authorizer.class.name`, `super.users`, `allow.everyone.if.no.acl.found`."""

    enabled: bool = False
    super_users: frozenset[str] = frozenset()
    allow_if_no_acl_found: bool = False


NO_AUTHORIZER = AuthorizerSettings()


class Reason(Enum):
    """The reason of a decision, for the log."""

    NO_AUTHORIZER = "no authorizer is configured"
    SUPER_USER = "a super user"
    ROLE = "its role allows it"
    OWN_REPLICA = "a member may join and replace itself"
    NOT_LOADED = "the access control entries are not loaded yet"
    DENIED_BY_ENTRY = "an access control entry denies it"
    ALLOWED_BY_ENTRY = "an access control entry allows it"
    NOTHING_ALLOWS = "the resource has access control entries, but none allows it"
    NO_ENTRY = "the resource has no access control entries"


@dataclass(frozen=True, slots=True)
class Ruling:
    """A decision. `entry`: the entry that decided, if there is one."""

    allowed: bool
    reason: Reason
    entry: AccessControlEntryRecord | None = None


_WITHOUT_AUTHORIZER = Ruling(True, Reason.NO_AUTHORIZER)
_SUPER_USER = Ruling(True, Reason.SUPER_USER)
_NOT_LOADED = Ruling(False, Reason.NOT_LOADED)
_NOTHING_ALLOWS = Ruling(False, Reason.NOTHING_ALLOWS)


def authorize(
    settings: AuthorizerSettings,
    acls: AclsImage,
    caller: Caller,
    operation: AclOperation,
    resource: AclResource,
    name: str = CLUSTER_NAME,
    *,
    loaded: bool = True,
) -> Ruling:
    """Whether the caller is allowed the operation, and why.

    `loaded`: whether `acls` contains all committed entries.
    """
    if not settings.enabled:
        return _WITHOUT_AUTHORIZER
    if caller.principal in settings.super_users:
        return _SUPER_USER
    if not loaded:
        return _NOT_LOADED
    allows: AccessControlEntryRecord | None = None
    said = False
    implied_by = IMPLIED_BY.get(operation, ())
    host = host_text(caller.host)
    people = [(who, at) for who in {caller.principal, ANYBODY} for at in (host, WILDCARD)]
    for entries_of_resource in acls.index.about(resource, name):
        said = True
        # Most entries of a resource are for others, and a name may have many prefixes: do little for those.
        entries_of = entries_of_resource.get
        for who in people:
            entries = entries_of(who)
            if entries is None:
                continue
            for entry in entries.values():
                exact = entry.operation in (operation, AclOperation.ALL)
                if entry.permission_type != AclPermission.ALLOW:
                    if exact:
                        return Ruling(False, Reason.DENIED_BY_ENTRY, entry)
                elif allows is None and (exact or entry.operation in implied_by):
                    allows = entry
    if allows is not None:
        return Ruling(True, Reason.ALLOWED_BY_ENTRY, allows)
    if said:
        return _NOTHING_ALLOWS
    return Ruling(settings.allow_if_no_acl_found, Reason.NO_ENTRY)


def parse_super_users(text: str) -> frozenset[str]:
    """Parse `super.users` as stock Kafka does: separated by semicolons, as distinguished names
    contain commas.

    Blanks around a principal, and empty items, are ignored. Raises SecuritySettingError.
    """
    users = [each.strip(_BLANKS) for each in text.split(";")]
    for user in users:
        if user and ":" not in user:
            raise SecuritySettingError(
                _SUPER_USERS,
                f"{user!r} is not Type:name, as in User:alice; principals are separated by ;",
            )
    return frozenset(user for user in users if user)
