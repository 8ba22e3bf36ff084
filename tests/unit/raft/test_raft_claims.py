"""BeginQuorumEpoch proves nothing: when it is accepted, and which node is queried otherwise."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from quorum_node.raft import QuorumState, RaftError
from quorum_node.raft.events import ResponseReceived
from quorum_node.raft.messages import (
    NO_LEADER,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    CurrentLeader,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    ResignRequest,
)
from quorum_node.raft.outputs import Output, RoleChanged, Send
from quorum_node.raft.roles import Follower
from quorum_node.raft.transitions import become_follower, become_unattached
from quorum_node.records.identity import Endpoint
from quorum_node.records.snapshot_id import SnapshotId
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, formed_cores

STRANGER = Endpoint("CONTROLLER", "stranger", 9093)


def begin(
    cores: Cores, node: Node, leader_id: int, epoch: int, place: Endpoint | None = STRANGER
) -> BeginQuorumEpochResponse:
    request = BeginQuorumEpochRequest(CLUSTER_ID, leader_id, epoch, node.key, place)
    answer = cores.request(node, request)
    assert isinstance(answer, BeginQuorumEpochResponse)
    return answer


def sent_to_unknown_node(cores: Cores) -> Callable[[], int]:
    """Counts what is sent to the unknown node from now on."""
    count = 0

    def note(_: Node, output: object) -> None:
        nonlocal count
        count += isinstance(output, Send) and output.destination.host == STRANGER.host

    cores.observer = note
    return lambda: count


@pytest.mark.requirement("K595-11")
@pytest.mark.parametrize("leader_id", [1, 2, 3, 77])
@pytest.mark.parametrize("ahead", [0, 1, 500, 60_000])
@pytest.mark.parametrize("requested", ["1", "2"])
def test_follower_does_not_switch_from_its_leader_to_an_unconfirmed_one(
    leader_id: int, ahead: int, requested: str
) -> None:
    """For any claimed identity, the epoch doesn't increase, the leader stays and the unknown node gets no request."""
    cores, one = formed_cores("1", "2", "3")
    received = sent_to_unknown_node(cores)
    for _ in range(20):
        begin(cores, cores.nodes[requested], leader_id, one.replica.epoch + ahead)
        cores.advance(200)
    assert received() == 0
    assert cores.leader is one
    assert {node.replica.epoch for node in cores.nodes.values()} == {1}
    assert {node.replica.leader_id for node in cores.nodes.values()} == {1}


@pytest.mark.requirement("K595-11")
@pytest.mark.parametrize("leader_id", [2, 3, 77])
def test_unknown_leader_is_not_followed_without_confirmation(leader_id: int) -> None:
    """2 and 3 run, and have not received it."""
    cores = Cores()
    cores.quorum("1", "2", "3", "4", "5")
    for name in ("1", "4", "5"):
        cores.crash(cores.nodes[name])
    received = sent_to_unknown_node(cores)
    for _ in range(40):
        cores.advance(100)
        epoch = cores.nodes["2"].replica.epoch
        answer = begin(cores, cores.nodes["2"], leader_id, epoch + 1)
        assert answer.error is not RaftError.NONE
    assert received() == 0
    assert cores.nodes["2"].replica.leader_id != leader_id


@pytest.mark.requirement("K595-11")
def test_unknown_leader_is_followed_after_a_known_voter_confirms_it() -> None:
    """3 missed how 4 became a voter; 1 and 2 confirm that 4 leads."""
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    cores.crash(three)
    four = cores.start("4", bootstrap=["1"])
    cores.advance(100)
    added = cores.add_voter(one, four)
    assert added.error is RaftError.NONE
    cores.request(one, ResignRequest(four.key))
    cores.advance(500)
    assert four.is_leader
    cores.partition(["1", "2", "4"], ["3"])
    cores.restart(three)
    assert not any(each.voters.newest(4) for each in three.replica.voters.entries)
    cores.heal()
    answer = begin(cores, three, 4, four.replica.epoch, endpoints_of("4")[0])
    assert answer.error in (RaftError.UNKNOWN_LEADER_EPOCH, RaftError.NONE)
    cores.advance(5000)
    assert three.replica.leader_id == 4
    assert three.replica.epoch == four.replica.epoch


@pytest.mark.requirement("K595-11", "K853-07")
def test_moved_leader_is_followed_after_its_old_address_is_unused() -> None:
    """Only its own BeginQuorumEpoch contains its new address, as with stock replicas."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    cores.crash(cores.nodes["1"])
    cores.partition(["1"], ["2"], ["3"])
    cores.crash(three)
    place = Endpoint("CONTROLLER", "elsewhere", 9093)
    epoch = two.replica.epoch + 1
    answer = begin(cores, two, 3, epoch, place)
    assert answer.error is RaftError.UNKNOWN_LEADER_EPOCH
    cores.advance(600)
    assert (two.replica.leader_id, two.replica.epoch) == (3, epoch)


@pytest.mark.requirement("K595-11")
@pytest.mark.parametrize("answers", [True, False])
def test_leader_of_a_known_epoch_is_found_at_another_address(answers: bool) -> None:
    """Its id was taken over by another replica during a pause of this one: it knows the epoch, and the previous address."""
    cores, one = formed_cores("1", "2", "3")
    two = cores.nodes["2"]
    if not answers:
        cores.crash(cores.nodes["3"])
    assert isinstance(two.replica.role, Follower)
    two.replica.role.endpoint = STRANGER
    cores.advance(10_000)
    assert (two.replica.epoch, two.replica.leader_id) == (one.replica.epoch, 1)
    proposal = cores.propose(one, "a")
    cores.advance(2000)
    assert two.values() == ["a"]
    assert proposal in one.committed


@pytest.mark.requirement("K595-11")
def test_leader_claim_fails_when_the_voter_itself_is_at_its_old_address() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    cores.crash(cores.nodes["1"])
    cores.partition(["1"], ["2"], ["3"])
    cores.advance(3000)
    cores.heal()
    epoch = two.replica.epoch + 1
    received = sent_to_unknown_node(cores)
    assert begin(cores, two, 3, epoch).error is not RaftError.NONE
    assert two.replica.claim is None, "3 has answered"
    cores.advance(3000)
    assert received() == 0
    assert two.replica.leader_id in (2, 3)
    assert three.replica.leader_id == two.replica.leader_id


def with_a_saved_leader(leader_id: int) -> tuple[Cores, Node]:
    """Voter 2 after a restart in epoch 7, with that voter as the last known leader; no node answers."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    two = cores.nodes["2"]
    cores.crash(cores.nodes["1"])
    cores.partition(["1"], ["2"], ["3"])
    cores.crash(two)
    two.state = QuorumState(7, leader_id, cluster_id=CLUSTER_ID, formed=True)
    cores.restart(two)
    become_unattached(two.replica, 7)
    cores.advance(100)
    assert two.replica.leader_id == -1
    return cores, two


def answered_by(cores: Cores, two: Node, responder_id: int, leader_id: int) -> None:
    """That voter names the leader of epoch 7, in every answer."""
    for correlation, sent in list(two.replica.outstanding.items()):
        requested = sent.peer is not None and sent.peer.id == responder_id
        if requested and isinstance(sent.request, FetchRequest):
            endpoint = endpoints_of(str(leader_id))[0] if leader_id > 0 else None
            leader = CurrentLeader(leader_id, 7, endpoint)
            answer = FetchResponse(RaftError.NOT_QUORUM_LEADER, leader)
            cores.do(two, ResponseReceived(correlation, answer))


def answered_as_leader(cores: Cores, two: Node, leader_id: int) -> bool:
    """That voter answers as the leader of epoch 7, once it is asked."""
    for _ in range(20):
        role = two.replica.role
        fetching = role.fetching if isinstance(role, Follower) else None
        if fetching is not None:
            leader = CurrentLeader(leader_id, 7, endpoints_of(str(leader_id))[0])
            cores.do(two, ResponseReceived(fetching, FetchResponse(RaftError.NONE, leader)))
            return True
        cores.advance(100)
    return False


@pytest.mark.requirement("K595-03", "K595-11")
def test_response_naming_a_second_leader_of_the_epoch_is_ignored() -> None:
    cores, two = with_a_saved_leader(1)
    for _ in range(20):
        answered_by(cores, two, 3, 3)
        cores.advance(100)
        assert (two.replica.epoch, two.replica.leader_id) == (7, -1)


@pytest.mark.requirement("K595-11")
@pytest.mark.parametrize("follows", [False, True])
def test_leader_that_names_another_leader_is_abandoned(follows: bool) -> None:
    """A request in its name was forged. It would keep this voter from following until the next epoch."""
    cores, two = with_a_saved_leader(1)
    if follows:
        become_follower(two.replica, 7, 1, endpoints_of("1")[0])
        cores.advance(300)
    for _ in range(20):
        answered_by(cores, two, 1, 3)
        if two.replica.leader_id == 3:
            break
        cores.advance(100)
    assert (two.replica.epoch, two.replica.leader_id) == (7, 3)
    assert two.replica.bound_leader_id == NO_LEADER, "3 has not answered yet"
    assert answered_as_leader(cores, two, 3)
    assert two.state.leader_id == 3


@pytest.mark.requirement("K595-11")
def test_leader_that_names_no_leader_or_itself_is_kept() -> None:
    cores, two = with_a_saved_leader(1)
    answered_by(cores, two, 1, -1)
    assert two.replica.known_leader_id == 1


@pytest.mark.requirement("K595-11", "K595-17")
@pytest.mark.parametrize("bootstrap", ["1", "4"])
def test_voter_without_reachable_voters_queries_its_bootstrap_servers(
    bootstrap: str,
) -> None:
    """It was paused while (1, 2, 3) became (4, 5, 6), and none of its known voters is left."""
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    cores.crash(three)
    for name in ("4", "5", "6"):
        cores.start(name, bootstrap=["1"])
        cores.advance(100)
        cores.add_voter(one, cores.nodes[name])
        if name == "5":
            cores.remove_voter(one, three.key)
    cores.remove_voter(one, cores.nodes["2"].key)
    cores.request(one, ResignRequest(cores.nodes["4"].key))
    cores.advance(500)
    cores.remove_voter(cores.leader, one.key)
    cores.advance(500)
    for name in ("1", "2"):
        cores.crash(cores.nodes[name])
    three.config = replace(three.config, bootstrap=endpoints_of(bootstrap)[:1])
    cores.restart(three)
    cores.advance(10_000)
    followed = bootstrap == "4"
    assert (three.replica.leader_id == cores.leader.key.id) == followed
    assert (three.replica.epoch == cores.leader.replica.epoch) == followed


@pytest.mark.requirement("K595-11")
@pytest.mark.parametrize(
    "place", [("", 9093), ("\0", 9093), ("a" * 300, 9093), ("1.2.3.4", 70_000), ("h", -1)]
)
def test_invalid_address_is_not_followed(place: tuple[str, int]) -> None:
    """In a request, and in a false answer of a peer: the voters record has a better one."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    two = cores.nodes["2"]
    cores.crash(cores.nodes["1"])
    nowhere = Endpoint("CONTROLLER", *place)
    sent: list[Endpoint] = []
    cores.observer = lambda node, output: (
        sent.append(output.destination) if isinstance(output, Send) else None
    )
    begin(cores, two, 3, two.replica.epoch + 1, nowhere)
    begin(cores, two, 77, two.replica.epoch + 1, nowhere)
    leader = CurrentLeader(3, two.replica.epoch + 1, nowhere)
    for correlation, out in list(two.replica.outstanding.items()):
        if isinstance(out.request, FetchRequest):
            answer = FetchResponse(RaftError.FENCED_LEADER_EPOCH, leader)
            cores.do(two, ResponseReceived(correlation, answer))
    cores.advance(2000)
    assert nowhere not in sent
    assert cores.leader.name in {"2", "3"}


@pytest.mark.requirement("K595-11")
@pytest.mark.parametrize("kind", ["fetch", "snapshot"])
def test_leader_does_not_resign_for_a_fetch_of_a_newer_epoch(kind: str) -> None:
    """It contains a voter's key, which is no secret; the voter itself has no such epoch."""
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    for epoch in (2, 3, 60_000):
        request = (
            FetchRequest(CLUSTER_ID, three.key, epoch, 0, 0)
            if kind == "fetch"
            else FetchSnapshotRequest(CLUSTER_ID, three.key, epoch, SnapshotId(1, 1), 0, 1000)
        )
        answer = cores.request(one, request)
        assert answer is not None
        assert answer.error is RaftError.UNKNOWN_LEADER_EPOCH  # type: ignore[union-attr]
        cores.advance(700)
    assert cores.leader is one
    assert {node.replica.epoch for node in cores.nodes.values()} == {1}


@pytest.mark.requirement("K595-16")
def test_newer_epoch_is_adopted_from_a_response_of_the_voter_itself() -> None:
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    cores.crash(three)
    three.state = QuorumState(5, cluster_id=CLUSTER_ID, formed=True)
    cores.restart(three)
    cores.advance(50)
    assert cores.leader is one
    assert one.replica.epoch == 6
    assert {node.replica.leader_id for node in cores.nodes.values()} == {1}


def named_by_another(cores: Cores, node: Node, leader: CurrentLeader) -> None:
    """Until it has followed that leader because of the answer to its search."""
    followed: set[int] = set()

    def note(changed: Node, output: Output) -> None:
        if changed is node and isinstance(output, RoleChanged):
            followed.add(output.leader_id)

    cores.observer = note
    for _ in range(40):
        for correlation, sent in list(node.replica.outstanding.items()):
            if isinstance(sent.request, FetchRequest):
                answer = FetchResponse(RaftError.NOT_QUORUM_LEADER, leader)
                cores.do(node, ResponseReceived(correlation, answer))
        if leader.leader_id in followed:
            return
        cores.advance(100)
    raise AssertionError("it follows nobody")


@pytest.mark.requirement("K595-11")
@pytest.mark.parametrize("leader_ids", [(1, 3), (77,)])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("name", ["2", "4"])
def test_leader_that_others_name_falsely_does_not_keep_the_real_one_of_the_epoch_away(
    name: str, restarts: bool, leader_ids: tuple[int, ...]
) -> None:
    """Of a voter and of a new replica: a claim of others excludes nobody, neither in memory nor on the disk."""
    cores, one = formed_cores("1", "2", "3")
    if name == "4":
        cores.start("4", bootstrap=["3", "1"], run=False)
    node = cores.nodes[name]
    cores.partition([each for each in cores.nodes if each != name], [name])
    cores.crash(one)
    cores.restart(one)
    cores.advance(6_000)
    leader = cores.leader.replica
    epoch = leader.epoch
    assert epoch > node.replica.epoch
    false_id = next(each for each in leader_ids if each != leader.key.id)
    named_by_another(cores, node, CurrentLeader(false_id, epoch, endpoints_of("nobody")[0]))
    if restarts:
        cores.crash(node)
        cores.restart(node)
    cores.heal()
    cores.advance(6_000)
    assert (leader.epoch, node.replica.epoch) == (epoch, epoch)
    assert node.replica.leader_id == leader.key.id


@pytest.mark.requirement("K595-03")
def test_leader_that_others_name_is_durable_once_it_has_answered() -> None:
    cores, two = with_a_saved_leader(NO_LEADER)
    for _ in range(20):
        answered_by(cores, two, 1, 3)
        if two.replica.leader_id == 3:
            break
        cores.advance(100)
    assert two.state is not None
    assert two.state.leader_id == NO_LEADER
    assert answered_as_leader(cores, two, 3)
    assert two.state.leader_id == 3
