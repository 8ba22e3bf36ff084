"""Any mixture of partitions in one message: each gets exactly its own request and its own answer."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.schema.codec import decode, encode
from quorum_node.schema.schema import Message
from quorum_node.server.wire.errors import raft_error, wire_error
from quorum_node.server.wire.fetch import MAX_ANSWER_BYTES
from quorum_node.server.wire.instant import Instant
from quorum_node.server.wire.partitions import Answer, metadata_partition
from quorum_node.server.wire.rpcs import from_wire
from support.wire import api_of, join, shared_fields, split, to_wire

Parts = list[tuple[int, raft.OutboundRequest]]
HERE = Endpoint(CONTROLLER, "node-1.local", 9093)

epochs = st.integers(0, 1000)
offsets = st.integers(0, 1 << 40)
uuids = st.integers(1, 1 << 100).map(lambda number: UUID(int=number))
numbers = st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True)


def fetches(uuid: UUID) -> st.SearchStrategy[raft.OutboundRequest]:
    return st.builds(
        lambda epoch, offset, last, high, answer: raft.FetchRequest(
            "c", ReplicaKey(1, uuid), epoch, offset, last, 500, MAX_ANSWER_BYTES, high, answer
        ),
        epochs, offsets, epochs, offsets, st.integers(-1, 99),
    )  # fmt: skip


def votes(uuid: UUID, pre_vote: bool = False) -> st.SearchStrategy[raft.OutboundRequest]:
    return st.builds(
        lambda epoch, last, end, voter: raft.VoteRequest(
            "c", ReplicaKey(1, uuid), epoch, last, end, ReplicaKey(2, voter), pre_vote
        ),
        epochs, epochs, offsets, uuids,
    )  # fmt: skip


def pre_votes(uuid: UUID) -> st.SearchStrategy[raft.OutboundRequest]:
    return votes(uuid, pre_vote=True)


def begins(uuid: UUID) -> st.SearchStrategy[raft.OutboundRequest]:
    return epochs.map(
        lambda epoch: raft.BeginQuorumEpochRequest("c", 1, epoch, ReplicaKey(2, uuid), HERE)
    )


def ends(uuid: UUID) -> st.SearchStrategy[raft.OutboundRequest]:
    return epochs.map(
        lambda epoch: raft.EndQuorumEpochRequest("c", 1, epoch, (ReplicaKey(2, uuid),), HERE)
    )


KINDS = {"fetch": fetches, "vote": votes, "pre-vote": pre_votes, "begin": begins, "end": ends}


@st.composite
def mixtures(draw: st.DrawFn) -> Parts:
    """Requests of one kind for several partitions, with equal shared fields."""
    kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    return [(number, draw(kind(draw(uuids)))) for number in draw(numbers)]


def over_the_wire(message: Message, version: int) -> Message:
    return decode(type(message), version, encode(message, version))


def no_clock() -> Instant:
    raise AssertionError("only DescribeQuorum reports times")


@pytest.mark.requirement("K595-31")
@given(mixtures())
def test_each_partition_gets_its_own_request(parts: Parts) -> None:
    assert len({shared_fields(request) for _, request in parts}) == 1
    version = api_of(parts[0][1]).max_version
    found = split(over_the_wire(to_wire(parts, version), version))
    share_bytes = MAX_ANSWER_BYTES // len(parts)
    assert found == [
        (
            metadata_partition(number),
            replace(request, max_bytes=share_bytes)
            if isinstance(request, raft.FetchRequest)
            else request,
        )
        for number, request in parts
    ]


@st.composite
def answers_to(draw: st.DrawFn, request: raft.OutboundRequest) -> Answer:
    """Possible answers of a replica to it, including none."""
    if draw(st.integers(0, 4)) == 0:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    leader_id = draw(st.integers(-1, 3))
    endpoint = Endpoint(CONTROLLER, f"node-{leader_id}", 9000 + leader_id)
    leader = raft.CurrentLeader(leader_id, draw(epochs), endpoint if leader_id >= 0 else None)
    error = draw(st.sampled_from([RaftError.NONE, RaftError.FENCED_LEADER_EPOCH]))
    match request:
        case raft.VoteRequest():
            return raft.VoteResponse(error, leader, draw(st.booleans()))
        case raft.BeginQuorumEpochRequest():
            return raft.BeginQuorumEpochResponse(error, leader)
        case raft.EndQuorumEpochRequest():
            return raft.EndQuorumEpochResponse(error, leader)
    if error is not RaftError.NONE:
        return raft.FetchResponse(error, leader)
    if draw(st.booleans()):
        diverging = raft.DivergingEpoch(draw(epochs), draw(offsets))
        return raft.FetchResponse(RaftError.OFFSET_OUT_OF_RANGE, leader, diverging=diverging)
    data, round_ = draw(st.binary(max_size=40)), draw(st.integers(-1, 99))
    return raft.FetchResponse(error, leader, draw(offsets), 0, records=data, answer=round_)


def expected(answer: Answer, request: raft.OutboundRequest) -> raft.InboundResponse:
    if not isinstance(answer, ErrorCode):
        return answer  # type: ignore[return-value]
    nobody = raft.CurrentLeader(-1, -1)
    error = raft_error(answer)
    match request:
        case raft.VoteRequest():
            return raft.VoteResponse(error, nobody)
        case raft.BeginQuorumEpochRequest():
            return raft.BeginQuorumEpochResponse(error, nobody)
        case raft.EndQuorumEpochRequest():
            return raft.EndQuorumEpochResponse(error, nobody)
    return raft.FetchResponse(error, nobody, log_start_offset=-1)


@pytest.mark.requirement("K595-31")
@given(mixtures(), st.data())
def test_each_partition_gets_its_own_response(parts: Parts, data: st.DataObject) -> None:
    answers = [data.draw(answers_to(request)) for _, request in parts]
    version = api_of(parts[0][1]).max_version
    body = over_the_wire(join(to_wire(parts, version), answers, no_clock), version)
    requested = data.draw(st.permutations(range(len(parts))))
    found = from_wire(body, [parts[index][0] for index in requested])
    assert found == [expected(answers[index], parts[index][1]) for index in requested]


def test_partition_responses_are_found_in_any_order() -> None:
    leader = raft.CurrentLeader(-1, 3)
    fetch = raft.FetchRequest("c", ReplicaKey(1, UUID(int=1)), 1, 0, 0)
    answers = [raft.FetchResponse(RaftError.NONE, leader, 10 + number) for number in range(3)]
    body = join(to_wire([(number, fetch) for number in range(3)], 18), answers, no_clock)
    found = from_wire(over_the_wire(body, 18), [2, 0, 1])
    assert found == [answers[2], answers[0], answers[1]]


@given(mixtures(), st.data())
def test_wrong_cluster_id_of_one_partition_does_not_affect_others(
    parts: Parts, data: st.DataObject
) -> None:
    """Partitions get the id of their cluster one by one."""
    refused = data.draw(st.sets(st.sampled_from([number for number, _ in parts])))

    def answer(number: int) -> Answer:
        error = RaftError.INVALID_CLUSTER_ID if number in refused else RaftError.NONE
        return _plain(parts[0][1], error)

    version = api_of(parts[0][1]).max_version
    numbers = [number for number, _ in parts]
    message = join(to_wire(parts, version), [answer(number) for number in numbers], no_clock)
    found = from_wire(over_the_wire(message, version), numbers)
    assert [each.error for each in found] == [
        RaftError.INVALID_CLUSTER_ID if number in refused else RaftError.NONE for number in numbers
    ]


def _plain(request: raft.OutboundRequest, error: RaftError) -> raft.Response:
    leader = raft.CurrentLeader(-1, 3)
    make: dict[type, Callable[[], raft.Response]] = {
        raft.FetchRequest: lambda: raft.FetchResponse(error, leader),
        raft.VoteRequest: lambda: raft.VoteResponse(error, leader),
        raft.BeginQuorumEpochRequest: lambda: raft.BeginQuorumEpochResponse(error, leader),
        raft.EndQuorumEpochRequest: lambda: raft.EndQuorumEpochResponse(error, leader),
    }
    return make[type(request)]()


@given(mixtures())
def test_partition_missing_in_the_response_gets_an_error(parts: Parts) -> None:
    version = api_of(parts[0][1]).max_version
    first = [_plain(parts[0][1], RaftError.NONE)]
    body = over_the_wire(join(to_wire(parts[:1], version), first, no_clock), version)
    number = parts[0][0]
    found = from_wire(body, [number, number + 100])
    assert [each.error for each in found] == [RaftError.NONE, RaftError.INVALID_REQUEST]


def test_requests_that_differ_in_a_shared_field_are_not_combined() -> None:
    me, other = ReplicaKey(1, UUID(int=1)), ReplicaKey(2, UUID(int=2))
    fetch = raft.FetchRequest("c", me, 1, 0, 0, 500)
    vote = raft.VoteRequest("c", me, 1, 0, 0, other)
    apart = [
        fetch,
        replace(fetch, cluster_id=None),
        replace(fetch, max_wait_ms=0),
        vote,
        replace(vote, cluster_id=None),
        replace(vote, pre_vote=True),
        replace(vote, voter=ReplicaKey(3, UUID(int=3))),
        raft.BeginQuorumEpochRequest("c", 1, 1, other, HERE),
        raft.BeginQuorumEpochRequest("c", 1, 1, other, None),
        raft.EndQuorumEpochRequest("c", 1, 1, (), HERE),
    ]
    assert len({shared_fields(request) for request in apart}) == len(apart)
    assert shared_fields(raft.ApiVersionsRequest()) is None
    assert shared_fields(vote) == shared_fields(replace(vote, candidate_epoch=9))


def test_wire_error_codes_convert_back_to_the_same_errors() -> None:
    for error in (RaftError.INVALID_CLUSTER_ID, RaftError.FENCED_LEADER_EPOCH):
        assert raft_error(wire_error(error)) is error
