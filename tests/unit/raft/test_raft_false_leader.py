"""A replica believes in a false leader of the present epoch, which is gone afterwards: it must find the real one without an election by chance.

A quorum may stay in one epoch for months. Until the next one the misled replica would be missing, also after a restart.
"""

import pytest

from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import ResponseReceived, TimerExpired
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import (
    NO_LEADER,
    BeginQuorumEpochRequest,
    CurrentLeader,
    FetchRequest,
    FetchResponse,
    RemoveVoterRequest,
)
from quorum_node.raft.outputs import Output
from quorum_node.raft.roles import Follower
from quorum_node.raft.transitions import become_follower, become_unattached, observe_leader
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, formed_cores, key_of

LIAR = "9"


def in_a_later_epoch(name: str, *names: str) -> tuple[Cores, Node]:
    """A quorum that elected a leader again while that replica was cut off, as is the liar; and the replica."""
    cores, one = formed_cores(*names)
    cores.start(LIAR)
    node = cores.nodes.get(name) or cores.start(name, bootstrap=names[:2], run=False)
    rest = [each for each in cores.nodes if each not in (name, LIAR)]
    cores.partition(rest, [name], [LIAR])
    cores.crash(one)
    cores.restart(one)
    cores.advance(6_000)
    return cores, node


def answer_fetch(cores: Cores, node: Node, error: RaftError, leader: CurrentLeader) -> None:
    """Answer its fetch in flight."""
    for _ in range(60):
        for correlation, sent in node.replica.outstanding.items():
            if isinstance(sent.request, FetchRequest):
                cores.do(node, ResponseReceived(correlation, FetchResponse(error, leader)))
                return
        cores.advance(100)
    raise AssertionError("it sent no fetch")


def mislead(cores: Cores, node: Node, leader: CurrentLeader) -> None:
    """Others name this leader, and it answers once."""
    for _ in range(30):
        answer_fetch(cores, node, RaftError.NOT_QUORUM_LEADER, leader)
        if node.replica.leader_id == leader.leader_id:
            break
    for _ in range(5):  # it may have asked others as well
        answer_fetch(cores, node, RaftError.NONE, leader)
        if node.replica.bound_leader_id == leader.leader_id:
            break
    assert node.replica.bound_leader_id == leader.leader_id
    cores.crash(cores.nodes[LIAR])


def follows_the_leader(cores: Cores, node: Node) -> bool:
    leader = cores.leader.replica
    return (node.replica.leader_id, node.replica.epoch) == (leader.key.id, leader.epoch)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("is_unknown", [False, True])
@pytest.mark.parametrize("name", ["3", "6"])
def test_misled_replica_returns_when_the_false_leader_is_gone(
    name: str, is_unknown: bool, restarts: bool
) -> None:
    """A voter and a new replica. A false leader that is a voter, or that is none."""
    cores, node = in_a_later_epoch(name, "1", "2", "3")
    leader = cores.leader.replica
    epoch = leader.epoch
    false_id = 77 if is_unknown else next(each for each in (1, 2) if each != leader.key.id)
    mislead(cores, node, CurrentLeader(false_id, epoch, endpoints_of(LIAR)[0]))
    if restarts:
        cores.crash(node)
        cores.restart(node)
    cores.heal()
    cores.advance(20_000)
    assert follows_the_leader(cores, node)
    if name == "6":
        assert leader.epoch == epoch, "no election for a replica that is no voter"


def test_voter_returns_after_a_forged_request_of_a_voter_that_is_down() -> None:
    cores = Cores()
    two = cores.quorum("2", "1", "3", "4", "5")
    three = cores.nodes["3"]
    cores.crash(three)
    cores.crash(two)
    cores.advance(6_000)
    epoch = cores.leader.replica.epoch
    cores.partition(["1", "4", "5"], ["3"])
    cores.restart(three)
    cores.advance(4_500)
    forged = BeginQuorumEpochRequest(CLUSTER_ID, 2, epoch, three.key, endpoints_of("2")[0])
    cores.request(three, forged)
    assert three.replica.bound_leader_id == 2
    cores.heal()
    cores.advance(20_000)
    assert follows_the_leader(cores, three)
    assert cores.leader.replica.epoch > epoch
    epoch = cores.leader.replica.epoch
    cores.advance(20_000)
    assert cores.leader.replica.epoch == epoch, "one new epoch is sufficient"


def test_voter_that_is_being_removed_returns_without_an_election() -> None:
    """No leader sends it BeginQuorumEpoch any more, and it does not know whether its removal is committed."""
    cores, one = formed_cores("1", "2", "3", "4")
    cores.start(LIAR)
    four = cores.nodes["4"]
    for name in ("2", "3"):
        cores.nodes[name].hold_flush = True
    removal = RemoveVoterRequest(CLUSTER_ID, four.key, 3_000)
    assert cores.request(one, removal) is None, "it is not committed"
    assert four.replica.may_have_to_vote()
    assert not four.replica.is_voter
    cores.partition(["1", "2", "3"], ["4"], [LIAR])
    for name in ("2", "3"):
        cores.release_flush(cores.nodes[name])
    cores.crash(one)
    cores.restart(one)
    cores.advance(6_000)
    epoch = cores.leader.replica.epoch
    mislead(cores, four, CurrentLeader(77, epoch, endpoints_of(LIAR)[0]))
    assert four.replica.may_have_to_vote()
    cores.heal()
    cores.advance(20_000)
    assert follows_the_leader(cores, four)
    assert cores.leader.replica.epoch == epoch
    assert four.replica.voters.latest_is_committed


def test_leader_at_the_address_that_others_named_falsely_is_followed_under_its_own_id() -> None:
    """A false claim names another voter, which is down, at the address of the real leader."""
    cores, three = in_a_later_epoch("3", "1", "2", "3", "4", "5")
    leader = cores.leader.replica
    false_id = next(each for each in (1, 2, 4, 5) if each != leader.key.id)
    asked = [
        correlation
        for correlation, sent in three.replica.outstanding.items()
        if isinstance(sent.request, FetchRequest)
    ]
    cores.crash(cores.nodes[str(false_id)])
    claim = CurrentLeader(false_id, leader.epoch, leader.controller_endpoint)
    cores.heal()
    cores.do(three, ResponseReceived(asked[0], FetchResponse(RaftError.NOT_QUORUM_LEADER, claim)))
    cores.advance(1_000)
    assert follows_the_leader(cores, three)
    assert three.replica.high_watermark == leader.high_watermark
    assert three.state is not None
    assert (three.state.leader_epoch, three.state.leader_id) == (leader.epoch, leader.key.id)


def test_second_leader_is_durable_after_the_one_that_got_the_vote_named_it() -> None:
    """The vote on the disk identifies the first leader, not the second one."""
    cores, three = in_a_later_epoch("3", "1", "2", "3")
    replica = three.replica
    outputs: list[Output] = []
    replica.out = outputs
    become_unattached(replica, 7)
    replica.set_vote(key_of(1))
    replica.persist()
    become_follower(replica, 7, 1, endpoints_of("1")[0])
    cores._execute_all(three, outputs)
    second = CurrentLeader(2, 7, endpoints_of("2")[0])
    for error, bound_id in ((RaftError.NOT_QUORUM_LEADER, NO_LEADER), (RaftError.NONE, 2)):
        cores.do(three, TimerExpired())
        role = replica.role
        assert isinstance(role, Follower)
        assert role.fetching is not None
        cores.do(three, ResponseReceived(role.fetching, FetchResponse(error, second)))
        assert (replica.leader_id, replica.bound_leader_id) == (2, bound_id)
    assert three.state is not None
    assert (three.state.leader_epoch, three.state.leader_id) == (7, 2)


def removed_and_misled() -> tuple[Cores, Node]:
    """A removed voter that was cut off, does not know of its removal, and believes in a false leader that is gone."""
    cores, one = formed_cores("1", "2", "3", "4")
    cores.start(LIAR)
    four = cores.nodes["4"]
    cores.partition(["1", "2", "3"], ["4"], [LIAR])
    assert cores.remove_voter(one, four.key).error is RaftError.NONE
    cores.crash(one)
    cores.restart(one)
    cores.advance(6_000)
    assert four.replica.is_voter, "as far as it knows"
    epoch = cores.leader.replica.epoch
    mislead(cores, four, CurrentLeader(77, epoch, endpoints_of(LIAR)[0]))
    cores.heal()
    return cores, four


def test_removed_voter_with_a_false_leader_can_be_added_again() -> None:
    """No voter knows that it believes in a false leader: the leader has to announce itself."""
    cores, four = removed_and_misled()
    epoch = cores.leader.replica.epoch
    cores.advance(20_000)
    assert cores.leader.replica.epoch == epoch, "no election for a replica that nobody wants"
    errors = []
    for _ in range(6):
        errors.append(cores.add_voter(cores.leader, four).error)
        if errors[-1] is RaftError.NONE:
            break
        cores.advance(1_000)
    assert errors[-1] is RaftError.NONE, errors
    assert follows_the_leader(cores, four)
    assert cores.leader.replica.epoch > epoch
    epoch = cores.leader.replica.epoch
    cores.advance(20_000)
    assert cores.leader.replica.epoch == epoch, "no further election"


def test_no_epoch_is_begun_for_a_replica_whose_add_was_given_up() -> None:
    cores, four = removed_and_misled()
    epoch = cores.leader.replica.epoch
    assert cores.add_voter(cores.leader, four).error is RaftError.REQUEST_TIMED_OUT
    cores.advance(20_000)
    assert cores.leader.replica.epoch == epoch
    role = cores.leader.replica.role
    assert isinstance(role, Leader)
    assert not role.unendorsed, "it is not asked for any more"


@pytest.mark.parametrize("restarts", [False, True])
def test_follower_that_was_told_of_a_false_leader_returns(restarts: bool) -> None:
    """It has followed the leader before, and fetches from it while it looks for one: this is no sign that it follows."""
    cores, one = formed_cores("1", "2", "3")
    cores.start(LIAR)
    three = cores.nodes["3"]
    cores.advance(3_000)
    assert follows_the_leader(cores, three)
    cores.partition(["1", "2"], ["3"], [LIAR])
    mislead(cores, three, CurrentLeader(77, one.replica.epoch, endpoints_of(LIAR)[0]))
    if restarts:
        cores.crash(three)
        cores.restart(three)
    cores.heal()
    cores.advance(20_000)
    assert follows_the_leader(cores, three)
    epoch = cores.leader.replica.epoch
    cores.advance(20_000)
    assert cores.leader.replica.epoch == epoch, "no further election"


def test_voter_returns_whose_acknowledgement_its_removal_needs() -> None:
    """The only other voter, which believes that it leads itself at another address: no election by others helps."""
    cores, leader = formed_cores("1", "2")
    cores.start(LIAR)
    other = next(node for node in cores.nodes.values() if node.name not in (leader.name, LIAR))
    cores.partition([leader.name], [other.name], [LIAR])
    mislead(
        cores,
        other,
        CurrentLeader(other.replica.key.id, leader.replica.epoch, endpoints_of(LIAR)[0]),
    )
    removal = RemoveVoterRequest(CLUSTER_ID, other.replica.key, 3_000)
    assert cores.request(leader, removal) is None, "it is not committed"
    cores.heal()
    cores.advance(20_000)
    voters = cores.leader.replica.voters
    assert voters.latest.voters.ordered_keys == (leader.replica.key,)
    assert voters.latest_is_committed


def test_observer_introduces_itself_to_the_leader_after_a_false_address_has_answered() -> None:
    """AlterQuorum adds no observer whose address the leader does not know."""
    cores, one = formed_cores("1", "2", "3")
    nine = cores.start(LIAR, bootstrap=("1", "2"))
    cores.start("8")
    cores.advance(2000)
    cores.partition(["1", "2", "3", LIAR], ["8"])
    replica = nine.replica
    leader, end = CurrentLeader(1, replica.epoch, endpoints_of("1")[0]), replica.log_end
    become_unattached(replica, replica.epoch)
    follower = become_follower(replica, replica.epoch, 1, endpoints_of("8")[0], hearsay=True)
    cores.do(nine, TimerExpired())
    assert follower.introducing
    assert follower.fetching is not None
    assert not observe_leader(replica, leader, 2, error=RaftError.NONE)
    assert follower.endpoint == leader.endpoint
    answer = FetchResponse(RaftError.NONE, leader, high_watermark=end)
    one.replica.role.progress.clear()  # type: ignore[union-attr]
    cores.do(nine, ResponseReceived(follower.fetching, answer))
    cores.advance(1000)
    assert isinstance(one.replica.role, Leader)
    assert one.replica.role.progress[nine.key].endpoints == nine.config.endpoints
