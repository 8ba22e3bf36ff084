"""Errors as the draft names them, where stock Kafka's APIs know no such name; and who leads, in every answer."""

from uuid import UUID

import pytest

from quorum_node.protocol import describe
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterResponse,
)
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.schema.codec import decode, encode
from quorum_node.schema.schema import Message
from quorum_node.server.wire.instant import Instant
from quorum_node.server.wire.rpcs import from_wire
from support.wire import api_of, join, to_wire

ME, OTHER = ReplicaKey(1, UUID(int=11)), ReplicaKey(2, UUID(int=22))
HERE = Endpoint(CONTROLLER, "node-1.local", 9093)
LEADER = raft.CurrentLeader(2, 7, Endpoint(CONTROLLER, "node-2.local", 9093))
DRAFT = {
    RaftError.NOT_QUORUM_LEADER: (ErrorCode.NOT_QUORUM_LEADER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    RaftError.INVALID_QUORUM_STATE: (ErrorCode.INVALID_QUORUM_STATE, ErrorCode.INVALID_REQUEST),
    RaftError.NOT_FOLLOWER: (ErrorCode.NOT_FOLLOWER, ErrorCode.NONE),
}
"""Outcome: the draft's code, and the shipped one."""
CHANGES: list[Message] = [
    AddRaftVoterRequest(timeout_ms=1, voter_id=2, voter_directory_id=None, listeners=()),
    RemoveRaftVoterRequest(voter_id=2, voter_directory_id=None),
    to_wire([(0, raft.UpdateVoterRequest("c", ME, (HERE,), 30_000, 8))], 0),
]


def no_clock() -> Instant:
    raise AssertionError("only DescribeQuorum reports times")


def received(request: raft.OutboundRequest, answer: raft.Response) -> raft.InboundResponse:
    version = api_of(request).max_version
    body = join(to_wire([(0, request)], version), [answer], no_clock)
    (found,) = from_wire(decode(type(body), version, encode(body, version)), [0])
    return found


@pytest.mark.requirement("K595-14", "K595-15")
@pytest.mark.parametrize("error", DRAFT)
def test_replicas_of_this_project_get_the_error_name_of_the_draft(error: RaftError) -> None:
    pairs: list[tuple[raft.OutboundRequest, raft.Response]] = [
        (raft.FetchRequest("c", ME, 7, 40, 6), raft.FetchResponse(error, LEADER)),
        (raft.VoteRequest("c", ME, 8, 6, 40, OTHER), raft.VoteResponse(error, LEADER)),
        (
            raft.BeginQuorumEpochRequest("c", 1, 8, OTHER, HERE),
            raft.BeginQuorumEpochResponse(error, LEADER),
        ),
        (
            raft.EndQuorumEpochRequest("c", 1, 8, (OTHER,), HERE),
            raft.EndQuorumEpochResponse(error, LEADER),
        ),
        (raft.ReadOffsetRequest("c"), raft.ReadOffsetResponse(error, LEADER)),
    ]
    for request, answer in pairs:
        assert received(request, answer) == answer


@pytest.mark.requirement("K595-14")
@pytest.mark.parametrize("error", DRAFT)
def test_private_api_returns_the_error_code_of_the_draft(error: RaftError) -> None:
    request = to_wire([(0, raft.ReadOffsetRequest("c"))], 0)
    body = join(request, [raft.ReadOffsetResponse(error, LEADER)], no_clock)
    code = body.topics[0].partitions[0].error_code  # type: ignore[attr-defined]
    assert code == DRAFT[error][0]
    refused = join(
        request, [raft.ReadOffsetResponse(RaftError.INVALID_CLUSTER_ID, LEADER)], no_clock
    )
    assert refused.error_code == ErrorCode.INVALID_CLUSTER_ID  # type: ignore[attr-defined]


@pytest.mark.requirement("K595-14")
@pytest.mark.parametrize("error", DRAFT)
def test_stock_replicas_get_a_known_error_code(error: RaftError) -> None:
    request = to_wire([(0, raft.BeginQuorumEpochRequest("c", 1, 8, OTHER, HERE))], 1)
    body = join(request, [raft.BeginQuorumEpochResponse(error, LEADER)], no_clock)
    part = body.topics[0].partitions[0]  # type: ignore[attr-defined]
    assert (part.error_code, part.draft_error) == (DRAFT[error][1], DRAFT[error][0])


@pytest.mark.requirement("K595-15")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("error", [RaftError.NONE, RaftError.NOT_QUORUM_LEADER])
def test_voter_change_responses_name_the_leader(change: Message, error: RaftError) -> None:
    body = join(change, [raft.VoterChangeResponse(error, LEADER)], no_clock)
    body = decode(type(body), 0, encode(body, 0))
    assert isinstance(
        body, AddRaftVoterResponse | RemoveRaftVoterResponse | UpdateRaftVoterResponse
    )
    reported = body.current_leader
    assert (reported.leader_id, reported.leader_epoch, reported.host, reported.port) == (
        2,
        7,
        "node-2.local",
        9093,
    )


@pytest.mark.requirement("K595-15")
def test_joining_replica_gets_another_leader_in_the_response() -> None:
    request = raft.AddVoterRequest("c", ME, (HERE,), 2000, ack_when_committed=False)
    answer = raft.VoterChangeResponse(RaftError.NOT_QUORUM_LEADER, LEADER, "ask 2")
    assert received(request, answer) == answer


@pytest.mark.requirement("K595-15")
def test_other_api_responses_name_the_leader() -> None:
    """DescribeQuorum and DiscoverBrokers, of a replica that does not lead."""
    partition = describe.DescribeQuorumRequestPartition(partition_index=0)
    topic = describe.DescribeQuorumRequestTopic(
        topic_name="__cluster_metadata", partitions=(partition,)
    )
    answer = raft.DescribeQuorumResponse(RaftError.NOT_QUORUM_LEADER, LEADER)
    body = join(describe.DescribeQuorumRequest(topics=(topic,)), [answer], lambda: Instant(0, 0))
    assert isinstance(body, describe.DescribeQuorumResponse)
    body = decode(type(body), 2, encode(body, 2))
    part = body.topics[0].partitions[0]
    assert (part.leader_id, part.leader_epoch) == (2, 7)
    request = raft.DiscoverBrokersRequest(ME, 5, HERE)
    discovered = raft.DiscoverBrokersResponse(RaftError.NONE, LEADER, "c")
    assert received(request, discovered) == discovered
