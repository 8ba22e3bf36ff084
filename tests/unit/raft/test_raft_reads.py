"""Linearizable reads on the leader (KIP-650; the project's rule: no clock is a lease)."""

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import FetchRequest
from support.raft.cores import CLUSTER_ID, formed_cores


def test_read_needs_one_round_trip_to_a_majority_started_after_it() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.propose(one, "a")
    read = cores.read(one)
    assert one.reads[read] == one.replica.high_watermark


def test_deposed_leader_never_answers_a_read() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.partition(["1"], ["2", "3"])
    read = cores.read(one)
    cores.advance(4500)
    new = cores.leader
    assert new is not one
    cores.propose(new, "newer")
    assert one.reads[read] is RaftError.NOT_QUORUM_LEADER


def test_fetch_from_before_the_read_does_not_confirm_it() -> None:
    cores, one = formed_cores("1", "2", "3")
    two = cores.nodes["2"]
    role = one.replica.role
    assert isinstance(role, Leader)
    stale = role.progress[two.key].answer
    cores.read(one)
    cores.partition(["1"], ["2", "3"])
    read = cores.read(one)
    assert read not in one.reads
    request = FetchRequest(
        CLUSTER_ID, two.key, 1, two.replica.log_end, 1, max_wait_ms=0, answer=stale
    )
    cores.request(one, request)
    assert read not in one.reads, "this fetch follows no answer that was sent after the read"
    cores.request(
        one,
        FetchRequest(
            CLUSTER_ID, two.key, 1, two.replica.log_end, 1, max_wait_ms=0, answer=role.answer_round
        ),
    )
    assert read in one.reads


def test_observers_do_not_confirm_reads() -> None:
    cores, one = formed_cores("1", "2", "3")
    for name in ("4", "5"):
        cores.start(name, bootstrap=["1"])
    cores.advance(100)
    cores.partition(["1", "4", "5"], ["2", "3"])
    read = cores.read(one)
    cores.advance(500)
    assert read not in one.reads


@pytest.mark.requirement("K595-10")
def test_read_before_the_first_commit_of_the_epoch_waits_for_it() -> None:
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    cores.propose(one, "acknowledged")
    two.hold_flush = three.hold_flush = True
    cores.crash(one)
    cores.advance(500)
    leader = cores.leader
    read = cores.read(leader)
    assert read not in leader.reads
    for node in (two, three):
        cores.release_flush(node)
    cores.advance(50)
    offset = leader.reads[read]
    assert isinstance(offset, int)
    assert leader.values(offset) == ["acknowledged"]


def test_single_voter_answers_reads_immediately() -> None:
    cores, one = formed_cores("1")
    assert cores.read(one) in one.reads


def test_round_sent_with_a_diverging_response_counts_as_sent() -> None:
    """A fetch that diverged echoes the round that it was sent; a later read needs another one.

    Found by review: the next read would have shared that round, although the echo came before it.
    """
    cores, one = formed_cores("1", "2", "3")
    two = cores.nodes["2"]
    role = one.replica.role
    assert isinstance(role, Leader)
    cores.partition(["1"], ["2", "3"])
    first = cores.read(
        one
    )  # a round that is sent to no follower: no fetch is parked that can be answered
    cores.read(one)
    end = one.replica.log_end

    def fetch(offset: int, last_epoch: int, answer: int) -> None:
        request = FetchRequest(CLUSTER_ID, two.key, 1, offset, last_epoch, 500, answer=answer)
        cores.request(one, request)

    fetch(
        end + 5, 1, -1
    )  # longer than the leader's log: the answer has the divergence, and the round
    fetch(end, 1, role.answer_round)
    assert first in one.reads
    second = cores.read(one)
    assert second not in one.reads
