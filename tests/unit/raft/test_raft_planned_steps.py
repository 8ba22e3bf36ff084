"""AlterQuorum, its steps: one change at a time, by the current leader (KIP-595)."""

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.events import RequestReceived
from quorum_node.raft.messages import (
    AlterQuorumRequest,
    VoterChangeResponse,
)
from quorum_node.records.batches import split_batches
from quorum_node.records.identity import ReplicaKey
from support.raft.altered import (
    alter,
    history,
    reach,
    records,
    six,
    target,
    target_of,
)
from support.raft.cores import CLUSTER_ID, formed_cores, key_of


@pytest.mark.requirement("K595-23")
def test_one_call_replaces_all_three_voters() -> None:
    cores, one = six()
    answer = alter(one, cores, (4, 5, 6))
    assert answer.error is RaftError.NONE
    leader = reach(cores, {4, 5, 6})
    sets = history(leader)[2:]
    assert sets == [
        [1, 2, 3],
        [1, 2, 3, 4],
        [1, 2, 4],
        [1, 2, 4, 5],
        [1, 4, 5],
        [1, 4, 5, 6],
        [4, 5, 6],
    ]
    assert leader.replica.epoch == 2, "the one election is the hand-over of the leader that leaves"
    cores.advance(1000)
    assert not one.replica.is_voter
    assert cores.propose(leader, "after") in leader.committed


@pytest.mark.requirement("K595-23")
def test_target_is_in_every_voters_record_until_it_is_reached() -> None:
    cores, one = six()
    alter(one, cores, (4, 5, 6))
    leader = reach(cores, {4, 5, 6})
    targets = [record.target_voters for record in records(leader)][3:]
    assert targets == [target_of((4, 5, 6))] * 7 + [None]


@pytest.mark.requirement("K595-23", "K595-26")
def test_no_replica_becomes_a_voter_before_it_has_caught_up() -> None:
    cores, one = six()
    cores.partition(["1", "2", "3", "5", "6"], ["4"])
    cores.advance(2500)
    alter(one, cores, (1, 2, 4))
    cores.advance(2000)
    assert history(one)[-1] == [1, 2, 3]
    assert "not caught up" in one.replica.describe(cores.now_ms).plan
    cores.heal()
    reach(cores, {1, 2, 4})


@pytest.mark.requirement("K595-23")
def test_dead_voter_is_replaced_and_blocks_nothing() -> None:
    cores, one = six()
    cores.crash(cores.nodes["3"])
    cores.advance(2500)
    assert alter(one, cores, (1, 2, 4)).error is RaftError.NONE
    reach(cores, {1, 2, 4})
    assert history(one)[-3:] == [[1, 2, 3], [1, 2], [1, 2, 4]], "removed first: the change rule"


@pytest.mark.requirement("K595-23")
def test_live_majority_is_never_removed() -> None:
    cores, one = six()
    cores.crash(cores.nodes["2"])
    cores.advance(2500)
    alter(one, cores, (1, 2, 4))
    cores.advance(3000)
    assert history(one)[-1] == [1, 2, 3], "1 and 3 are no majority of four"
    alter(one, cores, (1, 2))
    cores.advance(3000)
    assert history(one)[-1] == [1, 2, 3], "without 3 only 1 would be left of 1 and 2"
    assert "1 live voters would remain, 2 needed" in one.replica.describe(cores.now_ms).plan
    alter(one, cores, (1, 2, 4))
    cores.restart(cores.nodes["2"])
    reach(cores, {1, 2, 4})


@pytest.mark.requirement("K595-23")
def test_target_survives_a_restart_of_all_replicas() -> None:
    cores, one = six()
    cores.crash(cores.nodes["6"])
    cores.advance(2500)
    alter(one, cores, (4, 5, 6))
    cores.advance(1000)
    nodes = [node for node in cores.nodes.values() if node.up]
    for node in nodes:
        cores.crash(node)
    for node in nodes:
        cores.restart(node)
    cores.advance(4000)
    assert target(cores.leader) == [4, 5, 6]
    cores.restart(cores.nodes["6"])
    reach(cores, {4, 5, 6})


@pytest.mark.requirement("K595-03", "K595-23")
def test_target_is_restored_from_quorum_state_alone() -> None:
    """A replica with a log that no longer contains the record has the target in quorum-state."""
    cores, one = six()
    cores.crash(cores.nodes["4"])
    cores.advance(2500)
    alter(one, cores, (1, 2, 4))
    cores.advance(100)
    assert one.state is not None
    assert one.state.target_voters == target_of((1, 2, 4))
    cores.crash(one)
    for batch in list(one.batches):
        if split_batches(batch.data)[0][0].header.is_control:
            one.batches.remove(batch)
    cores.restart(one)
    assert target(one) == [1, 2, 4]


@pytest.mark.requirement("K595-04")
def test_truncated_target_is_discarded() -> None:
    cores, one = six()
    cores.partition(["1"], ["2", "3", "4", "5", "6"])
    cores.do(one, RequestReceived(77, AlterQuorumRequest(CLUSTER_ID, target_of((4, 5, 6)), 9000)))
    assert target(one) == [4, 5, 6]
    cores.advance(5000)
    assert cores.leader is not one
    cores.heal()
    cores.advance(3000)
    assert target(one) is None
    assert history(one)[-1] == [1, 2, 3]
    answer = one.answers[77]
    assert isinstance(answer, VoterChangeResponse)
    assert answer.error is RaftError.LEADERSHIP_LOST


def test_one_voter_is_replaced_by_another() -> None:
    cores, one = formed_cores("1")
    cores.start("2", bootstrap=["1"])
    cores.advance(300)
    alter(one, cores, (2,))
    leader = reach(cores, {2})
    assert leader is cores.nodes["2"]


def test_leader_is_replaced_by_another_disk_under_its_own_id() -> None:
    cores, one = formed_cores("1", "2", "3")
    other = cores.start("1'", 1, incarnation=2, bootstrap=["1", "2"])
    cores.advance(700)
    answer = cores.request(
        one,
        AlterQuorumRequest(CLUSTER_ID, (key_of(1, 2), ReplicaKey(2), ReplicaKey(3)), 3000),
    )
    assert isinstance(answer, VoterChangeResponse)
    assert answer.error is RaftError.NONE
    leader = reach(cores, {1, 2, 3})
    assert key_of(1, 2) in leader.replica.voters.latest.voters
    assert key_of(1) not in leader.replica.voters.latest.voters
    assert other.replica.is_voter


def test_single_voter_grows_to_three() -> None:
    cores, one = formed_cores("1")
    for name in ("2", "3"):
        cores.start(name, bootstrap=["1"])
    cores.advance(300)
    alter(one, cores, (1, 2, 3))
    reach(cores, {1, 2, 3})


def test_describe_shows_target_and_progress() -> None:
    cores, one = six()
    cores.crash(cores.nodes["6"])
    cores.advance(2500)
    assert one.replica.describe(cores.now_ms).target_voters is None
    alter(one, cores, (2, 4, 6))
    cores.advance(1000)
    seen = cores.leader.replica.describe(cores.now_ms)
    assert seen.target_voters == target_of((2, 4, 6))
    assert "(6, ?)" in seen.plan
    follower = cores.nodes["2"].replica.describe(cores.now_ms)
    assert follower.target_voters == target_of((2, 4, 6)), "a replica lacks the record"


@pytest.mark.requirement("K595-23")
def test_new_replica_that_dies_during_its_addition_is_replaced_by_another() -> None:
    cores, one = six()
    cores.crash(cores.nodes["4"])
    assert alter(one, cores, (4, 5, 6)).error is RaftError.NONE
    plan = one.replica.describe(cores.now_ms).plan
    assert plan.startswith(f"add {key_of(4)}: probing"), "it fetched a moment ago"
    cores.advance(2500)
    assert history(cores.leader)[-1] == [1, 6, 5] or 5 in history(cores.leader)[-1]
    cores.restart(cores.nodes["4"])
    reach(cores, {4, 5, 6})
