"""A leader counts as heard if it answers a request itself, of whatever kind. What others name is hearsay, which is not saved."""

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.events import ResponseReceived
from quorum_node.raft.messages import (
    NO_LEADER,
    CurrentLeader,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    InboundResponse,
    OutboundRequest,
    ReadOffsetRequest,
    ReadOffsetResponse,
    UpdateVoterRequest,
    VoterChangeResponse,
)
from quorum_node.records.identity import ReplicaKey
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, formed_cores, key_of

ONE = endpoints_of("1")[0]
NEWER = 7
HEARD = CurrentLeader(1, NEWER, ONE)
READ = ReadOffsetRequest(CLUSTER_ID, 0)
REFUSED_READ = ReadOffsetResponse(RaftError.NOT_QUORUM_LEADER, HEARD)


def answered(
    cores: Cores,
    node: Node,
    request: OutboundRequest,
    peer: ReplicaKey | None,
    response: InboundResponse,
) -> None:
    """Its leader, or that peer, answers a request that it has sent."""
    replica = node.replica
    replica.out = []
    number = replica.send(ONE, request, peer)
    if isinstance(request, UpdateVoterRequest):
        replica.own_request = number
    cores.do(node, ResponseReceived(number, response))


@pytest.mark.parametrize(
    ("request_sent", "peer", "response"),
    [
        (READ, None, REFUSED_READ),
        (
            UpdateVoterRequest(CLUSTER_ID, key_of(2), endpoints_of("2"), 1000, 1),
            None,
            VoterChangeResponse(RaftError.NOT_QUORUM_LEADER, HEARD),
        ),
        (
            EndQuorumEpochRequest(CLUSTER_ID, 2, 1, (key_of(1),)),
            key_of(1),
            EndQuorumEpochResponse(RaftError.FENCED_LEADER_EPOCH, HEARD),
        ),
    ],
    ids=["ReadOffset", "UpdateVoter", "EndQuorumEpoch"],
)
def test_leader_that_answers_itself_is_no_hearsay(
    request_sent: OutboundRequest, peer: ReplicaKey | None, response: InboundResponse
) -> None:
    cores, _ = formed_cores("1", "2", "3")
    two = cores.nodes["2"]
    cores.partition(["1"], ["2"], ["3"])
    answered(cores, two, request_sent, peer, response)
    assert two.replica.epoch == NEWER
    assert two.replica.bound_leader_id == 1
    assert two.state is not None
    assert (two.state.leader_epoch, two.state.leader_id) == (NEWER, 1)


def test_answer_of_a_leader_that_is_followed_no_more_is_hearsay() -> None:
    cores, _ = formed_cores("1", "2", "3")
    two = cores.nodes["2"]
    cores.partition(["1"], ["2"], ["3"])
    replica = two.replica
    replica.out = []
    number = replica.send(ONE, READ, None)
    answered(
        cores,
        two,
        READ,
        None,
        ReadOffsetResponse(RaftError.NOT_QUORUM_LEADER, CurrentLeader(3, 6, endpoints_of("3")[0])),
    )
    assert (replica.leader_id, replica.epoch) == (3, 6)
    cores.do(two, ResponseReceived(number, REFUSED_READ))
    assert (replica.leader_id, replica.bound_leader_id, replica.epoch) == (1, NO_LEADER, NEWER)
