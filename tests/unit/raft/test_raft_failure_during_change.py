"""Voters fail while a voter change is written and not committed: the leader must not wait for a majority of the set before it for good."""

from quorum_node.raft.messages import AddVoterRequest, RemoveVoterRequest
from support.raft.cores import CLUSTER_ID, Cores, formed_cores


def commits(cores: Cores, voters: int) -> bool:
    """Whether the change to so many voters is committed, and a write after it."""
    cores.advance(20_000)
    leader = cores.leader
    known = leader.replica.voters
    proposal = cores.propose(leader, "after")
    cores.advance(500)
    is_changed = known.latest_is_committed and len(known.latest.voters) == voters
    return is_changed and proposal in leader.committed


def test_voter_dies_during_its_removal_and_one_voter_is_left() -> None:
    cores, leader = formed_cores("1", "2")
    removed = cores.nodes["2"]
    removed.hold_flush = True
    assert cores.request(leader, RemoveVoterRequest(CLUSTER_ID, removed.key, 3_000)) is None
    cores.crash(removed)
    assert commits(cores, voters=1)


def test_a_voter_dies_with_the_one_that_is_being_removed() -> None:
    cores, leader = formed_cores("1", "2", "3", "4")
    for name in ("3", "4"):
        cores.nodes[name].hold_flush = True
    request = RemoveVoterRequest(CLUSTER_ID, cores.nodes["4"].key, 3_000)
    assert cores.request(leader, request) is None
    for name in ("3", "4"):
        cores.crash(cores.nodes[name])
    assert commits(cores, voters=3)


def test_the_other_voter_dies_while_a_third_one_is_added() -> None:
    cores, leader = formed_cores("1", "2")
    new = cores.start("3", bootstrap=["1"])
    cores.advance(500)
    cores.nodes["2"].hold_flush = True
    request = AddVoterRequest(CLUSTER_ID, new.key, new.config.endpoints, 3_000)
    assert cores.request(leader, request) is None
    cores.advance(300)
    assert not leader.replica.voters.latest_is_committed
    cores.crash(cores.nodes["2"])
    assert commits(cores, voters=3)
