"""The messages of a node without a leader, or with one that it can't forward a request to."""

from dataclasses import replace

import pytest

from quorum_node.api import ErrorCode
from quorum_node.raft.description import ReplicaDescription
from quorum_node.raft.messages import NO_LEADER
from quorum_node.records.identity import Endpoint, Voter
from quorum_node.server.admin.leader import elsewhere
from quorum_node.server.admin.views import catch_up, leaderless
from support.raft.cores import Cores, endpoints_of, key_of

LEADER_ENDPOINT = Endpoint("CONTROLLER", "java.local", 9093)


def description(**changed: object) -> ReplicaDescription:
    """Node 3 of a quorum of three, as described by its own core."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    found = cores.nodes["3"].replica.describe(cores.now_ms)
    return replace(found, **changed)  # type: ignore[arg-type]


def test_witness_without_leader_names_eligible_voters() -> None:
    alone = description(leader_id=NO_LEADER, witness=True)
    assert "witness" in leaderless(alone)
    assert "(1, 2)" in leaderless(alone)
    assert "quorum.witness=false" in leaderless(alone)
    assert catch_up(alone, 0, 2000).reason == leaderless(alone)
    assert "witness" not in leaderless(replace(alone, witness=False))
    assert "witness" not in leaderless(replace(alone, is_voter=False))


def test_witness_with_the_longest_log_is_reported() -> None:
    requested = description(leader_id=NO_LEADER, witness=True, refused_shorter=key_of(2))
    assert "voter 2 asked for its vote, but lacks records" in leaderless(requested)


def test_witness_as_last_voter_is_reported() -> None:
    last = (Voter(key_of(3), endpoints_of("3")),)
    text = leaderless(description(leader_id=NO_LEADER, witness=True, voters=last))
    assert "there is no other voter" in text


def test_silent_leader_is_reported() -> None:
    silent = description(witness=True, last_leader_contact_ms=0.0)
    reason = catch_up(silent, 60_000, 2000).reason
    assert reason.startswith("last answer from leader 1 60000 ms ago")
    assert "quorum.witness=false" in reason


@pytest.mark.parametrize(
    ("voters", "code", "words"),
    [
        ((Voter(key_of(1), (LEADER_ENDPOINT,)),), ErrorCode.LEADER_IS_STOCK, "java.local:9093"),
        ((), ErrorCode.LEADER_IS_STOCK, "no admin API"),
    ],
)
def test_leader_without_an_admin_api_is_reported(
    voters: tuple[Voter, ...], code: ErrorCode, words: str
) -> None:
    found = elsewhere(description(voters=voters, leader_endpoint=LEADER_ENDPOINT))
    assert (found.status, found.code) == (409, code)
    assert words in found.message
    assert "Nothing was changed" in found.message


def test_missing_leader_is_reported() -> None:
    found = elsewhere(description(leader_id=NO_LEADER))
    assert (found.status, found.code) == (503, ErrorCode.NO_LEADER)
    assert found.message == "no leader is known; try again"


def test_follower_redirects_to_the_leader_and_executes_nothing() -> None:
    leader = Voter(key_of(1), (LEADER_ENDPOINT, Endpoint("ADMIN", "fd00::1", 8080)))
    found = elsewhere(description(voters=(leader,)))
    assert (found.status, found.code) == (421, ErrorCode.NOT_LEADER)
    assert "http://[fd00::1]:8080" in found.message
    assert "Nothing was changed" in found.message
