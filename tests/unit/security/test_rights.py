"""The tables of rights, and the authorizer that uses them: every API, every route, every identity."""

from dataclasses import replace
from uuid import UUID

import pytest

from quorum_node.image.access import AclsImage
from quorum_node.protocol.apis import APIS, FIRST_PRIVATE_KEY, FORWARDABLE
from quorum_node.protocol.elections import VoteRequest
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import AccessControlEntryRecord
from quorum_node.schema.schema import Message
from quorum_node.security.acl_terms import AclOperation, AclPermission, AclResource
from quorum_node.security.authorizer import AuthorizerSettings, Reason
from quorum_node.security.caller import Caller, token_holder
from quorum_node.security.certificate_identity import CertificateIdentity, Role
from quorum_node.security.rights.api_table import AS_A_READER, INTERNAL_TOPICS, RULES, STOCK
from quorum_node.security.rights.broker_table import BROKER_TABLE
from quorum_node.security.rights.claims import (
    CLAIMING,
    OBSERVER_ID,
    claim_of,
    why_not_dialled,
)
from quorum_node.security.rights.http_table import ROUTES, route_rule
from quorum_node.security.rights.request_authorizer import (
    AccessSettings,
    Asked,
    Denial,
    RequestAuthorizer,
)
from quorum_node.server.admin import app as app_module
from support.request_samples import body_of

ON = AuthorizerSettings(enabled=True, super_users=frozenset({"User:root"}))
BOUND = frozenset({"CONTROLLER"})
CLOSED = RequestAuthorizer(AccessSettings(ON, BOUND), AclsImage())
NAMES = {api.name: api for api in APIS.values()}
BY_RESOURCE = {19, 20, 32, 33, 37, 44}
OPEN_TO_ALL = {17, 18, 36, 38, 39, 40, 41}


def who(role: Role | None, node_id: int | None = None, principal: str = "User:x") -> Caller:
    identity = None if role is None else CertificateIdentity("ns", "demo", role, node_id)
    return Caller(principal, "10.0.0.9", "CONTROLLER", identity)


CALLERS = {
    "nobody": who(None),
    "member": who(Role.MEMBER, 1),
    "broker": who(Role.BROKER, 1),
    "operator": who(Role.OPERATOR),
    "admin": who(Role.ADMIN),
    "reader": who(Role.READER),
    "archiver": who(Role.ARCHIVER),
    "token": token_holder("10.0.0.9", "CONTROLLER"),
}
"""The bodies below are those of node 1."""

LOOKING = frozenset({"member", "operator", "admin", "reader", "archiver", "token"})
EVERYBODY = frozenset(CALLERS)
ADMINS = frozenset({"admin", "token"})
OPERATORS = ADMINS | {"operator"}
EXPECTED: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "UpdateRaftVoter"), frozenset({"member"})
    ),
    **dict.fromkeys(("DiscoverBrokers", "ReadOffset"), frozenset({"member"})),
    **dict.fromkeys(("ControllerRegistration", "ControllerHeartbeat"), frozenset({"member"})),
    **dict.fromkeys(("Fetch", "FetchSnapshot"), frozenset({"member", "broker"})),
    **dict.fromkeys(
        ("BrokerRegistration", "BrokerHeartbeat", "AlterPartition"), frozenset({"broker"})
    ),
    **dict.fromkeys(
        ("AllocateProducerIds", "AssignReplicasToDirs", "Envelope"), frozenset({"broker"})
    ),
    **dict.fromkeys(("CreateAcls", "DeleteAcls", "ElectLeaders", "UnregisterBroker"), ADMINS),
    **dict.fromkeys(("UpdateFeatures", "AlterUserScramCredentials", "AlterClientQuotas"), ADMINS),
    **dict.fromkeys(("AddRaftVoter", "RemoveRaftVoter", "AlterQuorum"), OPERATORS),
    "AlterPartitionReassignments": OPERATORS,
    **dict.fromkeys(("DescribeQuorum", "DescribeCluster", "DescribeAcls"), LOOKING),
    **dict.fromkeys(("ListPartitionReassignments", "DescribeUserScramCredentials"), LOOKING),
}
"""Who gets past the authorizer by role, with a certificate for node 1; the table of the design, written down again."""


def lets_in(authorizer: RequestAuthorizer, caller: Caller, body: Message) -> bool:
    return isinstance(authorizer.request(caller, body), Asked)


def test_every_api_has_a_rule_and_every_rule_an_api() -> None:
    """Fails for a new API without a rule."""
    assert set(RULES) == set(APIS) == set(STOCK)
    assert all(STOCK[key] is None for key in APIS if key >= FIRST_PRIVATE_KEY)


def test_every_request_with_a_sender_id_is_bound_to_a_node() -> None:
    """A new request with such a field needs a rule, too; the listed ones name another node."""
    of_another = {"AddRaftVoter", "RemoveRaftVoter", "UnregisterBroker"}
    senders = {"broker_id", "controller_id", "replica_id", "voter_id"}
    fields = {
        api.name
        for api in APIS.values()
        if senders & set(api.request.__dataclass_fields__) and api.name not in of_another
    }
    assert fields == {api.name for api in APIS.values() if api.request in CLAIMING} - {
        "EndQuorumEpoch"
    }


@pytest.mark.parametrize(
    "name", [api.name for api in APIS.values() if api.key not in BY_RESOURCE | OPEN_TO_ALL]
)
def test_apis_allowed_by_role(name: str) -> None:
    body = body_of(NAMES[name], node_id=1)
    allowed = {each for each, caller in CALLERS.items() if lets_in(CLOSED, caller, body)}
    assert allowed == EXPECTED[name]


@pytest.mark.parametrize("key", sorted(OPEN_TO_ALL | BY_RESOURCE))
def test_operations_not_checked_at_the_listener(key: int) -> None:
    """All callers are allowed; the named resources are authorized one by one."""
    body = body_of(APIS[key], node_id=1)
    assert {each for each, caller in CALLERS.items() if lets_in(CLOSED, caller, body)} == EVERYBODY


@pytest.mark.parametrize("name", [api.name for api in APIS.values() if api.request in CLAIMING])
def test_super_user_cannot_act_as_another_node(name: str) -> None:
    body = body_of(NAMES[name], node_id=2)
    for caller in (
        *CALLERS.values(),
        who(Role.MEMBER, 1, "User:root"),
        who(None, None, "User:root"),
    ):
        answer = CLOSED.request(caller, body)
        assert isinstance(answer, Denial), caller
        assert answer.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert " 2" in answer.text
    unbound = RequestAuthorizer(AccessSettings(ON), AclsImage())
    assert lets_in(unbound, who(None, None, "User:root"), body)
    without_authorizer = RequestAuthorizer(AccessSettings(AuthorizerSettings(), BOUND), AclsImage())
    assert not lets_in(without_authorizer, who(Role.MEMBER, 1), body)


def test_broker_with_a_voter_id_cannot_fetch_as_the_voter() -> None:
    fetch = body_of(NAMES["Fetch"], node_id=1)
    with_voters = RequestAuthorizer(CLOSED.settings, AclsImage(), voter_ids=frozenset({1, 2, 3}))
    assert lets_in(CLOSED, who(Role.BROKER, 1), fetch)
    assert not lets_in(with_voters, who(Role.BROKER, 1), fetch)
    assert lets_in(with_voters, who(Role.MEMBER, 1), fetch)


def test_request_with_two_node_ids_acts_as_no_node() -> None:
    vote, other = (body_of(NAMES["Vote"], node_id=each) for each in (1, 2))
    assert isinstance(vote, VoteRequest)
    assert isinstance(other, VoteRequest)
    both = replace(vote, topics=vote.topics + other.topics)
    assert not lets_in(CLOSED, who(Role.MEMBER, 1), both)
    assert not lets_in(CLOSED, who(Role.MEMBER, 2), both)


@pytest.mark.parametrize("node_id", [-2, -7])
def test_fetch_with_a_negative_replica_id_is_a_consumer_fetch(node_id: int) -> None:
    """-2 is a consumer that debugs. On stock brokers every negative id is no broker's."""
    fetch = body_of(NAMES["Fetch"], node_id=node_id)
    assert claim_of(fetch) is None
    reader = allow("User:x", AclOperation.READ, AclResource.TOPIC, "t")
    broker = replace(CLOSED.settings, table=BROKER_TABLE)
    assert lets_in(RequestAuthorizer(broker, reader), who(None), fetch)
    assert claim_of(body_of(NAMES["Vote"], node_id=node_id)) is not None


@pytest.mark.parametrize("name", ["Fetch", "FetchSnapshot"])
@pytest.mark.parametrize("observer", [-1, 0x7FFFFFFF])
def test_log_reader_without_a_replica_id_needs_a_read_right(name: str, observer: int) -> None:
    body = body_of(NAMES[name], node_id=observer)
    assert claim_of(body) is None
    allowed = {each for each, caller in CALLERS.items() if lets_in(CLOSED, caller, body)}
    assert allowed == {"archiver", *ADMINS}
    entry = allow("User:x", AclOperation.READ, AclResource.TOPIC, "__cluster_metadata")
    assert lets_in(RequestAuthorizer(CLOSED.settings, entry), who(None), body)
    assert set(AS_A_READER) == {1, 59}


@pytest.mark.parametrize("name", ["Fetch", "FetchSnapshot"])
def test_reader_cannot_fetch_as_the_voter_that_has_the_id_of_observers(name: str) -> None:
    body = body_of(NAMES[name], node_id=OBSERVER_ID)
    voters = RequestAuthorizer(CLOSED.settings, AclsImage(), voter_ids=frozenset({OBSERVER_ID, 2}))
    allowed = {each for each, caller in CALLERS.items() if lets_in(voters, caller, body)}
    assert not allowed
    assert lets_in(voters, who(Role.MEMBER, OBSERVER_ID), body)


def test_consumer_cannot_fetch_as_the_broker_that_has_the_id_of_observers() -> None:
    fetch = body_of(NAMES["Fetch"], node_id=OBSERVER_ID)
    reader = allow("User:x", AclOperation.READ, AclResource.TOPIC, "t")
    brokers = RequestAuthorizer(replace(CLOSED.settings, table=BROKER_TABLE), reader)
    assert not lets_in(brokers, who(None), fetch)
    assert lets_in(brokers, who(Role.BROKER, OBSERVER_ID), fetch)


def allow(
    principal: str,
    operation: AclOperation,
    resource: AclResource = AclResource.CLUSTER,
    name: str = "kafka-cluster",
    permission: AclPermission = AclPermission.ALLOW,
) -> AclsImage:
    record = AccessControlEntryRecord(
        id=UUID(int=7),
        resource_type=resource,
        resource_name=name,
        pattern_type=3,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=permission,
    )
    return AclsImage().replay_add(record)


def test_acl_entry_adds_rights_but_no_membership() -> None:
    authorizer = RequestAuthorizer(AccessSettings(ON), allow("User:x", AclOperation.CLUSTER_ACTION))
    assert lets_in(authorizer, who(None), body_of(NAMES["Envelope"], node_id=1))
    assert lets_in(authorizer, who(None), body_of(NAMES["BrokerRegistration"], node_id=1))
    denial = authorizer.request(who(None), body_of(NAMES["Vote"], node_id=1))
    assert isinstance(denial, Denial)
    assert "not a member of the quorum" in denial.text


def test_denying_entry_overrides_a_role_but_not_membership() -> None:
    deny = allow("User:*", AclOperation.ALL, permission=AclPermission.DENY)
    authorizer = RequestAuthorizer(CLOSED.settings, deny)
    assert not lets_in(authorizer, who(Role.ADMIN), body_of(NAMES["CreateAcls"], node_id=1))
    assert not lets_in(authorizer, who(Role.BROKER, 1), body_of(NAMES["Envelope"], node_id=1))
    assert lets_in(authorizer, who(Role.MEMBER, 1), body_of(NAMES["Vote"], node_id=1))


def test_members_are_served_before_the_entries_are_loaded() -> None:
    """Otherwise a quorum that restarts would never elect a leader."""
    authorizer = RequestAuthorizer(CLOSED.settings, AclsImage(), loaded=False)
    assert lets_in(authorizer, who(Role.MEMBER, 1), body_of(NAMES["Vote"], node_id=1))
    assert lets_in(authorizer, who(Role.BROKER, 1), body_of(NAMES["Fetch"], node_id=1))
    assert not lets_in(authorizer, who(None), body_of(NAMES["DescribeQuorum"], node_id=1))


@pytest.mark.parametrize("key", sorted(FORWARDABLE))
def test_role_does_not_apply_within_an_envelope(key: int) -> None:
    """The forwarded caller has the principal of a role, and no certificate."""
    body = body_of(APIS[key], node_id=1)
    inside = Caller("User:CN=admin,OU=admin,O=demo.ns", "10.1.1.1", "CONTROLLER")
    answer = CLOSED.request(inside, body)
    if key in BY_RESOURCE:
        assert isinstance(answer, Asked)
        assert not answer.ruling(AclOperation.ALTER, AclResource.TOPIC, "t").allowed
    else:
        assert isinstance(answer, Asked) is (key in OPEN_TO_ALL)


def test_member_adds_and_replaces_itself_if_automatic_joining_is_enabled() -> None:
    joining = RequestAuthorizer(AccessSettings(ON, BOUND, auto_join=True), AclsImage())
    for name in ("AddRaftVoter", "RemoveRaftVoter"):
        for authorizer, caller, node_id, allowed in (
            (joining, who(Role.MEMBER, 1), 1, True),
            (joining, who(Role.MEMBER, 1), 2, False),
            (joining, who(Role.BROKER, 1), 1, False),
            (joining, who(None), 1, False),
            (CLOSED, who(Role.MEMBER, 1), 1, False),
        ):
            assert lets_in(authorizer, caller, body_of(NAMES[name], node_id=node_id)) is allowed


def test_broker_creates_internal_topics_only() -> None:
    requested = CLOSED.request(who(Role.BROKER, 1), body_of(NAMES["CreateTopics"], node_id=1))
    assert isinstance(requested, Asked)
    assert not requested.ruling(AclOperation.CREATE, AclResource.CLUSTER).allowed
    for name, allowed in (*((name, True) for name in INTERNAL_TOPICS), ("orders", False)):
        ruling = requested.ruling(AclOperation.CREATE, AclResource.TOPIC, name)
        assert (ruling.allowed, ruling.reason is Reason.ROLE) == (allowed, allowed)
    deleting = CLOSED.request(who(Role.BROKER, 1), body_of(NAMES["DeleteTopics"], node_id=1))
    assert isinstance(deleting, Asked)
    assert not deleting.ruling(AclOperation.DELETE, AclResource.TOPIC, "__consumer_offsets").allowed


def test_opened_connection_must_end_at_the_intended_member() -> None:
    member = CertificateIdentity("ns", "demo", Role.MEMBER, 2)
    assert why_not_dialled(member, 2) is None
    assert "member:2" in str(why_not_dialled(member, 3))
    broker = CertificateIdentity("ns", "demo", Role.BROKER, 2)
    assert "broker:2" in str(why_not_dialled(broker, 2))
    assert "no certificate" in str(why_not_dialled(None, 2))


def test_no_rights_are_checked_without_an_authorizer() -> None:
    open_authorizer = RequestAuthorizer(AccessSettings(AuthorizerSettings()), AclsImage())
    for api in APIS.values():
        requested = open_authorizer.request(who(None), body_of(api, node_id=1))
        assert isinstance(requested, Asked)
        assert requested.ruling(AclOperation.ALTER, AclResource.TOPIC, "t").allowed


class BrokenNode:
    """The application uses its node only for requests."""


def test_every_route_has_a_rule_and_every_rule_a_route() -> None:
    """Fails for a new route without a rule."""
    app = app_module.create_app(BrokenNode())  # type: ignore[arg-type]
    served = {("GET", app.openapi_url)}
    for path, methods in app.openapi()["paths"].items():
        served |= {(method.upper(), path) for method in methods}
    assert served == set(ROUTES)


@pytest.mark.parametrize(("method", "path"), list(ROUTES))
def test_http_routes_allowed_by_role(method: str, path: str) -> None:
    parts = [("7" if part.startswith("{") else part) for part in path.split("/")]
    found = {
        each
        for each, caller in CALLERS.items()
        if isinstance(CLOSED.route(caller, method, "/".join(parts)), Asked)
    }
    if path in ("/livez", "/readyz", "/metrics"):
        assert found == EVERYBODY
    elif path == "/v1/log":
        assert found == {"archiver", *ADMINS}
    elif path.startswith("/v1/configs") and method == "GET":
        assert found == LOOKING - {"operator"}
    elif path in ("/v1/append", "/v1/configs/{resource_type}/{resource_name}/{name}"):
        assert found == ADMINS
    elif method == "GET" or path.endswith("/describe"):
        assert found == LOOKING
    else:
        assert found == OPERATORS


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"), ("GET", ""), ("GET", "//v1/log"), ("GET", "/v1/log/"), ("GET", "/v1"), ("PATCH", "/v1/log"),
        ("GET", "/v1/configs/a//c"), ("GET", "/v1/configs/a/b"), ("GET", "/v1/configs/a/b/c/d"), ("GET", "/V1/log"),
        ("TRACE", "/livez"), ("GET", "/{}/log"), ("GET", "/docs"),
    ],
)  # fmt: skip
def test_unknown_route_has_no_rule(method: str, path: str) -> None:
    assert route_rule(method, path) is None
    assert CLOSED.route(who(Role.ADMIN), method, path) is None


def test_head_is_authorized_as_get_and_metrics_can_be_restricted() -> None:
    assert route_rule("HEAD", "/v1/log") is ROUTES["GET", "/v1/log"]
    closed = RequestAuthorizer(AccessSettings(ON, open_metrics=False), AclsImage())
    assert isinstance(closed.route(who(None), "GET", "/metrics"), Denial)
    assert isinstance(closed.route(who(Role.READER), "GET", "/metrics"), Asked)
    assert isinstance(closed.route(who(None), "GET", "/livez"), Asked)


def test_claim_is_read_in_every_version_with_the_field() -> None:
    for api in APIS.values():
        if api.request in CLAIMING:
            claim = claim_of(body_of(api, node_id=5))
            assert claim is not None
            assert claim.node_ids == {5}
