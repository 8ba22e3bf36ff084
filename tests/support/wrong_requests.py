"""Invalid requests, and a controller of either kind that receives them.

Owns the tables: the requests refer to the brokers and the topic that `Controller` registers and creates. The tests check the answers.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

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
from quorum_node.protocol.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    PlacedDirectory,
    PlacedPartition,
    PlacedTopic,
)
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
from quorum_node.protocol.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from quorum_node.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicState
from quorum_node.protocol.describe import DescribeQuorumRequest
from quorum_node.protocol.elect_leaders import ElectLeadersRequest, TopicPartitions
from quorum_node.protocol.envelope import EnvelopeRequest
from quorum_node.protocol.envelope_principal import DefaultPrincipal, encode_principal
from quorum_node.protocol.features import FeatureUpdate, UpdateFeaturesRequest
from quorum_node.protocol.frames import SIZE_BYTES, encode_request
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from quorum_node.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from quorum_node.protocol.scram import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from quorum_node.records.metadata import METADATA_VERSION
from quorum_node.schema.schema import Message
from support.local_quorum import wait_until
from support.one_request import ask

TOPIC, BROKER, GROUP = 2, 4, 32
BATCH_RECORDS = 10_000
"""The maximum number of records of one request at a stock controller."""


class Controller:
    """A controller of either kind with brokers 1 and 2 (which have no processes) and the topics t, on both, and o, on 2."""

    def __init__(self, port: int, cluster_id: str) -> None:
        self.address = ("127.0.0.1", port)
        self.epochs = {broker_id: self._register(broker_id, cluster_id) for broker_id in (1, 2)}
        made = self.ask(CreateTopicsRequest(topics=(topic("t", (1, 2)), topic("o", (2,)))))
        assert isinstance(made, CreateTopicsResponse)
        assert [each.error_code for each in made.topics] == [0, 0], made
        self.topic_ids = {each.name: each.topic_id for each in made.topics}

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
                for name in (*SUPPORTED, "kraft.version")
            ),
            rack=None,
            log_dirs=(directory_of(broker_id),),
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


def oversized(_: Controller) -> Iterator[Message]:
    """More records than one request may make: the whole request is refused, or the part that exceeds the limit."""
    many = BATCH_RECORDS + 1
    for wanted in (
        (topic("m0", partitions=many, factor=1),),
        (topic("m1", *[(1,)] * many),),
        (topic("m2", partitions=BATCH_RECORDS - 9, factor=1), topic("m3", partitions=20, factor=1)),
        (topic("m4", partitions=1 << 30, factor=1),),
        tuple(topic(f"m-{number}", partitions=250, factor=1) for number in range(41)),
        tuple(topic(f"m-{number}", partitions=243, factor=1) for number in range(41)),
        (topic("m5", partitions=BATCH_RECORDS - 1, factor=1), topic("t", partitions=1, factor=1)),
        (topic("m6", partitions=BATCH_RECORDS, factor=1),),
        (topic("m7", partitions=many, factor=1), topic("m7", partitions=1, factor=1)),
    ):
        yield CreateTopicsRequest(topics=wanted, validate_only=True)
    for counts in ((many + 1,), (BATCH_RECORDS - 9, 20)):
        requested = tuple(
            CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in zip(("t", "b.c"), counts, strict=False)
        )
        yield CreatePartitionsRequest(topics=requested, timeout_ms=1000, validate_only=True)
    for operation in (0, 1):
        changes = tuple(
            AlterableConfig(name=f"k{number}", config_operation=operation, value="1")
            for number in range(many)
        )
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=changes)
        yield IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True)
    replaced = tuple(ReplacedConfig(name=f"k{number}", value="1") for number in range(many))
    for size in (many, BATCH_RECORDS):
        whole = ReplacedResource(resource_type=BROKER, resource_name="1", configs=replaced[:size])
        yield AlterConfigsRequest(resources=(whole,), validate_only=True)
    rate = QuotaOperation(key="producer_byte_rate", value=1.0, remove=False)
    entries = tuple(
        AlteredQuotaEntity(
            entity=(QuotaEntityPart(entity_type="user", entity_name=f"u{number}"),), ops=(rate,)
        )
        for number in range(many)
    )
    for size in (many, BATCH_RECORDS):
        yield AlterClientQuotasRequest(entries=entries[:size], validate_only=True)
    # This many credentials are not requested: a stock controller resigns.


def deletions(controller: Controller) -> Iterator[Message]:
    yield DeleteTopicsRequest(
        timeout_ms=1000,
        topics=(
            DeleteTopicState(name="nope"),
            DeleteTopicState(topic_id=UUID(int=5 << 70)),
            DeleteTopicState(),
            DeleteTopicState(name="t", topic_id=controller.topic_ids["t"]),
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
        requested = CreatePartitionsTopic(name=name, count=count, assignments=chosen)
        yield CreatePartitionsRequest(topics=(requested,), timeout_ms=1000, validate_only=True)


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
        requested = (TopicPartitions(topic=name, partitions=(partition_id,)),)
        yield ElectLeadersRequest(election_type=kind, topic_partitions=requested)


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


def directories(controller: Controller) -> Iterator[Message]:
    """By broker 1; at the end its replica of t is in an unknown directory."""
    yield AssignReplicasToDirsRequest(broker_id=1, broker_epoch=12_345, directories=())
    yield AssignReplicasToDirsRequest(broker_id=9, broker_epoch=1, directories=())
    t, o = controller.topic_ids["t"], controller.topic_ids["o"]
    own, of_another = directory_of(1), directory_of(2)
    for directory, topic_id, partition_id in (
        (own, UUID(int=5 << 70), 0), (own, None, 0), (own, t, 9), (own, t, -1), (own, o, 0),
        (None, t, 0), (UUID(int=1), t, 0), (own, t, 0), (of_another, t, 0),
    ):  # fmt: skip
        placed = PlacedTopic(
            topic_id=topic_id, partitions=(PlacedPartition(partition_index=partition_id),)
        )
        yield AssignReplicasToDirsRequest(
            broker_id=1,
            broker_epoch=controller.epochs[1],
            directories=(PlacedDirectory(id=directory, topics=(placed,)),),
        )


def directory_of(broker_id: int) -> UUID:
    """The only directory of a broker."""
    return UUID(int=(9 << 100) + broker_id)


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
    topic_id = given.get("topic_id", controller.topic_ids["t"])
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
        requested = FeatureUpdate(feature=name, max_version_level=level, upgrade_type=way)
        yield UpdateFeaturesRequest(feature_updates=(requested,), validate_only=True)


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
        requested = DescribeConfigsResource(resource_type=kind, resource_name=name)
        yield DescribeConfigsRequest(resources=(requested,))


def identities(_: Controller) -> Iterator[Message]:
    """Requests that need an authenticated caller, on a listener without authentication."""
    yield SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
    yield SaslHandshakeRequest(mechanism="")
    yield SaslAuthenticateRequest(auth_bytes=b"n,,n=a,r=b")
    yield CreateDelegationTokenRequest()
    yield CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="a")
    yield CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="")
    yield CreateDelegationTokenRequest(owner_principal_name="a")
    yield RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=1)
    yield ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=-1)
    yield DescribeDelegationTokenRequest(owners=None)


def envelopes(_: Controller) -> Iterator[Message]:
    """Requests that a broker forwards for a client."""
    wanted = CreateTopicsRequest(topics=(topic("e", partitions=0, factor=1),), validate_only=True)
    alice = encode_principal(DefaultPrincipal(type="User", name="alice", token_authenticated=False))
    here, data = bytes((127, 0, 0, 1)), _frame(wanted)
    for inside, principal, address in (
        (data, alice, here), (data, alice, bytes(16)), (data, alice, b""), (data, alice, bytes(5)),
        (data, b"", here), (data, None, here), (data, alice[:-1], here), (data, b"\0\x09", here),
        (b"", alice, here), (data[:6], alice, here), (data[:-1], alice, here),
        (data[:2] + b"\0\x63" + data[4:], alice, here), (b"\x03\xe8" + data[2:], alice, here),
        (_frame(DescribeQuorumRequest(topics=())), alice, here),
        (_frame(DescribeConfigsRequest(resources=())), alice, here),
        (_frame(EnvelopeRequest(request_data=data, request_principal=alice,
                                client_host_address=here)), alice, here),
    ):  # fmt: skip
        yield EnvelopeRequest(
            request_data=inside, request_principal=principal, client_host_address=address
        )


def passed_on(controller: Controller) -> Iterator[Message]:
    """The same, forwarded for a client that the broker has authenticated."""
    for each in identities(controller):
        yield EnvelopeRequest(
            request_data=_frame(each), request_principal=_ALICE, client_host_address=_LOOPBACK
        )


_ALICE = encode_principal(DefaultPrincipal(type="User", name="alice", token_authenticated=False))
_LOOPBACK = bytes((127, 0, 0, 1))


def _frame(request: Message) -> bytes:
    api = _api_of(request)
    return encode_request(api, api.max_version, 7, "a client", request)[SIZE_BYTES:]


TABLES = (
    topics, oversized, deletions, partitions, configs, elections, isr_changes, reassignments, rights, features,
    quotas, descriptions, identities, envelopes, passed_on, directories,
)  # fmt: skip
