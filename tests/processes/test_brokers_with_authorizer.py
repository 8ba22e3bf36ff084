"""Brokers with TLS and an authorizer: who may read, who may write, and who may act as a broker."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from quorum_node.protocol import broker_apis
from quorum_node.protocol.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from quorum_node.protocol.apis import BROKER_REGISTRATION, CREATE_ACLS, DESCRIBE_ACLS
from quorum_node.protocol.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from quorum_node.protocol.describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from quorum_node.protocol.describe_producers import (
    DESCRIBE_PRODUCERS,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopic,
)
from quorum_node.protocol.describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    DescribedTopicName,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import FetchRequest, FetchResponse, ReplicaState
from quorum_node.protocol.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from quorum_node.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from quorum_node.protocol.join_group import JoinGroupRequest, JoinGroupResponse
from quorum_node.protocol.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from quorum_node.protocol.offset_fetch import (
    FetchedGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from quorum_node.security.acl_terms import AclOperation, AclPattern, AclPermission, AclResource
from support.broker_admin import delete_records
from support.broker_requests import registration
from support.local_quorum import wait_until
from support.one_request import ask
from support.tls_python_brokers import ADMIN, TlsPythonBrokers
from support.unauthorized_clients import LockedQuorum

pytestmark = pytest.mark.long
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsPythonBrokers]:
    """Brokers 201 and 202. `writer` may write to topic t, `reader-of-t` read it, `stranger` has no rights."""
    root = tmp_path_factory.mktemp("locked-brokers")
    with (
        LockedQuorum(root / "quorum", 1, **{"super.users": ADMIN}) as quorum,
        TlsPythonBrokers(quorum, root / "brokers", 2) as made,
    ):
        quorum.form()
        made.start()
        for name in ("writer", "reader-of-t", "stranger"):
            made.make_client(name)
        grant(made, "writer", AclOperation.WRITE)
        grant(made, "reader-of-t", AclOperation.READ)
        yield made


@pytest.fixture(scope="module")
def topic(brokers: TlsPythonBrokers) -> UUID:
    """Topic t, led by 201 and followed by 202; topic secret, for which no principal has a right."""
    brokers.create_topic("secret", [201])
    made = brokers.create_topic("t", [201, 202], min_insync_replicas="2")
    wait_until(lambda: brokers.isr("t", 201) == {201, 202}, "both are in sync", 60)
    return made


def grant(brokers: TlsPythonBrokers, name: str, operation: AclOperation) -> None:
    """A right on topic t, through a broker."""
    entry = AclCreation(
        resource_type=AclResource.TOPIC,
        resource_name="t",
        resource_pattern_type=AclPattern.LITERAL,
        principal=f"User:CN={name}",
        host="*",
        operation=operation,
        permission_type=AclPermission.ALLOW,
    )
    answer = brokers.ask(201, CREATE_ACLS, CreateAclsRequest(creations=(entry,)))
    assert isinstance(answer, CreateAclsResponse)
    assert not answer.results[0].error_code, answer


def topics_seen(brokers: TlsPythonBrokers) -> set[str | None]:
    found = brokers.metadata(201)
    assert found is not None
    return {each.name for each in found.topics}


def producer_id(brokers: TlsPythonBrokers) -> int:
    """The error code."""
    body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    answer = brokers.ask(201, broker_apis.INIT_PRODUCER_ID, body)
    assert isinstance(answer, InitProducerIdResponse)
    return answer.error_code


def producers_code(brokers: TlsPythonBrokers, name: str) -> int:
    """The error code of DescribeProducers for partition 0."""
    topics = (DescribeProducersTopic(name=name, partition_indexes=(0,)),)
    answer = brokers.ask(201, DESCRIBE_PRODUCERS, DescribeProducersRequest(topics=topics))
    assert isinstance(answer, DescribeProducersResponse)
    return answer.topics[0].partitions[0].error_code


def test_administrator_writes_and_brokers_replicate_with_their_certificates(
    brokers: TlsPythonBrokers, topic: UUID
) -> None:
    assert brokers.produce(201, topic, [b"by admin"]).error_code == 0
    assert b"by admin" in brokers.read_all(201, topic)
    assert topics_seen(brokers) == {"t", "secret"}
    assert producers_code(brokers, "secret") == 0


def test_principal_with_write_rights_cannot_read(brokers: TlsPythonBrokers, topic: UUID) -> None:
    with brokers.asking_as("writer"):
        wait_until(lambda: brokers.produce(201, topic, [b"w"]).error_code == 0, "the right counts")
        assert brokers.fetch(201, topic, 0).error_code == DENIED
        assert topics_seen(brokers) == {"t"}
        wait_until(lambda: producer_id(brokers) == 0, "a block of producer ids has come")
        assert delete_records(brokers, 201, "t", 0).error_code == DENIED
        assert producers_code(brokers, "t") == DENIED


def test_principal_with_read_rights_cannot_write(brokers: TlsPythonBrokers, topic: UUID) -> None:
    with brokers.asking_as("reader-of-t"):
        wait_until(lambda: brokers.fetch(201, topic, 0).error_code == 0, "the right counts")
        assert brokers.produce(201, topic, [b"no"]).error_code == DENIED
        assert producer_id(brokers) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert topics_seen(brokers) == {"t"}
        assert producers_code(brokers, "t") == 0
        assert producers_code(brokers, "secret") == producers_code(brokers, "unknown") == DENIED
    assert b"no" not in brokers.read_all(201, topic)


def test_principal_without_rights_sees_no_topic(brokers: TlsPythonBrokers, topic: UUID) -> None:
    with brokers.asking_as("stranger"):
        assert topics_seen(brokers) == set()
        for name in ("t", "there is none"):
            found = brokers.metadata(201, [name])
            assert found is not None
            assert (found.topics[0].error_code, found.topics[0].partitions) == (DENIED, ())
            request = DescribeTopicPartitionsRequest(topics=(DescribedTopicName(name=name),))
            described = brokers.ask(201, DESCRIBE_TOPIC_PARTITIONS, request)
            assert isinstance(described, DescribeTopicPartitionsResponse)
            assert described.topics[0].error_code == DENIED
        assert brokers.produce(201, topic, [b"no"]).error_code == DENIED
        assert brokers.fetch(201, topic, 0).error_code == DENIED
        directories = brokers.ask(201, DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
        assert isinstance(directories, DescribeLogDirsResponse)
        assert directories.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("who", ["stranger", "admin", "broker-201"])
def test_fetch_with_the_replica_id_of_another_broker_is_rejected(
    brokers: TlsPythonBrokers, topic: UUID, who: str
) -> None:
    body = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=(), replica_state=ReplicaState(replica_id=202)
    )
    with brokers.asking_as(who):
        answer = brokers.ask(201, broker_apis.DATA_FETCH, body)
    assert isinstance(answer, FetchResponse)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_client_without_a_certificate_is_rejected(brokers: TlsPythonBrokers) -> None:
    with brokers.asking_as(None):
        assert brokers.metadata(201) is None


def test_broker_can_register_only_the_id_of_its_certificate(
    brokers: TlsPythonBrokers,
) -> None:
    request: BrokerRegistrationRequest = registration(203, cluster_id=brokers.quorum.cluster_id)
    node = brokers.quorum.leader
    api = BROKER_REGISTRATION
    tls = brokers.context_of("broker-201")
    answer = ask((node.host, node.port), api, api.max_version, request, 20.0, tls)
    assert isinstance(answer, BrokerRegistrationResponse)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_group_requests_require_a_right_on_the_group(brokers: TlsPythonBrokers) -> None:
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=(),
    )
    commit = OffsetCommitRequest(group_id="g", member_id="", topics=())
    fetch = OffsetFetchRequest(groups=(FetchedGroup(group_id="g", topics=None),))
    with brokers.asking_as("reader-of-t"):
        found = brokers.ask(201, broker_apis.FIND_COORDINATOR, find)
        assert isinstance(found, FindCoordinatorResponse)
        assert found.coordinators[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        joined = brokers.ask(201, broker_apis.JOIN_GROUP, join)
        assert isinstance(joined, JoinGroupResponse)
        assert joined.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        fetched = brokers.ask(201, broker_apis.OFFSET_FETCH, fetch)
        assert isinstance(fetched, OffsetFetchResponse)
        assert fetched.groups[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        committed = brokers.ask(201, broker_apis.OFFSET_COMMIT, commit)
        assert isinstance(committed, OffsetCommitResponse)
    found = brokers.ask(201, broker_apis.FIND_COORDINATOR, find)
    assert isinstance(found, FindCoordinatorResponse)
    assert found.coordinators[0].error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_acls_are_described_to_principals_with_describe_on_the_cluster(
    brokers: TlsPythonBrokers,
) -> None:
    request = DescribeAclsRequest(
        resource_type_filter=AclResource.TOPIC,
        resource_name_filter="t",
        pattern_type_filter=AclPattern.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=1,
    )

    def principals() -> set[str]:
        found = brokers.ask(201, DESCRIBE_ACLS, request)
        assert isinstance(found, DescribeAclsResponse)
        return {entry.principal for each in found.resources for entry in each.acls}

    wanted = {"User:CN=writer", "User:CN=reader-of-t"}
    wait_until(lambda: principals() == wanted, "the broker knows the entries")
    with brokers.asking_as("stranger"):
        refused = brokers.ask(201, DESCRIBE_ACLS, request)
    assert isinstance(refused, DescribeAclsResponse)
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
