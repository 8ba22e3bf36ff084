"""What peers tell of the last recovery. A Fetch and its answer say nothing while there was none."""

from dataclasses import replace

import pytest

from quorum_node.protocol.elections import BeginQuorumEpochResponse, VoteResponse
from quorum_node.protocol.fetch import FetchRequest, FetchResponse
from quorum_node.raft import messages as raft
from quorum_node.raft.errors import RaftError
from quorum_node.schema.codec import decode, encode
from quorum_node.server.wire.epochs import begin_answers, begin_request, join_begin
from quorum_node.server.wire.fetch import fetch_answers, fetch_request, join_fetch, split_fetch
from quorum_node.server.wire.vote import join_vote, vote_answers, vote_request
from support.raft.cores import CLUSTER_ID, key_of

pytestmark = [pytest.mark.requirement("OP-07")]
ASKED = raft.FetchRequest(CLUSTER_ID, key_of(2), 3, 10, 3)
LEADER = raft.CurrentLeader(1, 3, None)
VERSION = 18


def request_over_the_wire(request: raft.FetchRequest) -> tuple[int, raft.FetchRequest]:
    data = encode(fetch_request([(0, request)], VERSION), VERSION)
    ((_, arrived),) = split_fetch(decode(FetchRequest, VERSION, data))
    assert isinstance(arrived, raft.FetchRequest)
    return len(data), arrived


def answer_over_the_wire(answer: raft.FetchResponse) -> tuple[int, raft.FetchResponse]:
    body = join_fetch(fetch_request([(0, ASKED)], VERSION), [answer])
    data = encode(body, VERSION)
    (arrived,) = fetch_answers(decode(FetchResponse, VERSION, data), [0])
    assert isinstance(arrived, raft.FetchResponse)
    return len(data), arrived


def test_a_request_tells_it_only_if_there_was_one() -> None:
    without, quiet = request_over_the_wire(ASKED)
    with_it, told = request_over_the_wire(replace(ASKED, recovered_epoch=65_537))
    assert (quiet.recovered_epoch, told.recovered_epoch) == (0, 65_537)
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
def test_an_answer_that_says_never_differs_from_one_that_does_not_say(
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
def test_answers_to_votes_and_begins_tell_it(recovered_epoch: int) -> None:
    leader = replace(LEADER, recovered_epoch=recovered_epoch)
    vote = vote_request([(0, raft.VoteRequest(CLUSTER_ID, key_of(2), 3, 3, 10, key_of(1)))])
    voted = join_vote(vote, [raft.VoteResponse(RaftError.NONE, leader, True)])
    (answer,) = vote_answers(decode(VoteResponse, 2, encode(voted, 2)), [0])
    assert answer.leader == leader
    begin = begin_request([(0, raft.BeginQuorumEpochRequest(CLUSTER_ID, 1, 3, key_of(2)))])
    endorsed = join_begin(begin, [raft.BeginQuorumEpochResponse(RaftError.NONE, leader)])
    (answer,) = begin_answers(decode(BeginQuorumEpochResponse, 1, encode(endorsed, 1)), [0])
    assert answer.leader == leader
