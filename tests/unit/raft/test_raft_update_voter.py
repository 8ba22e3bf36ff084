"""UpdateVoter: who may change a voter's entry, and to what (KIP-853, "UpdateVoter")."""

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.messages import (
    AddVoterRequest,
    Request,
    UpdateVoterRequest,
    VoterChangeResponse,
)
from quorum_node.records.identity import Endpoint, ReplicaKey
from support.raft.cores import CLUSTER_ID, Cores, Node, formed_cores, key_of


def change(cores: Cores, leader: Node, request: Request) -> VoterChangeResponse:
    answer = cores.request(leader, request)
    assert isinstance(answer, VoterChangeResponse)
    return answer


@pytest.mark.requirement("K853-07")
@pytest.mark.parametrize("epoch", [-1, 0, 2, 99])
def test_voter_updates_itself_in_its_current_epoch(epoch: int) -> None:
    cores, one = formed_cores("1", "2", "3")
    end = one.replica.log_end
    moved = (Endpoint("CONTROLLER", "elsewhere", 9093),)
    request = UpdateVoterRequest(CLUSTER_ID, key_of(3), moved, 3000, epoch)
    answer = change(cores, one, request)
    older = epoch < 1
    wanted = RaftError.FENCED_LEADER_EPOCH if older else RaftError.UNKNOWN_LEADER_EPOCH
    assert answer.error is wanted
    assert (answer.leader.leader_id, answer.leader.leader_epoch) == (1, 1)
    assert one.replica.log_end == end


@pytest.mark.requirement("K853-07")
@pytest.mark.parametrize("key", [key_of(1), key_of(3, 2), ReplicaKey(3), key_of(9)])
def test_only_the_voter_itself_updates_its_entry(key: ReplicaKey) -> None:
    """In particular not the leader's own entry: it knows its own listeners."""
    cores, one = formed_cores("1", "2", "3")
    end = one.replica.log_end
    moved = (Endpoint("CONTROLLER", "elsewhere", 9093), Endpoint("ADMIN", "stranger", 8080))
    answer = change(cores, one, UpdateVoterRequest(CLUSTER_ID, key, moved, 3000, 1))
    assert answer.error in (RaftError.INVALID_REQUEST, RaftError.VOTER_NOT_FOUND)
    assert one.replica.log_end == end


@pytest.mark.requirement("K853-07")
def test_operator_can_repair_the_entry_of_a_voter() -> None:
    """Over the admin API, with its token: a voter with an unreachable entry may be down."""
    cores, one = formed_cores("1", "2", "3")
    moved = (Endpoint("CONTROLLER", "elsewhere", 9093),)
    request = UpdateVoterRequest(None, key_of(3), moved, 3000, by_operator=True)
    assert change(cores, one, request).error is RaftError.NONE


@pytest.mark.requirement("K853-05", "K853-07")
@pytest.mark.parametrize(
    "host", ["", "\0", "a" * 30_000, "256.256.256.256", "0.0.0.0", "::", "a b"]
)
def test_unreachable_replica_does_not_become_a_voter(host: str) -> None:
    cores, one = formed_cores("1", "2", "3")
    end = one.replica.log_end
    listeners = ((Endpoint("CONTROLLER", host, 9093),), (Endpoint("CONTROLLER", "3", 0),))
    for endpoints in (
        *listeners,
        (Endpoint("CONTROLLER", "3", 9093), Endpoint("ADMIN", host, 8080)),
    ):
        update = change(cores, one, UpdateVoterRequest(CLUSTER_ID, key_of(3), endpoints, 3000, 1))
        assert update.error is RaftError.INVALID_REQUEST
        assert "no" in update.message or "host" in update.message
        join = change(cores, one, AddVoterRequest(CLUSTER_ID, key_of(8), endpoints, 3000))
        assert join.error is RaftError.INVALID_REQUEST
    assert one.replica.log_end == end
