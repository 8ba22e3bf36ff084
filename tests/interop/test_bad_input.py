"""Wrong requests: a stock controller and ours get the same bytes and answer with the same error codes."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any
from uuid import UUID

import pytest

from quorum_node.controller.feature_levels import SUPPORTED
from quorum_node.protocol.acls import AclCreation, CreateAclsRequest
from quorum_node.protocol.alter_configs import (
    AlterConfigsRequest,
    ReplacedConfig,
    ReplacedResource,
)
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    IsrMember,
)
from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import APIS
from quorum_node.protocol.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegisteredListener,
    SupportedFeatureRange,
)
from quorum_node.protocol.client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaEntityPart,
    QuotaOperation,
)
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
)
from quorum_node.protocol.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from quorum_node.protocol.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorum_node.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicState
from quorum_node.protocol.elect_leaders import ElectLeadersRequest, TopicPartitions
from quorum_node.protocol.features import FeatureUpdate, UpdateFeaturesRequest
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from quorum_node.protocol.scram import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from quorum_node.records.metadata import METADATA_VERSION
from quorum_node.schema.schema import Message
from support.java_quorum import JavaQuorum
from support.local_quorum import LocalQuorum, wait_until
from support.one_request import ask

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC, BROKER, GROUP = 2, 4, 32


class Controller:
    """A controller of either kind with brokers 1 and 2 (nobody's processes) and the topic t on them."""

    def __init__(self, port: int, cluster_id: str) -> None:
        self.address = ("127.0.0.1", port)
        self.epochs = {broker_id: self._register(broker_id, cluster_id) for broker_id in (1, 2)}
        made = self.ask(CreateTopicsRequest(topics=(topic("t", (1, 2)),)))
        assert isinstance(made, CreateTopicsResponse)
        assert made.topics[0].error_code == 0, made
        self.topic_id = made.topics[0].topic_id

    def ask(self, request: Message) -> Message:
        """The answer, at the newest version."""
        api = _api_of(request)
        return ask(self.address, api, api.max_version, request, 30.0)

    def _register(self, broker_id: int, cluster_id: str) -> int:
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=cluster_id,
            incarnation_id=UUID(int=(7 << 100) + broker_id),
            listeners=(
                RegisteredListener(name="PLAINTEXT", host="127.0.0.1", port=1, security_protocol=0),
            ),
            features=tuple(
                SupportedFeatureRange(name=name, min_supported_version=0, max_supported_version=100)
                for name in (*SUPPORTED, "eligible.leader.replicas.version", "kraft.version")
            ),
            rack=None,
            log_dirs=(UUID(int=(9 << 100) + broker_id),),
        )
        answer = self.ask(request)
        assert isinstance(answer, BrokerRegistrationResponse)
        assert answer.error_code == 0, answer
        epoch = answer.broker_epoch

        def is_unfenced() -> bool:
            request = BrokerHeartbeatRequest(
                broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=1 << 40,
                want_fence=False, want_shut_down=False,
            )  # fmt: skip
            answer = self.ask(request)
            assert isinstance(answer, BrokerHeartbeatResponse)
            return not answer.is_fenced

        wait_until(is_unfenced, f"broker {broker_id} is unfenced")
        return epoch


def _api_of(request: Message) -> Api:
    return next(api for api in APIS.values() if api.request is type(request))


def topic(name: str, *replicas: tuple[int, ...], **given: Any) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=given.get("first", 0) + i, broker_ids=each)
            for i, each in enumerate(replicas)
        ),
        configs=given.get("configs", ()),
        num_partitions=given.get("partitions", -1),
        replication_factor=given.get("factor", -1),
    )


def config(name: str, value: str | None) -> tuple[CreatableTopicConfig, ...]:
    return (CreatableTopicConfig(name=name, value=value),)


def topics(_: Controller) -> Iterator[Message]:
    wrong = [
        topic("", partitions=1, factor=1),
        topic(".", partitions=1, factor=1),
        topic("x" * 250, partitions=1, factor=1),
        topic("a b", partitions=1, factor=1),
        topic("__cluster_metadata", partitions=1, factor=1),
        topic("t", partitions=1, factor=1),
        topic("n0", partitions=0, factor=1),
        topic("n1", partitions=-2, factor=1),
        topic("r0", partitions=1, factor=0),
        topic("r1", partitions=1, factor=-2),
        topic("r3", partitions=1, factor=3),
        topic("a0", (9,)),
        topic("a1", (1, 1)),
        topic("a2", (1, 2), (1,)),
        topic("a3", (1,), first=1),
        topic("a4", ()),
        topic("a5", (1,), partitions=1),
        topic("a6", (1,), factor=1),
        topic("c0", (1,), configs=config("nope", "1")),
        topic("c1", (1,), configs=config("retention.ms", "soon")),
        topic("c2", (1,), configs=config("retention.ms", None)),
        topic("c3", (1,), configs=config("segment.bytes", "1")),
        topic("c4", (1,), configs=config("cleanup.policy", "burn")),
        topic("c5", (1,), configs=config("min.insync.replicas", "0")),
        topic("c6", (1,), configs=config("compression.type", "xz")),
        topic("c7", (1,), configs=config("remote.storage.enable", "true")),
        topic("twice", partitions=1, factor=1),
        topic("twice", partitions=1, factor=1),
        topic("good", (1, 2), configs=config("retention.ms", "1000")),
    ]
    yield CreateTopicsRequest(topics=tuple(wrong), validate_only=True)
    yield CreateTopicsRequest(topics=(topic("b.c", (1,)),))
    yield CreateTopicsRequest(topics=(topic("b_c", (1,)), topic("b.c", (2,))))


def deletions(controller: Controller) -> Iterator[Message]:
    yield DeleteTopicsRequest(
        timeout_ms=1000,
        topics=(
            DeleteTopicState(name="nope"),
            DeleteTopicState(topic_id=UUID(int=5 << 70)),
            DeleteTopicState(),
            DeleteTopicState(name="t", topic_id=controller.topic_id),
        ),
    )


def partitions(_: Controller) -> Iterator[Message]:
    for name, count, assignments in (
        ("nope", 2, None), ("t", 1, None), ("t", 0, None), ("t", 3, ((1, 2),)), ("t", 2, ((1,),)),
        ("t", 2, ((1, 9),)), ("t", 2, ((1, 1),)), ("t", 2, ((),)), ("t", 2, None),
    ):  # fmt: skip
        chosen = assignments and tuple(
            CreatePartitionsAssignment(broker_ids=a) for a in assignments
        )
        asked = CreatePartitionsTopic(name=name, count=count, assignments=chosen)
        yield CreatePartitionsRequest(topics=(asked,), timeout_ms=1000, validate_only=True)


def configs(_: Controller) -> Iterator[Message]:
    for kind, name, key, operation, value in (
        (TOPIC, "nope", "retention.ms", 0, "1"), (TOPIC, "", "retention.ms", 0, "1"),
        (TOPIC, "a b", "retention.ms", 0, "1"), (TOPIC, "t", "nope", 0, "1"),
        (TOPIC, "t", "retention.ms", 0, "x"), (TOPIC, "t", "retention.ms", 2, "1"),
        (TOPIC, "t", "retention.ms", 0, "1"), (TOPIC, "t", "cleanup.policy", 2, "compact"),
        (BROKER, "9", "a", 0, "1"), (BROKER, "x", "a", 0, "1"), (BROKER, "-1", "a", 0, "1"),
        (BROKER, "", "a", 0, "1"), (BROKER, "1", "a", 0, "1"), (GROUP, "", "a", 0, "1"),
        (7, "x", "a", 0, "1"),
    ):  # fmt: skip
        change = AlterableConfig(name=key, config_operation=operation, value=value)
        yield IncrementalAlterConfigsRequest(
            resources=(
                AlterConfigsResource(resource_type=kind, resource_name=name, configs=(change,)),
            ),
            validate_only=True,
        )
    wrong = ReplacedConfig(name="retention.ms", value="x")
    resource = ReplacedResource(resource_type=TOPIC, resource_name="t", configs=(wrong,))
    yield AlterConfigsRequest(resources=(resource,), validate_only=True)


def elections(_: Controller) -> Iterator[Message]:
    for kind, name, partition_id in ((0, "t", 0), (0, "t", 9), (0, "nope", 0), (1, "t", 0)):
        asked = (TopicPartitions(topic=name, partitions=(partition_id,)),)
        yield ElectLeadersRequest(election_type=kind, topic_partitions=asked)


def isr_changes(controller: Controller) -> Iterator[Message]:
    """By broker 1, which leads t-0 in leader epoch 0 and partition epoch 0."""
    for sender, leader_epoch, partition_epoch, isr, recovery in (
        (1, 1, 0, (1,), 0), (1, 0, 1, (1,), 0), (1, -1, 0, (1,), 0), (1, 0, -1, (1,), 0),
        (2, 0, 0, (1, 2), 0), (1, 0, 0, (2,), 0), (1, 0, 0, (), 0), (1, 0, 0, (1, 1), 0),
        (1, 0, 0, (1, 9), 0), (1, 0, 0, (1,), 1), (1, 0, 0, (1, 2), 0),
    ):  # fmt: skip
        yield _alter(controller, sender, leader_epoch, partition_epoch, isr, recovery)
    yield _alter(controller, 1, 0, 0, (1, 2), 0, broker_epoch=12_345)
    yield _alter(controller, 9, 0, 0, (1, 2), 0, broker_epoch=1)
    yield _alter(controller, 1, 0, 0, (1, 2), 0, seen_epoch=12_345)
    yield _alter(controller, 1, 0, 0, (1, 2), 0, topic_id=UUID(int=5 << 70))
    yield _alter(controller, 1, 0, 0, (1, 2), 0, partition_id=9)
    yield AssignReplicasToDirsRequest(broker_id=1, broker_epoch=12_345, directories=())


def _alter(
    controller: Controller,
    sender: int,
    leader_epoch: int,
    partition_epoch: int,
    isr: tuple[int, ...],
    recovery: int,
    **given: Any,
) -> Message:
    partition = AlteredPartition(
        partition_index=given.get("partition_id", 0),
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        new_isr_with_epochs=tuple(
            IsrMember(broker_id=each, broker_epoch=given.get("seen_epoch", -1)) for each in isr
        ),
        leader_recovery_state=recovery,
    )
    topic_id = given.get("topic_id", controller.topic_id)
    return AlterPartitionRequest(
        broker_id=sender,
        broker_epoch=given.get("broker_epoch", controller.epochs.get(sender, 0)),
        topics=(AlteredTopic(topic_id=topic_id, partitions=(partition,)),),
    )


def reassignments(_: Controller) -> Iterator[Message]:
    for name, partition_id, replicas, factor_may_change in (
        ("nope", 0, (1,), True), ("t", 9, (1,), True), ("t", 0, (), True), ("t", 0, (1, 1), True),
        ("t", 0, (1, 9), True), ("t", 0, None, True), ("t", 0, (-1,), True), ("t", 0, (1,), False),
        ("t", 0, (1, 2), True),
    ):  # fmt: skip
        partition = ReassignablePartition(partition_index=partition_id, replicas=replicas)
        yield AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=factor_may_change,
            topics=(ReassignableTopic(name=name, partitions=(partition,)),),
        )


def rights(_: Controller) -> Iterator[Message]:
    """Without an authorizer; credentials need none."""
    entry = AclCreation(
        resource_type=2, resource_name="t", resource_pattern_type=3, principal="User:a", host="*",
        operation=3, permission_type=3,
    )  # fmt: skip
    yield CreateAclsRequest(creations=(entry,))
    for name, mechanism, iterations in (
        ("a", 1, 4095), ("a", 1, 16_385), ("", 1, 4096), ("a", 3, 4096),
    ):  # fmt: skip
        wrong = ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"s", salted_password=b"p"
        )
        yield AlterUserScramCredentialsRequest(deletions=(), upsertions=(wrong,))
    gone = ScramCredentialDeletion(name="a", mechanism=1)
    yield AlterUserScramCredentialsRequest(deletions=(gone,), upsertions=())
    yield AlterUserScramCredentialsRequest(deletions=(gone, gone), upsertions=())


def features(_: Controller) -> Iterator[Message]:
    for name, level, way in (
        (METADATA_VERSION, 29, 1), (METADATA_VERSION, 29, 2), (METADATA_VERSION, 29, 3),
        (METADATA_VERSION, 6, 2), (METADATA_VERSION, 99, 1), (METADATA_VERSION, -1, 1),
        (METADATA_VERSION, 30, 1), ("nope", 1, 1), ("nope", 0, 2), ("transaction.version", 9, 1),
        ("transaction.version", 1, 1), ("transaction.version", 2, 2), ("transaction.version", 1, 2),
        ("transaction.version", 1, 7),
    ):  # fmt: skip
        asked = FeatureUpdate(feature=name, max_version_level=level, upgrade_type=way)
        yield UpdateFeaturesRequest(feature_updates=(asked,), validate_only=True)


def quotas(_: Controller) -> Iterator[Message]:
    user, client, address = ("user", "a"), ("client-id", "b"), ("ip", "10.0.0.1")
    for parts, key, value in (
        ((), "producer_byte_rate", 1.0), ((user, user), "producer_byte_rate", 1.0),
        ((("group", "a"),), "producer_byte_rate", 1.0), ((("user", ""),), "producer_byte_rate", 1.0),
        ((user, address), "producer_byte_rate", 1.0), ((address,), "producer_byte_rate", 1.0),
        ((("ip", "10.0.0.256"),), "connection_creation_rate", 1.0),
        ((user,), "connection_creation_rate", 1.0), ((user,), "nope", 1.0),
        ((user,), "producer_byte_rate", 0.0), ((user,), "producer_byte_rate", -1.0),
        ((user,), "producer_byte_rate", 1.5), ((address,), "connection_creation_rate", 2.5),
        ((address,), "connection_creation_rate", 3e9), ((user,), "producer_byte_rate", 1e19),
        ((user,), "request_percentage", 0.5), ((user, client), "controller_mutation_rate", 0.5),
        ((("user", None), ("client-id", None)), "consumer_byte_rate", 1024.0),
        ((address,), "connection_creation_rate", 10.0),
    ):  # fmt: skip
        entity = tuple(QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in parts)
        for remove in (False, True):
            operation = QuotaOperation(key=key, value=value, remove=remove)
            entry = AlteredQuotaEntity(entity=entity, ops=(operation,))
            yield AlterClientQuotasRequest(entries=(entry,), validate_only=False)


def descriptions(_: Controller) -> Iterator[Message]:
    for kind, name in (
        (TOPIC, "nope"), (TOPIC, ""), (TOPIC, "a b"), (BROKER, "77"), (BROKER, "x"), (GROUP, ""),
        (16, ""), (7, "x"),
    ):  # fmt: skip
        asked = DescribeConfigsResource(resource_type=kind, resource_name=name)
        yield DescribeConfigsRequest(resources=(asked,))


TABLES = (
    topics, deletions, partitions, configs, elections, isr_changes, reassignments, rights, features,
    quotas,
    descriptions,
)  # fmt: skip


def codes(message: Message) -> list[tuple[str, int]]:
    """Every error code with what it is about, in any order."""
    found: list[tuple[str, int]] = []

    def look(part: Any, about: str) -> None:
        if isinstance(part, tuple):
            for each in part:
                look(each, about)
        elif isinstance(part, Message):
            names = {field.name: getattr(part, field.name) for field in fields(part)}
            known = [str(names[key]) for key in _NAMING if names.get(key) is not None]
            about = "/".join([about, *known])
            if "error_code" in names:
                found.append((about, int(names["error_code"])))
            for value in names.values():
                look(value, about)

    look(message, "")
    return sorted(found)


_NAMING = (
    "name",
    "topic",
    "user",
    "resource_type",
    "resource_name",
    "partition_index",
    "partition_id",
)


Both = tuple[Controller, Controller]

STATIC = {
    "log_retention_hours": "48",
    "log_roll_ms": "3600000",
    "log_segment_bytes": "2097152",
    "log_cleanup_policy": "compact,delete",
    "message_max_bytes": "2000000",
    "unclean_leader_election_enable": "true",
}
"""Properties of both controllers: brokers' names of topic configs."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A stock controller and ours."""
    root = tmp_path_factory.mktemp("both")
    options = {"broker_session_timeout_ms": "600000", **STATIC}
    with (
        JavaQuorum(root / "stock", **options) as java,
        LocalQuorum(root / "ours", 1, **options) as quorum,
    ):
        java.start()
        quorum.form()
        java.describe()
        yield (
            Controller(java.leader.port, java.cluster_id),
            Controller(quorum.leader.port, quorum.cluster_id),
        )


@pytest.mark.requirement("KV3-03", "KV3-04", "KV3-05")
def test_wrong_requests_get_the_same_codes_from_a_stock_controller(both: Both) -> None:
    stock, ours = both
    differences = []
    for table in TABLES:
        for theirs, mine in zip(table(stock), table(ours), strict=True):
            expected, got = codes(stock.ask(theirs)), codes(ours.ask(mine))
            if expected != got:
                differences.append(f"{theirs}\n  stock {expected}\n  ours  {got}")
    assert not differences, "\n".join(differences)


def test_configs_are_described_as_by_a_stock_controller(both: Both) -> None:
    """Values, sources, synonyms and types, of a new topic and of those that there are."""
    # With eligible.leader.replicas.version=1 a stock controller does that by itself.
    set_for_all_brokers(both, "min.insync.replicas", "1")
    own = config("retention.ms", "1000") + config("preallocate", "TRUE")
    made = CreateTopicsRequest(topics=(topic("described", (1, 2), configs=own),))
    answers = [controller.ask(made) for controller in both]
    for answer in answers:
        assert isinstance(answer, CreateTopicsResponse)
    stock, ours = [configs_of(each.topics[0].configs) for each in answers]
    assert ours == stock
    for name, value in (("log.roll.hours", "5"), ("compression.type", "zstd")):
        set_for_all_brokers(both, name, value)
    for kind, name in ((TOPIC, "described"), (TOPIC, "t"), (BROKER, "")):
        for synonyms in (True, False):
            asked = DescribeConfigsResource(resource_type=kind, resource_name=name)
            request = DescribeConfigsRequest(resources=(asked,), include_synonyms=synonyms)
            stock, ours = wait_until(lambda request=request: settled(both, request), "described")
            assert ours == stock, f"{kind} {name}"


def set_for_all_brokers(both: Both, name: str, value: str) -> None:
    change = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=(change,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    for controller in both:
        assert [code for _, code in codes(controller.ask(request))] == [0]


def settled(both: Both, request: DescribeConfigsRequest) -> list[dict[str, Any]] | None:
    """What both tell; None as long as stock Kafka has not taken over the latest change."""
    found = []
    for controller in both:
        answer = controller.ask(request)
        assert isinstance(answer, DescribeConfigsResponse)
        assert answer.results[0].error_code == 0, answer
        found.append(configs_of(answer.results[0].configs))
    behind = found[0] != found[1] and found[0].get("compression.type") != found[1].get(
        "compression.type"
    )
    return None if behind else found


def configs_of(described: Any) -> dict[str, Any]:
    """By name; the order of a stock controller is that of a hash map."""
    return {each.name: each for each in described}
