"""Whether a caller may do what it asks: its certificate, its role, and the access control entries, in one answer. PURE.

Owns the order in which they count. Without an authorizer there is no question of rights, and of ids only where connections
prove an identity. A super user may everything, but speaks for its own node alone. An entry that denies wins over a role,
except a member's: a quorum must not lose its majority by an entry.
Must not know how a request is answered; `Denial` has the error and the words.
"""

from dataclasses import dataclass

from quorum_node.image.access import AclsImage
from quorum_node.protocol.apis import APIS
from quorum_node.protocol.broker_apis import BROKER_APIS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.schema.schema import Message
from quorum_node.security.acl_terms import CLUSTER_NAME, AclOperation, AclResource
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
    """A request that is not served. `text` names the principal and what it lacks, for the log and the answer."""

    error: ErrorCode
    text: str


@dataclass(frozen=True, slots=True)
class DoorSettings:
    """`bound_listeners`: where callers speak for the node of their certificate alone (`quorum.identity.binding`).

    `login_listeners`: those with SASL. Whoever logs in speaks for no node, a super user neither: the credentials come from the
    log, so a quorum whose members had to log in could not elect after a stop of all of them.
    A listener without TLS is not among `bound_listeners`: nobody can show a certificate there. `auto_join`: whether members add
    themselves. `open_metrics`: for anybody.
    """

    authorizer: AuthorizerSettings
    bound_listeners: frozenset[str] = frozenset()
    login_listeners: frozenset[str] = frozenset()
    auto_join: bool = False
    open_metrics: bool = True
    table: ApiTable = CONTROLLER_TABLE


@dataclass(frozen=True, slots=True)
class Door:
    """One instant. `loaded`: whether the entries are all that is committed. `voter_ids`: of the latest voters record.

    A broker that has the id of a voter, by mistake or on purpose, must not fetch in the name of that voter.
    """

    settings: DoorSettings
    acls: AclsImage
    loaded: bool = True
    voter_ids: frozenset[int] = frozenset()

    def request(self, caller: Caller, body: Message) -> "Asked | Denial":
        """Asked before a request of the Kafka port is handled. `Asked` answers for what the request names."""
        claim = claim_of(body)
        key = _KEYS[type(body)]
        settings, text = self.settings, None
        table = settings.table
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
            who = f"{caller.principal} speaks for {claim.text} at listener {caller.listener}"
            return f"{who}: nodes show certificates, and do not log in by SASL"
        if caller.listener in self.settings.bound_listeners:
            return why_not_speaker(caller, claim, self.voter_ids)
        return None

    def route(self, caller: Caller, method: str, path: str) -> "Asked | Denial | None":
        """Asked before the body of an HTTP request is read. None: there is no such route."""
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
    """A caller with a request whose rule is known."""

    door: Door
    caller: Caller
    rule: Rule

    def ruling(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> Ruling:
        """Whether the caller may do it within this request. Handlers ask it for what the request names."""
        settings, identity = self.door.settings.authorizer, self.caller.identity
        if not settings.enabled or self.caller.principal in settings.super_users:
            identity = None  # neither needs a role
        by_role = False
        if identity is not None:
            limited = self.rule.limited_roles.get(identity.role, frozenset())
            of_this_name = resource is not AclResource.CLUSTER and name in limited
            by_role = identity.role in self.rule.roles or of_this_name
            if by_role and identity.role is Role.MEMBER:
                return _BY_ROLE  # no entry takes it away, so none is read
        found = authorize(
            settings,
            self.door.acls,
            self.caller,
            operation,
            resource,
            name,
            loaded=self.door.loaded,
        )
        if found.allowed or not by_role or found.reason is Reason.DENIED_BY_ENTRY:
            return found
        return _BY_ROLE

    def allows(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> bool:
        """Whether the caller may do it within this request: the form in which commands ask."""
        return self.ruling(operation, resource, name).allowed

    def why_not(self) -> str | None:
        """Why it is refused before it is looked into, in words; None if it is not."""
        rule = self.rule
        if rule.members_only and not self._is_member_or_super_user():
            return f"{self.caller.principal} is no member of the quorum"
        if not rule.needs or not rule.is_asked_ahead:
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
        return self.caller.principal in self.door.settings.authorizer.super_users


_BY_ROLE = Ruling(True, Reason.ROLE)
