"""FetchSnapshot over the wire and back, and snapshots in the answers to Fetch."""

from dataclasses import replace
from uuid import UUID

import pytest

from quorum_node.protocol.apis import APIS, FETCH_SNAPSHOT
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch_snapshot import (
    NO_CHECKSUM,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.schema.codec import decode, encode
from quorum_node.schema.schema import Message
from quorum_node.server.wire.instant import Instant
from quorum_node.server.wire.partitions import Answer, metadata_partition
from quorum_node.server.wire.rpcs import from_wire
from support.wire import api_of, join, shared_fields, split, to_wire

pytestmark = pytest.mark.requirement("K853-08")

ME = ReplicaKey(1, UUID(int=11))
LEADER = raft.CurrentLeader(2, 7, Endpoint(CONTROLLER, "node-2.local", 9093))
SNAPSHOT = SnapshotId(900, 6)
REQUEST = raft.FetchSnapshotRequest("c", ME, 7, SNAPSHOT, 4096, 1 << 20)


def over_the_wire(message: Message, version: int = 1) -> Message:
    return decode(type(message), version, encode(message, version))


def no_clock() -> Instant:
    raise AssertionError("only DescribeQuorum reports times")


def asked(number: int, version: int = 1) -> FetchSnapshotRequest:
    message = over_the_wire(to_wire([(number, REQUEST)], version), version)
    assert isinstance(message, FetchSnapshotRequest)
    return message


def answered(answer: Answer, number: int = 0, version: int = 1) -> raft.InboundResponse:
    reported = over_the_wire(join(asked(number, version), [answer], no_clock), version)
    (found,) = from_wire(reported, [number])
    return found


def test_fetch_snapshot_is_served_in_the_released_versions() -> None:
    assert APIS[59] is FETCH_SNAPSHOT is api_of(REQUEST)
    assert (FETCH_SNAPSHOT.min_version, FETCH_SNAPSHOT.max_version) == (0, 1)


@pytest.mark.parametrize("number", [0, 3])
def test_request_survives_an_encoding_round_trip(number: int) -> None:
    assert split(asked(number)) == [(metadata_partition(number), REQUEST)]
    ((_, old),) = split(asked(number, version=0))
    assert old == replace(REQUEST, replica=ReplicaKey(1)), "version 0 has no directory ids"
    assert shared_fields(REQUEST) is None, "a part of one snapshot fills an answer"


@pytest.mark.parametrize(
    "answer",
    [
        raft.FetchSnapshotResponse(
            RaftError.NONE, LEADER, SNAPSHOT, 5000, 4096, b"in the middle", 0xFFFFFFFF
        ),
        raft.FetchSnapshotResponse(RaftError.NONE, LEADER, SNAPSHOT, 5000, 4096, b"x"),
        raft.FetchSnapshotResponse(RaftError.SNAPSHOT_NOT_FOUND, LEADER, SNAPSHOT),
        raft.FetchSnapshotResponse(RaftError.POSITION_OUT_OF_RANGE, LEADER, SNAPSHOT),
        raft.FetchSnapshotResponse(RaftError.FENCED_LEADER_EPOCH, LEADER, SNAPSHOT),
        raft.FetchSnapshotResponse(
            RaftError.NOT_QUORUM_LEADER, raft.CurrentLeader(-1, 9), SNAPSHOT
        ),
    ],
)
@pytest.mark.requirement("K595-15")
def test_response_survives_an_encoding_round_trip(answer: raft.FetchSnapshotResponse) -> None:
    assert answered(answer) == answer
    assert answered(answer, number=2) == answer
    bare = replace(answer, leader=replace(answer.leader, endpoint=None))
    assert answered(answer, version=0) == bare, "version 0 has no endpoints"


def test_checksum_of_a_stock_leader_is_empty() -> None:
    part = raft.FetchSnapshotResponse(RaftError.NONE, LEADER, SNAPSHOT, 9, 0, b"x", 5)
    reported = join(asked(0), [part], no_clock)
    assert isinstance(reported, FetchSnapshotResponse)
    (topic,) = reported.topics
    stock = replace(topic.partitions[0], checksum=NO_CHECKSUM)
    body = over_the_wire(replace(reported, topics=(replace(topic, partitions=(stock,)),)))
    (found,) = from_wire(body, [0])
    assert found == replace(part, checksum=None)


def test_unknown_partition_gets_its_own_error() -> None:
    found = answered(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert isinstance(found, raft.FetchSnapshotResponse)
    assert found.error is not RaftError.NONE
    wrong = raft.FetchSnapshotResponse(RaftError.INVALID_CLUSTER_ID, LEADER, SNAPSHOT)
    found = answered(wrong)
    assert isinstance(found, raft.FetchSnapshotResponse)
    assert found.error is RaftError.INVALID_CLUSTER_ID
    assert found.leader.leader_id == raft.NO_LEADER, "a top-level error says nothing more"
    (missing,) = from_wire(over_the_wire(FetchSnapshotResponse(topics=())), [0])
    assert isinstance(missing, raft.FetchSnapshotResponse)
    assert missing.error is RaftError.INVALID_REQUEST


def test_response_size_is_bounded_for_any_request() -> None:
    greedy = replace(asked(0), max_bytes=0x7FFFFFFF)
    ((_, found),) = split(greedy)
    assert isinstance(found, raft.FetchSnapshotRequest)
    assert found.max_bytes == 8 << 20
    ((_, none),) = split(replace(greedy, max_bytes=-5))
    assert isinstance(none, raft.FetchSnapshotRequest)
    assert none.max_bytes == 0


def test_fetch_response_names_a_snapshot_as_stock_kafka_does() -> None:
    """The draft's OFFSET_OUT_OF_RANGE; shipped: no error, and the id of the snapshot."""
    fetch = raft.FetchRequest("c", ME, 7, 40, 6, 500, 1 << 20, 39, 12)
    answer = raft.FetchResponse(
        RaftError.OFFSET_OUT_OF_RANGE, LEADER, 950, 900, answer=4, snapshot_id=SNAPSHOT
    )
    reported = join(to_wire([(0, fetch)], 18), [answer], no_clock)
    body = over_the_wire(reported, 18)
    (found,) = from_wire(body, [0])
    assert found == answer
    part = body.responses[0].partitions[0]  # type: ignore[attr-defined]
    assert part.error_code == 0
    assert (part.snapshot_id.end_offset, part.snapshot_id.epoch) == (900, 6)
    assert part.diverging_epoch.end_offset == -1
