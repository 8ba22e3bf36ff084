"""AlterQuorum, the request: what is taken, refused, repeated and cancelled (KIP-595)."""

from dataclasses import replace
from itertools import pairwise

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.alter_quorum import MAX_TARGET_VOTERS
from quorum_node.raft.events import RequestAbandoned, RequestReceived
from quorum_node.raft.messages import (
    AddVoterRequest,
    AlterQuorumRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    VotersPosition,
)
from quorum_node.raft.voters import VoterSet
from quorum_node.records.control import VotersRecord
from quorum_node.records.identity import Endpoint, ReplicaKey
from support.raft.altered import (
    alter,
    history,
    reach,
    six,
    target,
    target_of,
)
from support.raft.cores import CLUSTER_ID, Node, endpoints_of, formed_cores, key_of


@pytest.mark.requirement("K595-24")
def test_alter_quorum_response_follows_the_commit_of_the_target_not_its_append() -> None:
    cores, one = six()
    cores.crash(cores.nodes["6"])
    cores.advance(2500)
    two, three = cores.nodes["2"], cores.nodes["3"]
    two.hold_flush = three.hold_flush = True
    cores.do(one, RequestReceived(77, AlterQuorumRequest(CLUSTER_ID, target_of((4, 5, 6)), 3000)))
    assert target(one) == [4, 5, 6]
    assert 77 not in one.answers, "the target is written and not committed"
    assert history(one)[-1] == [1, 2, 3], "and nothing is done before it is"
    cores.release_flush(two)
    answer = one.answers[77]
    assert isinstance(answer, VoterChangeResponse)
    assert answer.error is RaftError.NONE
    assert answer.position is not None
    assert answer.position.offset < one.replica.high_watermark
    assert target(one) == [4, 5, 6], "the plan goes on after the answer"


@pytest.mark.requirement("K595-24")
def test_repeated_target_writes_nothing() -> None:
    cores, one = six()
    cores.crash(cores.nodes["4"])
    cores.advance(2500)
    first = alter(one, cores, (1, 2, 4))
    end = one.replica.log_end
    again = alter(one, cores, (4, 2, 1))
    assert (again.error, again.position) == (RaftError.NONE, first.position)
    assert one.replica.log_end == end
    cores.restart(cores.nodes["4"])
    leader = reach(cores, {1, 2, 4})
    end = leader.replica.log_end
    assert alter(leader, cores, (1, 2, 4)).error is RaftError.NONE
    assert leader.replica.log_end == end, "the voters are the target already"


@pytest.mark.requirement("K595-24")
def test_repeated_target_before_the_commit_waits_for_it() -> None:
    cores, one = six()
    cores.partition(["1"], ["2", "3", "4", "5", "6"])
    request = AlterQuorumRequest(CLUSTER_ID, target_of((1, 2, 4)), 60_000)
    cores.do(one, RequestReceived(77, request))
    end = one.replica.log_end
    cores.do(one, RequestReceived(78, request))
    assert one.replica.log_end == end
    assert not {77, 78} & set(one.answers)
    cores.heal()
    reach(cores, {1, 2, 4})
    for number in (77, 78):
        answer = one.answers[number]
        assert isinstance(answer, VoterChangeResponse)
        assert answer.error in (RaftError.NONE, RaftError.LEADERSHIP_LOST)
    assert type(one.answers[77]) is type(one.answers[78])


@pytest.mark.requirement("K595-24")
def test_cancelled_plan_leaves_the_voters_unchanged() -> None:
    cores, one = six()
    cores.crash(cores.nodes["5"])
    cores.crash(cores.nodes["6"])
    cores.advance(2500)
    alter(one, cores, (4, 5, 6))
    cores.advance(1000)
    assert history(one)[-1] == [1, 2, 4], "as far as it goes without 5 and 6"
    assert alter(one, cores, None).error is RaftError.NONE
    assert target(one) is None
    cores.restart(cores.nodes["5"])
    cores.advance(3000)
    assert history(one)[-1] == [1, 2, 4]
    end = one.replica.log_end
    assert alter(one, cores, None).error is RaftError.NONE
    assert one.replica.log_end == end, "no target is left to cancel"


@pytest.mark.requirement("K595-24")
@pytest.mark.parametrize("other", [(1, 2, 3), (2, 4, 6), (5,), (1, 2, 3, 4, 5, 6)])
def test_target_can_be_replaced_half_way(other: tuple[int, ...]) -> None:
    cores, one = six()
    cores.crash(cores.nodes["5"])
    alter(one, cores, (4, 5, 6))
    cores.advance(30)
    assert history(one)[-1] != [1, 2, 3]
    assert alter(cores.leader, cores, other).error is RaftError.NONE
    cores.restart(cores.nodes["5"])
    leader = reach(cores, set(other))
    sets = history(leader)
    assert all(len(set(a) ^ set(b)) == 1 for a, b in pairwise(sets)), sets


@pytest.mark.requirement("K595-24")
def test_replaced_target_drops_an_unwritten_addition() -> None:
    cores, one = six()
    four = cores.nodes["4"]
    four.hold_flush = True
    cores.propose(one, "news")
    alter(one, cores, (1, 2, 4))
    cores.advance(60)
    assert target(one) == [1, 2, 4]
    assert alter(one, cores, (1, 2, 3)).error is RaftError.NONE
    cores.release_flush(four)
    reach(cores, {1, 2, 3})
    assert history(one)[-1] == [1, 2, 3]
    assert not any(4 in ids for ids in history(one))


@pytest.mark.requirement("K595-24")
def test_single_voter_changes_are_rejected_while_a_target_exists() -> None:
    cores, one = six()
    cores.crash(cores.nodes["4"])
    cores.advance(2500)
    alter(one, cores, (1, 2, 4))
    end = one.replica.log_end
    for request in (
        AddVoterRequest(CLUSTER_ID, key_of(5), endpoints_of("5"), 3000),
        RemoveVoterRequest(CLUSTER_ID, key_of(3), 3000),
    ):
        answer = cores.request(one, request)
        assert isinstance(answer, VoterChangeResponse)
        assert answer.error is RaftError.ALTERATION_PENDING
        assert "[1, 2, 4]" in answer.message
        assert "cancel" in answer.message
    assert one.replica.log_end == end
    moved = (Endpoint("CONTROLLER", "3", 9093), Endpoint("ADMIN", "3", 8081))
    update = cores.request(one, UpdateVoterRequest(CLUSTER_ID, key_of(3), moved, 3000, 1))
    assert isinstance(update, VoterChangeResponse)
    assert update.error is RaftError.NONE, "a voter that moves must stay reachable"
    assert target(one) == [1, 2, 4]
    alter(one, cores, None)
    assert cores.remove_voter(one, key_of(3)) is not None
    assert history(one)[-1] == [1, 2]


def test_target_is_rejected_during_a_single_voter_change() -> None:
    cores, one = six()
    four = cores.nodes["4"]
    four.hold_flush = True
    cores.propose(one, "news")
    add = AddVoterRequest(CLUSTER_ID, four.key, four.config.endpoints, 3000)
    cores.do(one, RequestReceived(77, add))
    answer = alter(one, cores, (1, 2, 5))
    assert answer.error is RaftError.VOTER_CHANGE_PENDING
    assert "add" in answer.message
    cores.release_flush(four)
    cores.advance(100)
    assert history(one)[-1] == [1, 2, 3, 4], "the add was not disturbed"


def test_rejections_give_a_reason_and_write_nothing() -> None:
    cores, one = six()
    two = cores.nodes["2"]
    end = one.replica.log_end
    stale = VotersPosition(1, 1)
    cases: list[tuple[Node, AlterQuorumRequest, RaftError]] = [
        (two, AlterQuorumRequest(CLUSTER_ID, target_of((1,)), 3000), RaftError.NOT_QUORUM_LEADER),
        (one, AlterQuorumRequest("x", target_of((1,)), 3000), RaftError.INVALID_CLUSTER_ID),
        (one, AlterQuorumRequest(CLUSTER_ID, (), 3000), RaftError.INVALID_REQUEST),
        (one, AlterQuorumRequest(CLUSTER_ID, target_of((-1, 2)), 3000), RaftError.INVALID_REQUEST),
        (one, AlterQuorumRequest(CLUSTER_ID, (key_of(3), key_of(3, 2)), 3000),
         RaftError.INVALID_REQUEST),
        (one, AlterQuorumRequest(CLUSTER_ID, target_of((1, 4)), 3000, stale),
         RaftError.STALE_VOTERS_POSITION),
    ]  # fmt: skip
    for node, request, error in cases:
        answer = cores.request(node, request)
        assert isinstance(answer, VoterChangeResponse)
        assert answer.error is error, request
        assert answer.message
        assert answer.leader.leader_id == 1
    assert one.replica.log_end == end


def test_expected_position_is_compared() -> None:
    cores, one = six()
    here = one.replica.committed_position()
    request = AlterQuorumRequest(CLUSTER_ID, target_of((1, 2, 4)), 3000, here)
    answer = cores.request(one, request)
    assert isinstance(answer, VoterChangeResponse)
    assert answer.error is RaftError.NONE


@pytest.mark.requirement("K595-24")
def test_timeout_before_the_write_changes_nothing_and_after_it_the_outcome_is_unknown() -> None:
    cores, one = six()
    cores.partition(["1"], ["2", "3", "4", "5", "6"])
    cores.do(one, RequestReceived(77, AlterQuorumRequest(CLUSTER_ID, target_of((1, 2, 4)), 500)))
    cores.do(one, RequestReceived(78, AlterQuorumRequest(CLUSTER_ID, target_of((1, 2, 5)), 500)))
    cores.advance(600)
    written, waiting = one.answers[77], one.answers[78]
    assert isinstance(written, VoterChangeResponse)
    assert isinstance(waiting, VoterChangeResponse)
    assert written.error is waiting.error is RaftError.REQUEST_TIMED_OUT
    assert "open" in written.message
    assert "nothing was changed" in waiting.message
    assert target(one) == [1, 2, 4]


def test_abandoned_request_is_dropped_unless_it_is_written() -> None:
    cores, one = six()
    cores.partition(["1"], ["2", "3", "4", "5", "6"])
    cores.do(one, RequestReceived(77, AlterQuorumRequest(CLUSTER_ID, target_of((1, 2, 4)), 9000)))
    cores.do(one, RequestReceived(78, AlterQuorumRequest(CLUSTER_ID, target_of((1, 2, 5)), 9000)))
    cores.do(one, RequestAbandoned(78))
    cores.do(one, RequestAbandoned(77))
    cores.heal()
    cores.advance(1500)
    assert target(one) in ([1, 2, 4], None)
    assert not any(5 in ids for ids in history(one))


def test_target_is_rejected_while_a_voter_lacks_the_feature() -> None:
    """Such a voter doesn't support answer rounds, and its entry doesn't show it."""
    cores, one = six()
    voters = one.replica.voters
    entry = voters.latest.voters.get(key_of(3))
    assert entry is not None
    assert entry.private_features
    stranger = replace(entry, private_features=0)
    record = VotersRecord((*voters.latest.voters.removed(key_of(3)), stranger), CLUSTER_ID)
    voters._entries[-1] = replace(voters.latest, voters=VoterSet(record.voters), record=record)
    assert alter(one, cores, (1, 2, 3, 9)).error is RaftError.NONE, "3 supports answer rounds"
    alter(one, cores, None)
    role = one.replica.role
    role.progress[key_of(3)].stock = True  # type: ignore[union-attr]
    answer = alter(one, cores, (1, 2, 3, 9))
    assert answer.error is RaftError.VOTER_LACKS_FEATURE
    assert str(key_of(3)) in answer.message
    assert "AddVoter" in answer.message


def test_target_with_too_many_voters_is_rejected() -> None:
    cores, leader = formed_cores("1", "2", "3")
    wanted = tuple(ReplicaKey(number) for number in range(MAX_TARGET_VOTERS + 1))
    refused = cores.request(leader, AlterQuorumRequest(CLUSTER_ID, wanted, 3000, None))
    assert refused.error is RaftError.INVALID_REQUEST
    assert leader.replica.voters.latest.record.target_voters is None
