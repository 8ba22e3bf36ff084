"""Answers of a transaction coordinator, as a producer gets them (broker/transaction_verification.py).

The codes are those of a stock broker (`AddPartitionsToTxnManager`, `ReplicaManager.handleProduceAppend`).
"""

import pytest

from quorum_node.broker.batch import Batch
from quorum_node.controller.topics import create_topics
from quorum_node.protocol.add_partitions_to_txn import (
    AddedPartitionResult,
    AddedTopicResult,
    AddedTransactionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.events import FailureReason
from quorum_node.records.identity import Endpoint
from quorum_node.server.broker.transaction_coordinators import TransactionCoordinators
from quorum_node.server.broker.transaction_verification import TransactionVerification
from support.controlled_cluster import ControlledCluster, assigned
from support.data_batches import data_batch
from support.hosted_replicas import SilentPeers

ME, STOCK = 201, 101
FENCED, ABORTABLE = 90, 120
OLD, KNOWS, ADDS = (False, False), (False, True), (True, True)
"""Whether the leader adds the partition, and whether the producer knows TRANSACTION_ABORTABLE: Produce 10, 11 and 12."""


def verified(
    outcome: AddPartitionsToTxnResponse | FailureReason, adds: bool, knows_abortable: bool
) -> int:
    """The code for the producer."""
    cluster, peers = ControlledCluster((ME, STOCK)), SilentPeers()
    topic = assigned("__transaction_state", (STOCK,))
    cluster.ask(create_topics, CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    coordinators = TransactionCoordinators(
        ME,
        lambda: cluster.image,
        lambda broker_id: Endpoint("P", f"b{broker_id}", 9092),
        peers,
    )
    batch: Batch = data_batch(0)._replace(producer_id=7, producer_epoch=3, is_transactional=True)
    codes: list[int] = []
    TransactionVerification(coordinators, peers).verify(
        "x", batch, "t", 0, codes.append, adds=adds, knows_abortable=knows_abortable
    )
    ((request, done),) = peers.asked
    assert isinstance(request, AddPartitionsToTxnRequest)
    assert request.transactions[0].verify_only is not adds
    done(outcome)
    (code,) = codes
    return code


def of_partition(code: int) -> AddPartitionsToTxnResponse:
    result = AddedPartitionResult(partition_index=0, partition_error_code=code)
    topic = AddedTopicResult(name="t", results_by_partition=(result,))
    transaction = AddedTransactionResult(transactional_id="x", topic_results=(topic,))
    return AddPartitionsToTxnResponse(error_code=0, results_by_transaction=(transaction,))


@pytest.mark.parametrize("how", [OLD, KNOWS, ADDS])
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NONE, ErrorCode.NONE),
        (FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_error_of_the_partition(how: tuple[bool, bool], code: int, expected: int) -> None:
    assert verified(of_partition(code), *how) == expected


@pytest.mark.parametrize(
    ("how", "abortable", "concurrent"),
    [
        (OLD, ErrorCode.INVALID_TXN_STATE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (KNOWS, ABORTABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ADDS, ABORTABLE, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_producer_gets_errors_that_its_version_knows(
    how: tuple[bool, bool], abortable: int, concurrent: int
) -> None:
    assert verified(of_partition(ABORTABLE), *how) == abortable
    assert verified(of_partition(ErrorCode.CONCURRENT_TRANSACTIONS), *how) == concurrent


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_error_of_the_request(code: int, expected: int) -> None:
    outcome = AddPartitionsToTxnResponse(error_code=code, results_by_transaction=())
    assert verified(outcome, *ADDS) == expected


def test_request_without_answer_is_to_be_repeated() -> None:
    assert verified(FailureReason.CLOSED, *ADDS) == ErrorCode.NOT_ENOUGH_REPLICAS
