"""The last recovery in requests of peers. A Fetch and its answer omit it while there was none."""

from dataclasses import replace

import pytest

from quorum_node.protocol.elections import BeginQuorumEpochResponse, VoteResponse
from quorum_node.protocol.fetch import FetchRequest, FetchResponse
from quorum_node.raft import messages as raft
from quorum_node.raft.errors import RaftError
from quorum_node.schema.codec import decode, encode
from quorum_node.server.wire.epochs import BEGIN_QUORUM_EPOCH
from quorum_node.server.wire.fetch import FETCH
from quorum_node.server.wire.instant import Instant
from quorum_node.server.wire.vote import VOTE
from support.raft.cores import CLUSTER_ID, key_of

pytestmark = [pytest.mark.requirement("OP-07")]
ASKED = raft.FetchRequest(CLUSTER_ID, key_of(2), 3, 10, 3)
LEADER = raft.CurrentLeader(1, 3, None)
VERSION = 18


def no_clock() -> Instant:
    raise AssertionError("only DescribeQuorum reports times")


def request_over_the_wire(request: raft.FetchRequest) -> tuple[int, raft.FetchRequest]:
    data = encode(FETCH.to_wire([(0, request)], VERSION), VERSION)
    ((_, arrived),) = FETCH.split(decode(FetchRequest, VERSION, data))
    assert isinstance(arrived, raft.FetchRequest)
    return len(data), arrived


def answer_over_the_wire(answer: raft.FetchResponse) -> tuple[int, raft.FetchResponse]:
    body = FETCH.join(FETCH.to_wire([(0, ASKED)], VERSION), [answer], no_clock)
    data = encode(body, VERSION)
    (arrived,) = FETCH.from_wire(decode(FetchResponse, VERSION, data), [0])
    assert isinstance(arrived, raft.FetchResponse)
    return len(data), arrived


def test_request_contains_the_recovered_epoch_only_if_a_recovery_happened() -> None:
    without, quiet = request_over_the_wire(ASKED)
    with_it, reported = request_over_the_wire(replace(ASKED, recovered_epoch=65_537))
    assert (quiet.recovered_epoch, reported.recovered_epoch) == (0, 65_537)
    assert with_it > without


@pytest.mark.parametrize(
    "answer",
    [
        raft.FetchResponse(RaftError.NONE, LEADER, 5, records=b""),
        raft.FetchResponse(RaftError.NOT_QUORUM_LEADER, LEADER),
        raft.FetchResponse(
            RaftError.OFFSET_OUT_OF_RANGE, LEADER, 5, diverging=raft.DivergingEpoch(2, 4)
        ),
    ],
)
def test_response_without_the_field_equals_that_of_no_recovery(
    answer: raft.FetchResponse,
) -> None:
    for recovered_epoch in (-1, 0, 65_537):
        leader = replace(LEADER, recovered_epoch=recovered_epoch)
        size_bytes, arrived = answer_over_the_wire(replace(answer, leader=leader))
        assert arrived.leader.recovered_epoch == recovered_epoch
        if recovered_epoch < 0:
            smallest = size_bytes
        else:
            assert size_bytes > smallest


@pytest.mark.parametrize("recovered_epoch", [-1, 0, 65_537])
def test_vote_and_begin_epoch_responses_contain_the_recovered_epoch(recovered_epoch: int) -> None:
    leader = replace(LEADER, recovered_epoch=recovered_epoch)
    vote = VOTE.to_wire([(0, raft.VoteRequest(CLUSTER_ID, key_of(2), 3, 3, 10, key_of(1)))], 2)
    voted = VOTE.join(vote, [raft.VoteResponse(RaftError.NONE, leader, True)], no_clock)
    (answer,) = VOTE.from_wire(decode(VoteResponse, 2, encode(voted, 2)), [0])
    assert answer.leader == leader
    request = raft.BeginQuorumEpochRequest(CLUSTER_ID, 1, 3, key_of(2))
    begin = BEGIN_QUORUM_EPOCH.to_wire([(0, request)], 1)
    endorsed = BEGIN_QUORUM_EPOCH.join(
        begin, [raft.BeginQuorumEpochResponse(RaftError.NONE, leader)], no_clock
    )
    (answer,) = BEGIN_QUORUM_EPOCH.from_wire(
        decode(BeginQuorumEpochResponse, 1, encode(endorsed, 1)), [0]
    )
    assert answer.leader == leader
