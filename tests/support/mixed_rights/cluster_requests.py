"""Requests about the cluster, producer ids, transactions and log directories, and requests that a broker forwards."""

from collections.abc import Iterator

from quorum_node.protocol import broker_apis
from quorum_node.protocol.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from quorum_node.protocol.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorum_node.protocol.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from quorum_node.protocol.create_topics import CreatableTopic, CreateTopicsRequest
from quorum_node.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicState
from quorum_node.protocol.describe import DescribeClusterRequest
from quorum_node.protocol.describe_client_quotas import DescribeClientQuotasRequest
from quorum_node.protocol.describe_log_dirs import DescribeLogDirsRequest
from quorum_node.protocol.describe_transactions import DescribeTransactionsRequest
from quorum_node.protocol.elect_leaders import ElectLeadersRequest, TopicPartitions
from quorum_node.protocol.init_producer_id import InitProducerIdRequest
from quorum_node.protocol.list_transactions import ListTransactionsRequest
from quorum_node.protocol.reassignments import ListedTopic, ListPartitionReassignmentsRequest
from quorum_node.protocol.scram import DescribeUserScramCredentialsRequest
from quorum_node.protocol.write_txn_markers import (
    MarkedTopic,
    TransactionMarker,
    WriteTxnMarkersRequest,
)
from support.mixed_rights.items import EXISTING, NAMES, UNKNOWN_ID, Case, Ids, fixed

_APIS = broker_apis.BROKER_APIS


def cluster() -> Iterator[Case]:
    """DescribeCluster, DescribeAcls, DescribeClientQuotas, DescribeUserScramCredentials and those about log directories."""
    for asks in (False, True):
        body = DescribeClusterRequest(include_cluster_authorized_operations=asks)
        yield from fixed(_APIS[60], (0, 2), body)
    acls = DescribeAclsRequest(
        resource_type_filter=2,
        resource_name_filter="unnamed",
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    yield from fixed(_APIS[29], (1, 3), acls)
    quotas = DescribeClientQuotasRequest(components=(), strict=False)
    yield from fixed(_APIS[48], (0, 1), quotas)
    scram = DescribeUserScramCredentialsRequest(users=())
    yield from fixed(_APIS[50], (0,), scram)
    moved = AlterReplicaLogDirsRequest(
        dirs=(
            AlterReplicaLogDir(
                path="/none",
                topics=tuple(
                    AlterReplicaLogDirTopic(name=each, partitions=(0, 1)) for each in NAMES
                ),
            ),
        )
    )
    yield from fixed(_APIS[34], (1, 2), moved)
    yield from fixed(_APIS[35], (1, 4), DescribeLogDirsRequest(topics=()))
    listed = tuple(ListedTopic(name=each, partition_indexes=(0,)) for each in NAMES)
    yield from fixed(
        _APIS[46], (0,), ListPartitionReassignmentsRequest(timeout_ms=5_000, topics=listed)
    )


def producers() -> Iterator[Case]:
    """InitProducerId, and requests about transactions."""
    for name in (None, "other"):
        body = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        yield from fixed(_APIS[22], (0, 5), body)
    described = DescribeTransactionsRequest(transactional_ids=("other", "none"))
    yield from fixed(_APIS[65], (0,), described)
    yield from fixed(_APIS[66], (0, 2), ListTransactionsRequest())
    marker = TransactionMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=False,
        topics=tuple(MarkedTopic(name=each, partition_indexes=(0, 9)) for each in ("none",)),
        coordinator_epoch=0,
    )
    yield from fixed(_APIS[27], (1,), WriteTxnMarkersRequest(markers=(marker,)))


def forwarded() -> Iterator[Case]:
    """Requests that the active controller decides, for the client's principal. None of them changes anything."""
    created = CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(
                name=each, num_partitions=1, replication_factor=1, assignments=(), configs=()
            )
            for each in NAMES
        ),
        timeout_ms=5_000,
        validate_only=True,
    )
    yield from fixed(_APIS[19], (2, 7), created)
    named = DeleteTopicsRequest(topic_names=("none", "mine-none"), timeout_ms=5_000)
    yield from fixed(_APIS[20], (1, 5), named)

    def by_id(ids: Ids) -> DeleteTopicsRequest:
        wanted = (DeleteTopicState(name=None, topic_id=UNKNOWN_ID), DeleteTopicState(name="none"))
        return DeleteTopicsRequest(topics=wanted, timeout_ms=5_000)

    yield _APIS[20], 6, by_id
    grown = CreatePartitionsRequest(
        topics=tuple(CreatePartitionsTopic(name=each, count=3, assignments=None) for each in NAMES),
        timeout_ms=5_000,
        validate_only=True,
    )
    yield from fixed(_APIS[37], (0, 3), grown)
    change = (AlterableConfig(name="retention.ms", config_operation=0, value="1000"),)
    altered = IncrementalAlterConfigsRequest(
        resources=tuple(
            AlterConfigsResource(resource_type=kind, resource_name=name, configs=change)
            for kind, name in (*((2, each) for each in NAMES), (4, ""), (16, "x"))
        ),
        validate_only=True,
    )
    yield from fixed(_APIS[44], (0, 1), altered)
    entry = AclCreation(
        resource_type=2,
        resource_name="",
        resource_pattern_type=3,
        principal="User:x",
        host="*",
        operation=3,
        permission_type=3,
    )
    yield from fixed(_APIS[30], (2, 3), CreateAclsRequest(creations=(entry,)))
    absent = DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter="unnamed",
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    yield from fixed(_APIS[31], (2, 3), DeleteAclsRequest(filters=(absent,)))
    elected = tuple(TopicPartitions(topic=each, partitions=(0,)) for each in EXISTING)
    body = ElectLeadersRequest(election_type=0, topic_partitions=elected, timeout_ms=5_000)
    yield from fixed(_APIS[43], (0, 2), body)
