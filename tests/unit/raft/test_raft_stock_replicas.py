"""Replicas of stock Kafka under a leader of this software: recognized by their fetches, and never sent what they can't process."""

from uuid import UUID

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.messages import (
    STOCK_SENDER,
    AddVoterRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    ReadOffsetRequest,
    ReadOffsetResponse,
    VoterChangeResponse,
)
from quorum_node.records.identity import ReplicaKey
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, formed_cores, key_of


def fetch(cores: Cores, leader: Node, key: ReplicaKey, *, answer: int = STOCK_SENDER) -> object:
    replica = leader.replica
    return cores.request(
        leader,
        FetchRequest(
            CLUSTER_ID,
            key,
            replica.epoch,
            replica.log_end,
            replica.epochs.last_epoch,
            answer=answer,
        ),
    )


def stock(cores: Cores, leader: Node) -> dict[int, bool | None]:
    description = leader.replica.describe(cores.now_ms)
    seen = (*description.voters_progress, *description.observers_progress)
    return {each.key.id: each.stock for each in seen}


def test_fetch_without_a_round_is_that_of_a_stock_replica() -> None:
    cores, one = formed_cores("1", "2")
    fetch(cores, one, key_of(9))
    fetch(cores, one, key_of(8), answer=-1)
    assert stock(cores, one) == {1: False, 2: False, 9: True, 8: False}


def test_id_is_not_doubled_beside_a_stock_voter() -> None:
    """Stock Kafka keeps one voter per id: it would count other majorities than we do."""
    cores, one = formed_cores("1", "2", "3")
    newer = ReplicaKey(3, UUID(int=77))
    request = AddVoterRequest(CLUSTER_ID, newer, endpoints_of("3"), 3000)
    fetch(cores, one, cores.nodes["2"].key)
    answer = cores.request(one, request)
    assert isinstance(answer, VoterChangeResponse)
    assert answer.error is RaftError.UNSAFE_CHANGE
    assert "stock" in answer.message
    cores.advance(600)  # it was 2 itself all the time
    assert cores.request(one, request) is None, "under way"


@pytest.mark.requirement("K595-10")
def test_new_leader_sends_no_high_watermark_before_its_first_commit() -> None:
    """It may know less than a follower does, and stock replicas fail for good on a smaller one."""
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    three.hold_flush = True
    cores.crash(one)
    cores.request(two, EndQuorumEpochRequest(CLUSTER_ID, 1, 1, (two.key, three.key)))
    assert two.is_leader
    assert sent_high_watermark(cores, two) == -1
    cores.release_flush(three)
    cores.advance(100)
    assert sent_high_watermark(cores, two) == two.replica.log_end


def sent_high_watermark(cores: Cores, leader: Node) -> int:
    replica = leader.replica
    request = FetchRequest(CLUSTER_ID, key_of(9), replica.epoch, 0, 0, answer=STOCK_SENDER)
    answer = cores.request(leader, request)
    assert isinstance(answer, FetchResponse)
    return answer.high_watermark


@pytest.mark.requirement("K650-03")
def test_read_that_stock_voters_can_never_confirm_fails_immediately() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.partition(["1"], ["2", "3"])
    fetch(cores, one, cores.nodes["2"].key)
    assert one.reads.get(cores.read(one)) is None, "one of three may be stock"
    fetch(cores, one, cores.nodes["3"].key)
    assert one.reads[cores.read(one)] is RaftError.READS_UNSUPPORTED
    answer = cores.request(one, ReadOffsetRequest(CLUSTER_ID))
    assert isinstance(answer, ReadOffsetResponse)
    assert answer.error is RaftError.READS_UNSUPPORTED
