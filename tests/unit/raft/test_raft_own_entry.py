"""Requests of a replica for itself: its new address as a voter, and to join as an observer."""

from dataclasses import replace

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.events import RequestReceived
from quorum_node.raft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    VotersPosition,
)
from quorum_node.raft.voters import MAX_TOMBSTONES, VoterSet, tombstones_after
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, formed_cores, key_of


def recorded(node: Node, id: int) -> tuple[Endpoint, ...]:
    voter = node.replica.voters.committed.voters.newest(id)
    assert voter is not None
    return voter.endpoints


def ids(node: Node) -> list[int]:
    return [key.id for key in node.replica.voters.committed.voters.ordered_keys]


@pytest.mark.requirement("K853-07")
def test_voter_with_another_listener_updates_its_entry_and_the_quorum_continues() -> None:
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    cores.move(three, "new-3")
    number = cores.propose(one, "meanwhile")
    cores.advance(200)
    assert number in one.committed
    for node in cores.nodes.values():
        assert recorded(node, 3) == endpoints_of("new-3")
        assert ids(node) == [1, 2, 3]
    # Where it is now it can be reached: it votes for the only other candidate.
    cores.crash(one)
    cores.advance(3000)
    assert cores.leader.name in ("2", "3")


@pytest.mark.requirement("K853-07")
def test_every_voter_can_move_one_after_the_other() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    for name in ("1", "2", "3"):
        cores.move(cores.nodes[name], f"new-{name}")
        cores.advance(6000)
        assert recorded(cores.leader, int(name)) == endpoints_of(f"new-{name}"), name
    assert {recorded(cores.leader, number)[0].host for number in (1, 2, 3)} == {
        "new-1",
        "new-2",
        "new-3",
    }


@pytest.mark.requirement("K853-07")
def test_leader_writes_its_own_new_address() -> None:
    cores, one = formed_cores("1")
    cores.move(one, "new-1")
    cores.advance(100)
    assert recorded(one, 1) == endpoints_of("new-1")
    end = one.replica.log_end
    cores.advance(5000)
    assert one.replica.log_end == end, "once"


def test_endpoint_order_and_case_cause_no_update() -> None:
    cores, one = formed_cores("1")
    end = one.replica.log_end
    turned = tuple(replace(each, name=each.name.lower()) for each in reversed(one.config.endpoints))
    one.config = replace(one.config, endpoints=turned)
    cores.crash(one)
    cores.restart(one)
    cores.advance(1000)
    assert one.replica.log_end == end + 1, "a leader change and nothing else"


def test_rejected_update_is_retried_after_the_fetch_timeout() -> None:
    cores, one = formed_cores("1", "2", "3")
    nowhere = AddVoterRequest(CLUSTER_ID, key_of(8), endpoints_of("8"), 3000)
    cores.do(one, RequestReceived(5, nowhere))  # a change that keeps others waiting
    cores.move(cores.nodes["3"], "new-3")
    cores.advance(1500)
    assert recorded(one, 3) == endpoints_of("3")
    cores.advance(4000)
    assert recorded(one, 3) == endpoints_of("new-3")


def test_update_voter_supports_compare_and_set() -> None:
    cores, one = formed_cores("1", "2", "3")
    now = one.replica.committed_position()
    moved = (Endpoint("CONTROLLER", "elsewhere", 9093),)
    stale = VotersPosition(now.offset - 1, now.epoch)
    for expected, error in ((stale, RaftError.STALE_VOTERS_POSITION), (now, RaftError.NONE)):
        request = UpdateVoterRequest(CLUSTER_ID, key_of(3), moved, 3000, 1, expected=expected)
        answer = cores.request(one, request)
        assert isinstance(answer, VoterChangeResponse)
        assert answer.error is error


def test_new_replica_joins_automatically_only_if_configured() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.start("4", bootstrap=["1"])
    cores.advance(5000)
    assert ids(one) == [1, 2, 3]
    cores.start("5", bootstrap=["1"], auto_join=True)
    cores.advance(5000)
    assert ids(one) == [1, 2, 3, 5]


def test_tombstone_blocks_automatic_joining_but_not_manual_addition() -> None:
    cores, one = formed_cores("1", "2", "3")
    five = cores.start("5", bootstrap=["1"], auto_join=True)
    cores.advance(3000)
    assert ids(one) == [1, 2, 3, 5]
    cores.remove_voter(one, five.key)
    cores.advance(10_000)
    assert ids(one) == [1, 2, 3], "it does not add itself again"
    request = AddVoterRequest(
        CLUSTER_ID, five.key, five.config.endpoints, 3000, ack_when_committed=False
    )
    answer = cores.request(one, request)
    assert isinstance(answer, VoterChangeResponse)
    assert answer.error is RaftError.TOMBSTONED, "nor does another version of it"
    answer = cores.add_voter(one, five)
    assert answer.error is RaftError.NONE
    assert ids(one) == [1, 2, 3, 5]
    assert one.replica.voters.latest.record.tombstones == ()


def test_tombstones_survive_restarts_and_leader_changes() -> None:
    cores, one = formed_cores("1", "2", "3")
    five = cores.start("5", bootstrap=["1"], auto_join=True)
    cores.advance(3000)
    cores.remove_voter(one, five.key)
    cores.advance(1000)
    for name in ("1", "2", "3"):
        cores.crash(cores.nodes[name])
        cores.restart(cores.nodes[name])
    cores.advance(6000)
    leader = cores.leader
    assert leader.replica.voters.latest.record.tombstones == (five.key,)
    three = next(node for node in cores.nodes.values() if node.name in "23" and node is not leader)
    cores.do(leader, RequestReceived(9, RemoveVoterRequest(CLUSTER_ID, three.key, 3000)))
    cores.advance(6000)
    assert leader.replica.voters.committed.record.tombstones == (five.key, three.key)
    assert 5 not in ids(cores.leader)


def test_empty_disk_of_a_voter_does_not_join_automatically() -> None:
    """(3,U3) is still a voter: whether U3' replaces it requires a decision."""
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    three.config = replace(three.config, auto_join=True)
    cores.lose_disk(three, 2)
    cores.advance(10_000)
    assert [str(key) for key in one.replica.voters.latest.voters.ordered_keys] == [
        str(key_of(1)), str(key_of(2)), str(key_of(3))
    ]  # fmt: skip


def test_newest_tombstones_are_kept_up_to_the_limit() -> None:
    def voters(*keys: ReplicaKey) -> VoterSet:
        return VoterSet(tuple(Voter(key, ()) for key in keys))

    tombstones: tuple[ReplicaKey, ...] = ()
    for number in range(2, 200):
        tombstones = tombstones_after(
            tombstones, voters(key_of(1), key_of(number)), voters(key_of(1))
        )
    assert tombstones == tuple(key_of(number) for number in range(200 - MAX_TOMBSTONES, 200))
    again = tombstones_after(tombstones, voters(key_of(1)), voters(key_of(1), key_of(199)))
    assert again == tombstones[:-1]
