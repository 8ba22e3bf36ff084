"""Changes of the voter set (KIP-853; KIP-595, "Quorum Change Protocol")."""

import itertools
from typing import Any

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.events import RequestReceived
from quorum_node.raft.messages import (
    AddVoterRequest,
    FetchRequest,
    FetchResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
    VotersPosition,
)
from quorum_node.raft.outputs import PersistQuorumState
from quorum_node.raft.voters import VoterSet
from quorum_node.records.batches import decode_records, split_batches
from quorum_node.records.control import VotersRecord, decode_control
from quorum_node.records.identity import Endpoint, ReplicaKey
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, formed_cores, key_of


def ids(node: Node) -> list[int]:
    return [key.id for key in node.replica.voters.latest.voters.ordered_keys]


def change(cores: Cores, node: Node, request: Any) -> VoterChangeResponse:
    answer = cores.request(node, request)
    assert isinstance(answer, VoterChangeResponse)
    return answer


def add(key: ReplicaKey, **options: Any) -> AddVoterRequest:
    return AddVoterRequest(CLUSTER_ID, key, endpoints_of(str(key.id)), 3000, **options)


def remove(key: ReplicaKey, **options: Any) -> RemoveVoterRequest:
    return RemoveVoterRequest(CLUSTER_ID, key, 3000, **options)


def voter_records(node: Node) -> list[set[ReplicaKey]]:
    found = []
    for batch in node.batches:
        whole = split_batches(batch.data)[0][0]
        if whole.header.is_control:
            for record in decode_records(whole):
                control = decode_control(record)
                if isinstance(control, VotersRecord):
                    found.append({voter.key for voter in control.voters})
    return found


@pytest.mark.requirement("K853-05", "K595-26")
def test_voter_is_added_after_it_caught_up() -> None:
    cores, one = formed_cores("1", "2", "3")
    four = cores.start("4", bootstrap=["1"])
    cores.advance(50)
    answer = change(cores, one, add(four.key))
    assert answer.error is RaftError.NONE
    assert answer.position == one.replica.committed_position()
    assert ids(one) == [1, 2, 3, 4]
    cores.advance(50)
    assert four.replica.is_voter


@pytest.mark.requirement("K853-05", "K595-26")
def test_replica_that_does_not_catch_up_is_rejected_and_nothing_changes() -> None:
    cores, one = formed_cores("1", "2", "3")
    four = cores.start("4", bootstrap=["1"])
    cores.advance(50)
    cores.partition(["1", "2", "3"], ["4"])
    cores.propose(one, "news")
    records = len(voter_records(one))
    answer = cores.add_voter(one, four)
    assert answer.error is RaftError.REQUEST_TIMED_OUT
    assert "nothing was changed" in answer.message
    assert len(voter_records(one)) == records


@pytest.mark.requirement("K595-26")
def test_replication_round_longer_than_the_election_timeout_does_not_qualify() -> None:
    cores, one = formed_cores("1", "2", "3")
    four = cores.start("4", bootstrap=["1"])
    cores.advance(50)
    four.hold_flush = True
    cores.propose(one, "a")
    waiting = 4711
    cores.do(one, RequestReceived(waiting, add(four.key)))
    cores.advance(1400)  # longer than one election timeout
    cores.propose(one, "b")
    four.hold_flush = False
    end = four.batches[-1].end_offset
    cores.request(one, FetchRequest(CLUSTER_ID, four.key, 1, end, 1, max_wait_ms=0))
    assert ids(one) == [1, 2, 3], "this round took 1400 ms"
    cores.release_flush(four)
    cores.advance(100)
    assert ids(one) == [1, 2, 3, 4], "and the next one only a moment"


@pytest.mark.requirement("K853-05")
def test_rejections_give_a_reason_and_change_nothing() -> None:
    cores, one = formed_cores("1", "2", "3")
    two = cores.nodes["2"]
    before = one.replica.log_end
    here = one.replica.committed_position()
    stale = VotersPosition(here.offset - 1, here.epoch)
    cases: list[tuple[Node, Any, RaftError]] = [
        (two, add(key_of(4)), RaftError.NOT_QUORUM_LEADER),
        (two, remove(one.key), RaftError.NOT_QUORUM_LEADER),
        (one, add(two.key), RaftError.DUPLICATE_VOTER),
        (one, add(ReplicaKey(4, None)), RaftError.INVALID_REQUEST),
        (one, AddVoterRequest(CLUSTER_ID, key_of(4), (), 3000), RaftError.INVALID_REQUEST),
        (one, remove(key_of(4)), RaftError.VOTER_NOT_FOUND),
        (one, remove(key_of(2, incarnation=2)), RaftError.VOTER_NOT_FOUND),
        (one, add(key_of(4), expected=stale), RaftError.STALE_VOTERS_POSITION),
        (one, remove(two.key, expected=stale), RaftError.STALE_VOTERS_POSITION),
        (one, RemoveVoterRequest("another", two.key, 3000), RaftError.INVALID_CLUSTER_ID),
    ]
    for node, request, error in cases:
        answer = change(cores, node, request)
        assert answer.error is error, request
        assert answer.message
        assert answer.leader.leader_id == 1
    assert one.replica.log_end == before
    assert change(cores, one, remove(two.key, expected=here)).error is RaftError.NONE


@pytest.mark.requirement("K853-05")
def test_only_one_voter_change_at_a_time() -> None:
    cores, one = formed_cores("1", "2", "3", "4")
    cores.partition(["1"], ["2", "3", "4"])
    cores.do(one, RequestReceived(1, remove(key_of(4))))
    assert change(cores, one, remove(key_of(3))).error is RaftError.VOTER_CHANGE_PENDING
    assert change(cores, one, add(key_of(5))).error is RaftError.VOTER_CHANGE_PENDING
    cores.heal()
    cores.advance(2500)
    assert ids(one) == [1, 2, 3]
    assert change(cores, one, remove(key_of(3))).error is RaftError.NONE


@pytest.mark.requirement("K853-05")
def test_new_leader_needs_a_committed_record_of_its_epoch_before_voter_changes() -> None:
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    two.hold_flush = three.hold_flush = True
    cores.crash(one)
    cores.advance(300)
    leader = cores.leader
    assert change(cores, leader, remove(one.key)).error is RaftError.EPOCH_NOT_COMMITTED
    cores.release_flush(two)
    cores.release_flush(three)
    cores.advance(50)
    assert change(cores, leader, remove(one.key)).error is RaftError.NONE


@pytest.mark.requirement("K853-05")
def test_unsafe_voter_changes_are_rejected() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.start("4", bootstrap=["1"])
    cores.crash(cores.nodes["3"])
    cores.advance(2500)
    assert change(cores, one, remove(key_of(2))).error is RaftError.UNSAFE_CHANGE
    assert change(cores, one, add(key_of(4))).error is RaftError.UNSAFE_CHANGE
    assert change(cores, one, remove(key_of(3))).error is RaftError.NONE
    assert change(cores, one, add(key_of(4))).error is RaftError.NONE


@pytest.mark.requirement("K853-05")
def test_last_voter_cannot_be_removed() -> None:
    cores, one = formed_cores("1")
    assert change(cores, one, remove(one.key)).error is RaftError.INVALID_REQUEST


@pytest.mark.requirement("K853-05", "K595-12")
def test_leader_removing_itself_does_not_count_itself_and_resigns_after_the_commit() -> None:
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    two.hold_flush = three.hold_flush = True
    cores.do(one, RequestReceived(1, remove(one.key)))
    cores.release_flush(two)
    assert one.is_leader
    assert 1 not in one.answers, "one of two is no majority; the leader is none of them"
    cores.release_flush(three)
    cores.advance(50)
    answer = one.answers[1]
    assert isinstance(answer, VoterChangeResponse)
    assert answer.error is RaftError.NONE
    assert not one.is_leader
    assert cores.leader in (two, three)
    cores.advance(1000)
    assert (one.replica.leader_id, one.replica.is_voter) == (cores.leader.key.id, False)


@pytest.mark.requirement("K595-25", "K595-14", "K595-17")
def test_removed_voter_is_informed_at_its_next_fetch_and_continues_as_observer() -> None:
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    cores.partition(["1", "2"], ["3"])
    assert change(cores, one, remove(three.key)).error is RaftError.NONE
    answer = cores.request(
        one, FetchRequest(CLUSTER_ID, three.key, 1, three.replica.log_end, 1, max_wait_ms=0)
    )
    assert isinstance(answer, FetchResponse)
    assert answer.error is RaftError.NOT_FOLLOWER
    assert (answer.leader.leader_id, answer.leader.leader_epoch) == (1, 1)
    assert answer.records, "the record that removed it comes with it"
    cores.heal()
    cores.advance(3000)
    assert not three.replica.is_voter
    cores.propose(one, "a")
    cores.advance(50)
    assert three.committed_values() == ["a"]
    cores.advance(10_000)
    assert one.replica.epoch == 1


@pytest.mark.requirement("K595-04")
def test_uncommitted_voters_take_effect_at_append_and_are_reverted_by_truncation() -> None:
    cores, one = formed_cores("1", "2", "3", "4", "5")
    five = cores.nodes["5"]
    cores.partition(["1", "5"], ["2", "3", "4"])
    cores.do(one, RequestReceived(1, remove(key_of(2))))
    cores.advance(10)
    assert ids(one) == ids(five) == [1, 3, 4, 5]
    for node in (one, five):
        assert node.state is not None
        assert len(node.state.current_voters) == 5, "quorum-state knows committed voters only"
    cores.advance(4500)
    cores.propose(cores.leader, "other history")
    cores.heal()
    cores.advance(4000)
    assert ids(one) == ids(five) == [1, 2, 3, 4, 5]
    assert not one.replica.voters.latest.offset > one.replica.high_watermark


@pytest.mark.requirement("K595-04")
def test_uncommitted_voters_are_found_at_start_after_the_applied_offset() -> None:
    cores, one = formed_cores("1", "2", "3", "4")
    two = cores.nodes["2"]
    cores.partition(["1", "2"], ["3", "4"])
    cores.do(one, RequestReceived(1, remove(key_of(4))))
    cores.advance(10)
    cores.crash(two)
    assert two.state is not None
    assert [voter.key.id for voter in two.state.current_voters] == [1, 2, 3, 4]
    cores.restart(two)
    assert ids(two) == [1, 2, 3]
    assert [key.id for key in two.replica.voters.committed.voters.ordered_keys] == [1, 2, 3, 4]
    assert not two.replica.voters.latest_is_committed


@pytest.mark.requirement("K595-04")
def test_voters_are_saved_in_quorum_state_when_committed() -> None:
    cores, one = formed_cores("1", "2", "3")
    saved: list[PersistQuorumState] = []
    cores.observer = lambda node, output: (
        saved.append(output) if isinstance(output, PersistQuorumState) else None
    )
    change(cores, one, remove(key_of(3)))
    cores.advance(100)
    assert len(saved) == 3, "once on each replica"
    for output in saved:
        assert [voter.key.id for voter in output.state.current_voters] == [1, 2]
        assert output.state.voters_offset < output.state.applied_offset


@pytest.mark.requirement("K853-06", "K853-02")
@pytest.mark.parametrize("order", ["add first", "remove first"])
def test_lost_disk_is_replaced_in_both_orders_under_load(order: str) -> None:
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    old_key = three.key
    cores.lose_disk(three, incarnation=2)
    cores.advance(2500)
    assert not three.replica.is_voter
    assert three.replica.leader_id == 1, "an observer under its new key"
    written = [cores.propose(one, "w0")]
    steps: list[Any] = [
        lambda: cores.add_voter(one, three, count_newcomer=True),
        lambda: cores.remove_voter(one, old_key),
    ]
    for step in steps if order == "add first" else reversed(steps):
        answer = step()
        assert answer is not None
        assert answer.error is RaftError.NONE, answer.message
        written.append(cores.propose(one, f"w{len(written)}"))
        cores.advance(50)
    assert all(proposal in one.committed for proposal in written)
    assert set(one.replica.voters.latest.voters.ordered_keys) == {
        one.key,
        cores.nodes["2"].key,
        key_of(3, incarnation=2),
    }
    records = voter_records(one)
    assert all(len(a ^ b) == 1 for a, b in itertools.pairwise(records))


@pytest.mark.requirement("K853-06")
def test_adding_before_removing_a_dead_voter_must_be_requested() -> None:
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    cores.lose_disk(three, incarnation=2)
    cores.advance(2500)
    answer = cores.add_voter(one, three)
    assert answer.error is RaftError.UNSAFE_CHANGE


@pytest.mark.requirement("K853-06")
def test_old_key_stays_until_the_new_one_has_fetched_past_its_own_addition() -> None:
    cores, one = formed_cores("1", "2", "3", "4")
    four = cores.nodes["4"]
    old_key = four.key
    cores.lose_disk(four, incarnation=2)
    cores.advance(2500)
    four.hold_flush = True
    cores.do(one, RequestReceived(1, add(four.key, count_newcomer=True)))
    cores.advance(20)
    cores.release_flush(four)
    cores.advance(20)
    assert key_of(4, 2) in one.replica.voters.latest.voters
    role = one.replica.role
    getattr(role, "progress")[four.key].end_offset = 3  # noqa: B009 - as if it had not
    assert change(cores, one, remove(old_key)).error is RaftError.NOT_CAUGHT_UP
    cores.propose(one, "x")
    cores.advance(50)
    assert change(cores, one, remove(old_key)).error is RaftError.NONE


def test_leader_transfers_leadership_before_another_key_of_its_id_is_added() -> None:
    cores, one = formed_cores("1", "2", "3")
    answer = change(cores, one, add(key_of(1, incarnation=2), count_newcomer=True))
    assert answer.error is RaftError.NOT_QUORUM_LEADER
    cores.advance(50)
    assert cores.leader is not one


def test_only_the_newest_key_of_a_doubled_id_campaigns() -> None:
    cores, one = formed_cores("1", "2", "3", "4")
    old = cores.nodes["4"]
    new = cores.start("4'", 4, incarnation=2, bootstrap=["1"])
    cores.advance(100)
    answer = cores.add_voter(one, new)
    assert answer.error is RaftError.NONE, answer.message
    cores.advance(600)
    assert old.replica.is_voter
    assert new.replica.is_voter
    assert not old.replica.may_campaign()
    assert new.replica.may_campaign()
    cores.request(
        old, FetchRequest(CLUSTER_ID, new.key, 1, 0, 0)
    )  # any traffic; nothing may make it campaign
    cores.crash(one)
    for name in ("2", "3"):
        request = cores.request(
            cores.nodes[name],
            VoteRequest(CLUSTER_ID, old.key, 9, 9, 999, voter=cores.nodes[name].key),
        )
        assert isinstance(request, VoteResponse)
        assert not request.vote_granted
    cores.advance(8000)
    assert cores.leader is not old
    assert not old.is_leader


@pytest.mark.requirement("K853-06")
def test_uuid_change_is_never_a_single_record() -> None:
    from quorum_node.raft import membership

    _, one = formed_cores("1", "2", "3")
    voters = one.replica.voters.latest.voters
    swapped = VoterSet(
        (*voters.removed(key_of(3)).voters, voters.voters[2].__class__(key_of(3, 2)))
    )
    with pytest.raises(AssertionError, match="2 keys change in one record"):
        membership._append(one.replica, swapped)


def test_id_has_at_most_two_voters() -> None:
    cores, one = formed_cores("1", "2", "3", "4")
    new = cores.start("4'", 4, incarnation=2, bootstrap=["1"])
    cores.advance(100)
    assert cores.add_voter(one, new) is not None
    assert change(cores, one, add(key_of(4, 3))).error is RaftError.DUPLICATE_VOTER


def test_update_voter_changes_endpoints_without_losing_the_quorum() -> None:
    cores, one = formed_cores("1", "2", "3")
    moved = (Endpoint("CONTROLLER", "elsewhere", 9093),)
    request = UpdateVoterRequest(CLUSTER_ID, key_of(3), moved, 3000, one.replica.epoch)
    answer = change(cores, one, request)
    assert answer.error is RaftError.NONE
    voter = one.replica.voters.latest.voters.get(key_of(3))
    assert voter is not None
    assert voter.endpoints == moved
    assert ids(one) == [1, 2, 3]
    end = one.replica.log_end
    assert change(cores, one, request).error is RaftError.NONE
    assert one.replica.log_end == end, "the same endpoints need no record"
    fenced = UpdateVoterRequest(CLUSTER_ID, key_of(3), moved, 3000, current_leader_epoch=0)
    assert change(cores, one, fenced).error is RaftError.FENCED_LEADER_EPOCH


def test_change_of_an_abandoned_request_is_dropped_before_it_is_written() -> None:
    from quorum_node.raft.events import RequestAbandoned

    cores, one = formed_cores("1", "2", "3")
    cores.do(one, RequestReceived(5, add(key_of(8))))
    assert change(cores, one, add(key_of(9))).error is RaftError.VOTER_CHANGE_PENDING
    cores.do(one, RequestAbandoned(5))
    assert change(cores, one, remove(key_of(3))).error is RaftError.NONE


def test_removed_voter_that_cannot_know_of_the_commit_still_campaigns() -> None:
    """Ongaro's dissertation, 4.2.2: its log may be the only one that is up to date."""
    cores, one = formed_cores("1", "2", "3")
    cores.partition(["1"], ["2", "3"])
    cores.do(one, RequestReceived(1, remove(one.key)))
    assert not one.replica.is_voter
    assert one.replica.may_campaign()
    cores.advance(4500)
    cores.heal()
    cores.advance(4000)
    assert one.replica.role is not None
    assert cores.leader.replica.voters.latest_is_committed


def test_replica_restarts_from_its_disk_state() -> None:
    cores, one = formed_cores("1", "2", "3")
    assert cores.leader is one
    cores.crash(cores.nodes["2"])
    cores.restart(cores.nodes["2"])
    cores.advance(500)
    assert cores.nodes["2"].replica.formed
    assert cores.nodes["2"].replica.cluster_id == CLUSTER_ID
