"""The guard of both ports: what it caches, when it drops that, which callers wait, what it logs."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from quorum_node.image.committed import CommittedImage
from quorum_node.protocol.apis import APIS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from quorum_node.schema.schema import Message
from quorum_node.security.acl_terms import AclOperation, AclPermission, AclResource
from quorum_node.security.authorizer import AuthorizerSettings
from quorum_node.security.caller import ANONYMOUS, Caller
from quorum_node.security.certificate_identity import CertificateIdentity, Role
from quorum_node.security.rights import claims
from quorum_node.security.rights.request_authorizer import AccessSettings, Asked, Denial
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.rights.denials import LOG_EVERY_S, MAX_LINES, MAX_REMEMBERED, Denials
from quorum_node.server.rights.guard import MAX_DECIDED, CachingGuard
from support.request_samples import body_of

ON = AuthorizerSettings(enabled=True, super_users=frozenset({"User:root"}))
BOUND = frozenset({"CONTROLLER"})
NAMES = {api.name: api for api in APIS.values()}
MEMBER = Caller("User:m", "10.0.0.1", "CONTROLLER", CertificateIdentity("n", "q", Role.MEMBER, 1))
BROKER = Caller("User:b", "10.0.0.2", "CONTROLLER", CertificateIdentity("n", "q", Role.BROKER, 1))
ALICE = Caller("User:alice", "10.0.0.3", "CONTROLLER")
ROOT = Caller("User:root", "10.0.0.4", "CONTROLLER")


class Request:
    """A request on the connection of a caller."""

    def __init__(self, caller: Caller, *, keeps: bool = True) -> None:
        self.caller = caller
        self.decided: dict[object, Asked] | None = {} if keeps else None


class Replica:
    """A replica with a known leader by default."""

    def __init__(self) -> None:
        self.committed = CommittedImage()
        self.heard = True
        self.high_watermark = 0

    def knows_commits(self) -> bool:
        return self.heard


class Env:
    """A guard and the state that it uses."""

    def __init__(self, settings: AccessSettings | None = None) -> None:
        self.replica = Replica()
        self.voters: frozenset[int] = frozenset()
        self.metrics = Metrics()
        self.now = 100.0
        self.guard = CachingGuard(
            settings or AccessSettings(ON, BOUND),
            self.replica,
            lambda: self.voters,
            Denials(self.metrics, lambda: self.now),
        )

    def allows(self, request: Request, name: str, node_id: int = 1) -> bool:
        found = self.guard.request(request, body_of(NAMES[name], node_id))
        return isinstance(found, Asked)

    def commit(self, record: Any) -> None:
        self.replica.committed.replay([record])
        self.replica.high_watermark += 1
        self.replica.committed.reached(self.replica.high_watermark, 1, 0)

    @property
    def denials(self) -> dict[Any, float]:
        return self.metrics.labelled["authorization_denials"]


def entry(
    operation: AclOperation, permission: AclPermission = AclPermission.ALLOW, number: int = 1
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=UUID(int=number),
        resource_type=AclResource.CLUSTER,
        resource_name="kafka-cluster",
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=operation,
        permission_type=permission,
    )


def counted_calls(work: Callable[[], object]) -> list[str]:
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(("name", "caller"), [("Fetch", MEMBER), ("Vote", MEMBER)])
def test_repeated_allowed_request_costs_one_table_lookup(name: str, caller: Caller) -> None:
    env, request = Env(), Request(caller)
    body = body_of(NAMES[name], 1)
    first = env.guard.request(request, body)
    calls = counted_calls(lambda: env.guard.request(request, body))
    assert env.guard.request(request, body) is first
    assert not {"request", "why_not", "ruling", "authorize", "why_not_speaker"} & set(calls[2:])
    assert len(calls) <= 6, calls


def test_decision_is_repeated_after_acl_changes() -> None:
    env, alice = Env(), Request(ALICE)
    assert not env.allows(alice, "DescribeQuorum")
    env.commit(entry(AclOperation.DESCRIBE))
    assert env.allows(alice, "DescribeQuorum")
    assert env.allows(alice, "DescribeQuorum")
    env.commit(entry(AclOperation.DESCRIBE, AclPermission.DENY, 2))
    assert not env.allows(alice, "DescribeQuorum")
    env.commit(RemoveAccessControlEntryRecord(id=UUID(int=2)))
    assert env.allows(alice, "DescribeQuorum")
    env.commit(RemoveAccessControlEntryRecord(id=UUID(int=1)))
    assert not env.allows(alice, "DescribeQuorum")


def test_decision_is_repeated_after_voter_changes() -> None:
    """A broker with an id that becomes a voter's can no longer fetch under it."""
    env, broker = Env(), Request(BROKER)
    assert env.allows(broker, "Fetch")
    env.voters = frozenset({1})
    env.guard.voters_changed()
    assert not env.allows(broker, "Fetch")


def test_decision_is_cached_per_id_api_and_caller() -> None:
    env, member = Env(), Request(MEMBER)
    for name in ("Fetch", "Vote", "BeginQuorumEpoch"):
        assert env.allows(member, name, 1)
        assert not env.allows(member, name, 2)
        assert env.allows(member, name, 1)
    member.caller = BROKER  # a connection that authenticates again
    assert not env.allows(member, "Vote", 1)


def test_node_named_in_a_request_is_checked_each_time() -> None:
    """A member may add itself; that implies nothing for others."""
    env = Env(AccessSettings(ON, BOUND, auto_join=True))
    member = Request(MEMBER)
    for _ in range(2):
        assert env.allows(member, "AddRaftVoter", 1)
        assert not env.allows(member, "AddRaftVoter", 2)


def test_decision_cache_is_bounded_and_skips_uncacheable_decisions() -> None:
    env = Env(AccessSettings(ON))
    assert env.allows(Request(ROOT, keeps=False), "Fetch")
    root = Request(ROOT)
    for node_id in range(3 * MAX_DECIDED):
        assert env.allows(root, "Fetch", node_id)
    assert root.decided is not None
    assert len(root.decided) <= MAX_DECIDED
    assert not env.allows(Request(ALICE), "Fetch")


def test_only_roles_and_super_users_are_allowed_before_acls_are_loaded() -> None:
    env, alice = Env(), Request(ALICE)
    env.commit(entry(AclOperation.DESCRIBE))
    env.replica.heard = False
    assert not env.allows(alice, "DescribeQuorum")
    assert env.allows(Request(ROOT), "DescribeQuorum")
    assert env.allows(Request(MEMBER), "Fetch")
    env.replica.heard, env.replica.high_watermark = True, 2
    assert not env.allows(alice, "DescribeQuorum"), "an entry may take it away"
    env.replica.high_watermark = 1
    assert env.allows(alice, "DescribeQuorum")
    env.replica.heard, env.replica.high_watermark = False, 9
    env.guard.voters_changed()
    assert env.allows(alice, "DescribeQuorum"), "once loaded it is kept up to date"


def test_http_routes_use_the_current_acls() -> None:
    env = Env()
    assert isinstance(env.guard.route(ALICE, "GET", "/v1/node"), Denial)
    env.commit(entry(AclOperation.DESCRIBE))
    assert isinstance(env.guard.route(ALICE, "GET", "/v1/node"), Asked)
    assert env.guard.route(ALICE, "GET", "/v1/nothing") is None


def test_denial_is_logged_once_and_always_counted() -> None:
    env, nobody = Env(), Request(ANONYMOUS)
    with capture_logs() as lines:
        for _ in range(3):
            assert not env.allows(nobody, "Vote")
        assert not env.allows(Request(BROKER), "Vote")
        assert isinstance(env.guard.route(ALICE, "DELETE", "/v1/voters/7/x"), Denial)
    assert [line["operation"] for line in lines] == [
        "Vote",
        "Vote",
        "DELETE /v1/voters/{id}/{uuid}",
    ]
    first, second, third = lines
    assert first["event"].startswith("authorizer: denied Vote: User:ANONYMOUS acts for member 1")
    assert (first["principal"], first["subject"]) == ("User:ANONYMOUS", "")
    assert (second["subject"], second["address"]) == ("urn:metadataquorum:n:q:broker:1", "10.0.0.2")
    assert third["event"].endswith("User:alice lacks ALTER on CLUSTER")
    assert env.denials == {
        "anonymous Vote": 3,
        "broker Vote": 1,
        "none DELETE /v1/voters/{id}/{uuid}": 1,
    }
    env.now += LOG_EVERY_S
    with capture_logs() as lines:
        assert not env.allows(nobody, "Vote")
    assert [line["sinceThen"] for line in lines] == [2]


def test_many_unknown_callers_are_bounded_in_memory_metric_labels_and_lines() -> None:
    """A broker names them in its Envelopes."""
    metrics, now = Metrics(), 0.0
    denials = Denials(metrics, lambda: now)
    with capture_logs() as lines:
        for number in range(3 * MAX_REMEMBERED):
            caller = Caller(f"User:{number}", f"10.0.{number >> 8}.{number & 255}", "CONTROLLER")
            denials.denied(caller, "Vote", "no")
    assert len(denials._reported) <= MAX_REMEMBERED
    assert metrics.labelled["authorization_denials"] == {"none Vote": 3 * MAX_REMEMBERED}
    assert len(lines) == MAX_LINES
    assert [number for number, line in enumerate(lines, 1) if "left out" in line["event"]] == [
        MAX_LINES
    ]
    now += LOG_EVERY_S
    with capture_logs() as lines:
        long = f"User:{'x' * 32_000}"
        denials.denied(Caller(long, "10.0.0.1", "CONTROLLER"), "Vote", f"{long} lacks it")
    assert len(str(lines)) < 2000


def test_denial_returns_the_error_code_of_stock_kafka() -> None:
    env = Env()
    for name in ("Vote", "AlterQuorum", "Envelope", "DescribeCluster"):
        found = env.guard.request(Request(ANONYMOUS), body_of(NAMES[name], 1))
        assert isinstance(found, Denial)
        assert found.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_id_in_the_decision_cache_equals_the_id_in_the_authorization() -> None:
    """The key of a cached decision contains the ids that were authorized."""
    for kind in claims.CLAIMING:
        body: Message = body_of(next(a for a in APIS.values() if a.request is kind), 5)
        claim = claims.claim_of(body)
        assert claim is not None
        assert frozenset(claims.IDS_OF[kind](body)) == claim.node_ids
