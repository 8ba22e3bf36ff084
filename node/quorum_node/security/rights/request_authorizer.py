"""Decides whether a request is permitted, from certificate, role and access control entries. PURE.

Owns their order. Without an authorizer no permissions are checked, and ids only where connections
have an identity. A super user is allowed everything, but acts for its own node only. A deny entry
overrides a role, except that of a member: a quorum must not lose its majority because of an entry.
Must not know how a request is answered; `Denial` has the error and the message.
"""

from dataclasses import dataclass

from quorum_node.image.access import AclsImage
from quorum_node.protocol.apis import APIS
from quorum_node.protocol.broker_apis import BROKER_APIS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.schema.schema import Message
from quorum_node.security.acl_terms import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    AclOperation,
    AclResource,
)
from quorum_node.security.any_resource import allowed_on_any
from quorum_node.security.authorizer import (
    AuthorizerSettings,
    Reason,
    Ruling,
    authorize,
)
from quorum_node.security.caller import Caller
from quorum_node.security.certificate_identity import Role
from quorum_node.security.rights.api_table import CONTROLLER_TABLE
from quorum_node.security.rights.claims import (
    Claim,
    claim_of,
    own_voter_change,
    why_not_speaker,
)
from quorum_node.security.rights.http_table import CLOSED_METRICS, route_rule
from quorum_node.security.rights.needs import ApiTable, Rule

_KEYS = {api.request: api.key for api in (*APIS.values(), *BROKER_APIS.values())}
_METRICS_PATH = "/metrics"


@dataclass(frozen=True, slots=True)
class Denial:
    """A refused request.

    `text` names the principal and the missing permission, for the log and the response.
    """

    error: ErrorCode
    text: str


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """`bound_listeners`: listeners on which callers act only for the node in their certificate
    (`quorum.identity.binding`).

    `login_listeners`: listeners with SASL. A caller that logs in acts for no node, not even a super
    user. Credentials are stored in the log, so if members had to log in, no leader could be elected
    after a stop of all of them.
    A listener without TLS is not in `bound_listeners`, as it has no certificates. `auto_join`:
    whether members add themselves. `open_metrics`: metrics need no permission.
    """

    authorizer: AuthorizerSettings
    bound_listeners: frozenset[str] = frozenset()
    login_listeners: frozenset[str] = frozenset()
    auto_join: bool = False
    open_metrics: bool = True
    table: ApiTable = CONTROLLER_TABLE


@dataclass(frozen=True, slots=True)
class RequestAuthorizer:
    """State at one instant. `loaded`: whether all committed entries are loaded. `voter_ids`: of the
    latest voters record.

    A broker that has the id of a voter, by mistake or on purpose, must not fetch in the name of
    that voter.
    """

    settings: AccessSettings
    acls: AclsImage
    loaded: bool = True
    voter_ids: frozenset[int] = frozenset()

    def request(self, caller: Caller, body: Message) -> "Asked | Denial":
        """Called before a request of the Kafka port is handled.

        `Asked` checks the resources that the request names.
        """
        settings, text = self.settings, None
        table = settings.table
        claim = claim_of(body, self.voter_ids | table.taken_ids)
        key = _KEYS[type(body)]
        rule = (table.as_a_reader.get(key) if claim is None else None) or table.rules[key]
        asked = Asked(self, caller, rule)
        if claim is not None:
            text = self._why_not_speaker(caller, claim)
        if text is None and settings.authorizer.enabled:
            itself = rule.own_voter and settings.auto_join
            if not (itself and own_voter_change(body, caller.identity)):
                text = asked.why_not()
        return asked if text is None else Denial(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text)

    def _why_not_speaker(self, caller: Caller, claim: Claim) -> str | None:
        if caller.listener in self.settings.login_listeners:
            who = f"{caller.principal} acts for {claim.text} on listener {caller.listener}"
            return f"{who}: nodes need certificates and can't log in by SASL"
        if caller.listener in self.settings.bound_listeners:
            return why_not_speaker(caller, claim, self.voter_ids)
        return None

    def route(self, caller: Caller, method: str, path: str) -> "Asked | Denial | None":
        """Called before the body of an HTTP request is read. None: the route does not exist."""
        rule = route_rule(method, path)
        if rule is None:
            return None
        if path == _METRICS_PATH and not self.settings.open_metrics:
            rule = CLOSED_METRICS
        asked = Asked(self, caller, rule)
        text = asked.why_not() if self.settings.authorizer.enabled else None
        return asked if text is None else Denial(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text)


@dataclass(frozen=True, slots=True)
class Asked:
    """A caller and its request, with the rule of that request."""

    authorizer: RequestAuthorizer
    caller: Caller
    rule: Rule

    def ruling(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> Ruling:
        """The decision on an operation of this request.

        Handlers call it for the resources that the request names.
        """
        settings, identity = self.authorizer.settings.authorizer, self.caller.identity
        if not settings.enabled or self.caller.principal in settings.super_users:
            identity = None  # neither needs a role
        by_role = False
        if identity is not None:
            limited = self.rule.limited_roles.get(identity.role, frozenset())
            of_this_name = resource is not AclResource.CLUSTER and name in limited
            by_role = identity.role in self.rule.roles or of_this_name
            if by_role and identity.role is Role.MEMBER:
                return _BY_ROLE  # no entry can override this, so none is read
        found = authorize(
            settings,
            self.authorizer.acls,
            self.caller,
            operation,
            resource,
            name,
            loaded=self.authorizer.loaded,
        )
        if found.allowed or not by_role or found.reason is Reason.DENIED_BY_ENTRY:
            return found
        return _BY_ROLE

    def allows(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> bool:
        """Whether the caller is allowed the operation within this request: the form that commands use."""
        return self.ruling(operation, resource, name).allowed

    def allows_any(self, operation: AclOperation, resource: AclResource) -> bool:
        """Whether the caller is allowed the operation on a resource of this type, which need not exist."""
        authorizer = self.authorizer
        return allowed_on_any(
            authorizer.settings.authorizer,
            authorizer.acls,
            self.caller,
            operation,
            resource,
            loaded=authorizer.loaded,
        )

    def operations(
        self, resource: AclResource, name: str = CLUSTER_NAME
    ) -> frozenset[AclOperation]:
        """The operations that access control entries allow the caller. What a role allows depends on the API."""
        authorizer = self.authorizer
        return frozenset(
            each
            for each in OPERATIONS_OF[resource]
            if authorize(
                authorizer.settings.authorizer,
                authorizer.acls,
                self.caller,
                each,
                resource,
                name,
                loaded=authorizer.loaded,
            ).allowed
        )

    def why_not(self) -> str | None:
        """Why the request is refused before it is processed; None if it is not."""
        rule = self.rule
        if rule.members_only and not self._is_member_or_super_user():
            return f"{self.caller.principal} is not a member of the quorum"
        if not rule.needs or not rule.is_checked_ahead:
            return None
        for need in rule.needs:
            if self.ruling(need.operation, need.resource, need.name or CLUSTER_NAME).allowed:
                return None
        lacks = " and ".join(need.text for need in rule.needs)
        return f"{self.caller.principal} lacks {lacks}"

    def _is_member_or_super_user(self) -> bool:
        identity = self.caller.identity
        if identity is not None and identity.role is Role.MEMBER:
            return True
        return self.caller.principal in self.authorizer.settings.authorizer.super_users


_BY_ROLE = Ruling(True, Reason.ROLE)
