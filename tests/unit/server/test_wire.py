"""The core's messages over the wire and back: nothing is lost in any version that carries it."""

from dataclasses import replace
from uuid import UUID

import pytest

from quorum_node.protocol.api import Api
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import ANSWER_UNSUPPORTED, FetchRequest, FetchResponse
from quorum_node.protocol.voters import (
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.schema.codec import decode, encode
from quorum_node.schema.schema import Message
from quorum_node.server.wire.errors import controller_error, raft_error, wire_error
from quorum_node.server.wire.instant import Instant
from quorum_node.server.wire.partitions import METADATA_PARTITION, Answer, metadata_partition
from quorum_node.server.wire.rpcs import from_wire
from support.wire import api_of, can_carry, join, split, to_wire

ME = ReplicaKey(1, UUID(int=11))
OTHER = ReplicaKey(2, UUID(int=22))
HERE = Endpoint(CONTROLLER, "node-1.local", 9093)
LEADER = raft.CurrentLeader(2, 7, Endpoint(CONTROLLER, "node-2.local", 9093))

REQUESTS: list[raft.OutboundRequest] = [
    raft.FetchRequest("c", ME, 7, 40, 6, 500, 1 << 20, 39, 12),
    raft.VoteRequest("c", ME, 8, 6, 40, OTHER, False),
    raft.VoteRequest(None, ME, 8, 6, 40, OTHER, True),
    raft.BeginQuorumEpochRequest("c", 1, 8, OTHER, HERE),
    raft.EndQuorumEpochRequest("c", 1, 8, (OTHER, ReplicaKey(3, UUID(int=33))), HERE),
    raft.UpdateVoterRequest("c", ME, (HERE,), 30_000, 8),
    raft.FetchRequest("c", ME, 7, 40, 6, 500, 1 << 20, 39, -1, True),
    raft.ReadOffsetRequest("c", 1_700_000_000_000),
    raft.ReadOffsetRequest(None, -1, stale=True),
    raft.AddVoterRequest("c", ME, (HERE,), 2000, ack_when_committed=False),
    raft.VoteRequest("c", ME, 8, 6, 40, OTHER, recovered_epoch=0),
    raft.VoteRequest("c", ME, 8, 6, 40, OTHER, recovered_epoch=65_537),
    raft.BeginQuorumEpochRequest("c", 1, 8, OTHER, HERE, 65_537),
]


@pytest.mark.requirement("K650-02")
def test_older_version_cannot_encode_a_pre_vote_or_automatic_join() -> None:
    vote, pre_vote, join = REQUESTS[1], REQUESTS[2], REQUESTS[9]
    assert [can_carry([(0, vote)], version) for version in (0, 1, 2)] == [True] * 3
    assert [can_carry([(0, pre_vote)], version) for version in (0, 1, 2)] == [False, False, True]
    assert [can_carry([(0, join)], version) for version in (0, 1)] == [False, True]


def test_compare_and_set_and_add_first_are_encoded() -> None:
    expected = raft.VotersPosition(5, 2)
    add = AddRaftVoterRequest(
        timeout_ms=9, voter_id=1, voter_directory_id=ME.uuid, listeners=(), count_newcomer=True,
        expected_offset=5, expected_epoch=2,
    )  # fmt: skip
    (found,) = split(over_the_wire(add, 1))
    assert isinstance(found[1], raft.AddVoterRequest)
    assert (found[1].count_newcomer, found[1].expected) == (True, expected)
    remove = RemoveRaftVoterRequest(
        voter_id=1, voter_directory_id=ME.uuid, expected_offset=5, expected_epoch=2
    )
    (found,) = split(over_the_wire(remove, 0))
    assert isinstance(found[1], raft.RemoveVoterRequest)
    assert found[1].expected == expected
    moved = raft.UpdateVoterRequest("c", ME, (HERE,), 30_000, 8)
    message = to_wire([(2, moved)], 0)
    assert isinstance(message, UpdateRaftVoterRequest)
    update = replace(message, expected_offset=5, expected_epoch=2)
    (found,) = split(over_the_wire(update, 0))
    assert found[0].number == 2
    assert isinstance(found[1], raft.UpdateVoterRequest)
    assert found[1].expected == expected


def over_the_wire(message: Message, version: int) -> Message:
    return decode(type(message), version, encode(message, version))


def answer_over_the_wire(message: Message, version: int) -> raft.InboundResponse:
    (answer,) = from_wire(over_the_wire(message, version), [0])
    return answer


def no_clock() -> Instant:
    raise AssertionError("only DescribeQuorum reports times")


@pytest.mark.parametrize("request_", REQUESTS)
def test_request_survives_an_encoding_round_trip(request_: raft.OutboundRequest) -> None:
    version = api_of(request_).max_version
    found = split(over_the_wire(to_wire([(0, request_)], version), version))
    assert found == [(METADATA_PARTITION, request_)]


@pytest.mark.parametrize("version", range(12, 19))
def test_fetch_is_encoded_in_every_version(version: int) -> None:
    sent = raft.FetchRequest("c", ME, 7, 40, 6, 500, 1 << 20, 39, 12)
    key, found = split(over_the_wire(to_wire([(0, sent)], version), version))[0]
    assert key == METADATA_PARTITION
    expected = replace(
        sent,
        replica=ME if version >= 17 else ReplicaKey(1),
        high_watermark=39 if version >= 18 else -1,
    )
    assert found == expected


FETCH_ANSWERS = [
    raft.FetchResponse(RaftError.NONE, LEADER, 40, 0, records=b"batches", answer=3),
    raft.FetchResponse(RaftError.NONE, LEADER, 40, 0),
    raft.FetchResponse(
        RaftError.NONE, LEADER, 40, 0, records=b"batches", keeping_up=raft.KeepingUp(120, 33)
    ),
    raft.FetchResponse(
        RaftError.OFFSET_OUT_OF_RANGE, LEADER, 40, 0, raft.DivergingEpoch(5, 33), answer=4
    ),
    raft.FetchResponse(RaftError.FENCED_LEADER_EPOCH, LEADER),
    raft.FetchResponse(RaftError.UNKNOWN_LEADER_EPOCH, LEADER),
    raft.FetchResponse(RaftError.NOT_QUORUM_LEADER, raft.CurrentLeader(-1, 9)),
]


def fetch_answer_over_the_wire(answer: Answer, version: int = 18) -> raft.InboundResponse:
    request = to_wire([(0, REQUESTS[0])], version)
    return answer_over_the_wire(join(request, [answer], no_clock), version)


@pytest.mark.parametrize("answer", FETCH_ANSWERS)
@pytest.mark.requirement("K595-15")
def test_fetch_response_survives_an_encoding_round_trip(answer: raft.FetchResponse) -> None:
    assert fetch_answer_over_the_wire(answer) == answer


def test_fetch_of_stock_kafka_has_no_round_field() -> None:
    """This software always sends it, also before its first answer: that is how a leader distinguishes them."""
    sent = raft.FetchRequest("c", ME, 7, 40, 6, answer=-1)
    message = to_wire([(0, sent)], 18)
    assert isinstance(message, FetchRequest)
    (topic,) = message.topics
    stock = replace(
        topic.partitions[0], answer=ANSWER_UNSUPPORTED
    )  # the default, which is not encoded
    plain = replace(message, topics=(replace(topic, partitions=(stock,)),))
    assert len(encode(plain, 18)) < len(encode(message, 18))
    for body, answer in ((message, -1), (plain, raft.STOCK_SENDER)):
        ((_, found),) = split(over_the_wire(body, 18))
        assert isinstance(found, raft.FetchRequest)
        assert found.answer == answer


@pytest.mark.requirement("K595-14", "K595-25")
def test_removed_voter_gets_data_and_no_error() -> None:
    """Draft: NOT_FOLLOWER. Shipped: the data holds the voters record that removed it."""
    answer = raft.FetchResponse(RaftError.NOT_FOLLOWER, LEADER, 40, 0, records=b"batches")
    assert fetch_answer_over_the_wire(answer) == answer
    body = join(to_wire([(0, REQUESTS[0])], 18), [answer], no_clock)
    assert isinstance(body, FetchResponse)
    (topic,) = body.responses
    assert (topic.partitions[0].error_code, body.error_code) == (0, 0)
    assert topic.partitions[0].draft_error == ErrorCode.NOT_FOLLOWER


def test_wrong_cluster_id_is_a_top_level_error() -> None:
    answer = raft.FetchResponse(RaftError.INVALID_CLUSTER_ID, LEADER)
    request = to_wire([(0, REQUESTS[0])], 18)
    body = join(request, [answer], no_clock)
    assert isinstance(body, FetchResponse)
    assert body.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    found = fetch_answer_over_the_wire(answer)
    assert isinstance(found, raft.FetchResponse)
    assert found.error is RaftError.INVALID_CLUSTER_ID


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (REQUESTS[1], raft.VoteResponse(RaftError.NONE, LEADER, True)),
        (REQUESTS[1], raft.VoteResponse(RaftError.FENCED_LEADER_EPOCH, LEADER, False)),
        (REQUESTS[3], raft.BeginQuorumEpochResponse(RaftError.NONE, LEADER)),
        (REQUESTS[4], raft.EndQuorumEpochResponse(RaftError.INCONSISTENT_VOTER_SET, LEADER)),
    ],
)
@pytest.mark.requirement("K595-15", "K595-14")
def test_epoch_responses_contain_leader_epoch_and_endpoint(
    request_: raft.OutboundRequest, answer: raft.Response
) -> None:
    api: Api = api_of(request_)
    body = join(to_wire([(0, request_)], api.max_version), [answer], no_clock)
    assert answer_over_the_wire(body, api.max_version) == answer
    oldest = answer_over_the_wire(body, 0)
    assert oldest.leader == replace(LEADER, endpoint=None)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "answer",
    [
        raft.ReadOffsetResponse(RaftError.NONE, LEADER, 41),
        raft.ReadOffsetResponse(RaftError.NONE, LEADER, 41, age_ms=12),
        raft.ReadOffsetResponse(RaftError.NOT_QUORUM_LEADER, LEADER),
        raft.ReadOffsetResponse(RaftError.NOT_QUORUM_LEADER, raft.CurrentLeader(-1, 9)),
    ],
)
@pytest.mark.requirement("K650-03", "K595-15")
def test_read_offset_response_survives_an_encoding_round_trip(
    answer: raft.ReadOffsetResponse,
) -> None:
    request = to_wire([(0, raft.ReadOffsetRequest("c", 5))], 0)
    assert answer_over_the_wire(join(request, [answer], no_clock), 0) == answer


@pytest.mark.requirement("K650-03")
def test_read_offset_without_private_fields_equals_the_draft() -> None:
    """Cluster id, topics with name and partitions, index and applied offset: nothing else."""
    request = to_wire([(3, raft.ReadOffsetRequest("c", 5))], 0)
    answer = raft.ReadOffsetResponse(RaftError.NONE, raft.CurrentLeader(-1, -1), 41)
    drafts = b"\x02c\x02\x13__cluster_metadata\x02\0\0\0\x03%s\0\0\0"
    assert encode(join(request, [answer], no_clock), 0) == drafts % (41).to_bytes(8, "big")


def test_read_offset_without_the_partition_is_no_offset() -> None:
    request = to_wire([(1, raft.ReadOffsetRequest("c", 5))], 0)
    body = join(request, [raft.ReadOffsetResponse(RaftError.NONE, LEADER, 41)], no_clock)
    found = answer_over_the_wire(body, 0)
    assert isinstance(found, raft.ReadOffsetResponse)
    assert (found.error, found.offset) == (RaftError.INVALID_REQUEST, -1)


def test_every_outcome_has_an_error_code_and_no_rejection_equals_success() -> None:
    for error in RaftError:
        code = wire_error(error)
        silent = error in (RaftError.NONE, RaftError.NOT_FOLLOWER)
        assert (code is ErrorCode.NONE) == silent
    for code_number in range(-1, 200):
        assert (raft_error(code_number) is RaftError.NONE) == (code_number == 0)


@pytest.mark.requirement("KV3-06")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RaftError.LEADERSHIP_LOST, ErrorCode.NOT_CONTROLLER),
        (RaftError.STORAGE_FAILED, ErrorCode.NOT_CONTROLLER),
        # This one stays leader, so that repeated queries reach it again
        (RaftError.DISK_LOW, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_clients_retry_at_the_next_controller_if_another_can_answer(
    error: RaftError, code: ErrorCode
) -> None:
    assert controller_error(error) is code


@pytest.mark.requirement("K595-31")
@pytest.mark.parametrize("partition", [0, 3])
def test_voter_change_contains_its_partition(partition: int) -> None:
    """Kafka's messages have no place for it: a private tagged field, absent for the first."""
    changes: list[Message] = [
        AddRaftVoterRequest(
            timeout_ms=1, voter_id=2, voter_directory_id=None, listeners=(), partition=partition
        ),
        RemoveRaftVoterRequest(voter_id=2, voter_directory_id=None, partition=partition),
        to_wire([(partition, raft.UpdateVoterRequest("c", ME, (HERE,), 30_000, 8))], 0),
    ]
    for change in changes:
        ((key, _),) = split(over_the_wire(change, 0))
        assert key == metadata_partition(partition)
        body = join(change, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], no_clock)
        assert body.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # type: ignore[attr-defined]
