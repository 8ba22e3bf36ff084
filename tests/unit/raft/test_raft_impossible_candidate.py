"""A candidate whose id no replica can have."""

from uuid import UUID

from quorum_node.raft.messages import VoteRequest, VoteResponse
from quorum_node.records.identity import ReplicaKey
from support.raft.cores import CLUSTER_ID, formed_cores


def test_a_negative_id_gets_no_vote_as_a_restart_would_forget_it() -> None:
    cores, _ = formed_cores("1", "2", "3")
    cores.partition("1", "2", "3")
    cores.advance(8000)
    two = cores.nodes["2"]
    replica, liar = two.replica, ReplicaKey(-1, UUID(int=5))
    last_epoch, epoch = replica.epochs.last_epoch, replica.epoch
    request = VoteRequest(CLUSTER_ID, liar, epoch + 1, last_epoch, replica.log_end, two.key)
    answer = cores.request(two, request)
    assert isinstance(answer, VoteResponse)
    assert not answer.vote_granted
    assert replica.epoch == epoch
