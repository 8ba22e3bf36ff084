"""DiscoverBrokers: who listens where, by the newest boot; with and without a majority (K595-18)."""

from collections.abc import Callable
from uuid import UUID

import pytest

from quorum_node.raft.discover_brokers import MAX_UNKNOWN_REPLICAS
from quorum_node.raft.endpoint_gossip import (
    LATEST_BOOT_MS,
    NOT_RECEIVED_MS,
    EndpointGossip,
    ReceivedEndpoint,
)
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason, RequestFailed, ResponseReceived
from quorum_node.raft.messages import (
    AlterQuorumRequest,
    CurrentLeader,
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
    VoterChangeResponse,
)
from quorum_node.raft.outputs import Output, Send
from quorum_node.records.identity import Endpoint, ReplicaKey
from support.raft.cores import CLUSTER_ID, Cores, Node, formed_cores, key_of

KEY = key_of(2)
OLD, NEW, RECORDED = (Endpoint("CONTROLLER", host, 9093) for host in ("old", "new", "recorded"))
CLIENT = ReplicaKey(-1)


@pytest.mark.requirement("K595-18")
def test_newest_boot_time_wins_in_any_order() -> None:
    for order in ((1, 2, 3), (3, 2, 1), (2, 3, 1), (3, 3, 2)):
        gossip = EndpointGossip()
        for boot in order:
            gossip.hear(ReceivedEndpoint(KEY, boot, Endpoint("CONTROLLER", f"boot-{boot}", 1)))
        assert gossip.address_of(KEY, RECORDED) == Endpoint("CONTROLLER", "boot-3", 1)
    # Another address of the same boot is no news, nor is one without a boot.
    assert not gossip.hear(ReceivedEndpoint(KEY, 3, OLD))
    assert not gossip.hear(ReceivedEndpoint(key_of(3), NOT_RECEIVED_MS, OLD))
    assert gossip.address_of(key_of(3), RECORDED) == RECORDED


def test_unreachable_address_falls_back_to_the_other() -> None:
    gossip = EndpointGossip()
    gossip.address_failed(KEY, RECORDED)
    gossip.hear(ReceivedEndpoint(KEY, 5, OLD))
    assert gossip.address_of(KEY, RECORDED) == OLD
    gossip.address_failed(KEY, OLD)
    gossip.address_failed(KEY, OLD)
    assert gossip.address_of(KEY, RECORDED) == RECORDED
    assert gossip.address_of(KEY, None) == OLD
    gossip.address_failed(KEY, RECORDED)
    assert gossip.address_of(KEY, RECORDED) == OLD
    gossip.address_failed(KEY, OLD)
    gossip.hear(ReceivedEndpoint(KEY, 6, NEW))
    assert gossip.address_of(KEY, RECORDED) == NEW


def ask(cores: Cores, node: Node, **request: object) -> DiscoverBrokersResponse:
    values = {"replica": CLIENT, **request}
    answer = cores.request(node, DiscoverBrokersRequest(**values))  # type: ignore[arg-type]
    assert isinstance(answer, DiscoverBrokersResponse)
    return answer


def addresses(cores: Cores, node: Node) -> dict[ReplicaKey, tuple[str, int]]:
    return {
        received.key: (received.endpoint.host, received.boot_timestamp_ms)
        for received in ask(cores, node).brokers
    }


@pytest.mark.requirement("K595-18")
def test_voters_exchange_their_addresses_and_clients_query_them() -> None:
    cores, leader = formed_cores("1", "2", "3")
    cores.advance(600)
    for node in cores.nodes.values():
        answer = ask(cores, node)
        assert answer.leader.leader_id == 1
        assert answer.leader.leader_epoch == leader.replica.epoch
        assert answer.cluster_id == CLUSTER_ID
        found = {received.key: received.endpoint.host for received in answer.brokers}
        assert found == {key_of(1): "1", key_of(2): "2", key_of(3): "3"}
        assert all(received.boot_timestamp_ms >= 0 for received in answer.brokers)
    # The sentinel's other fields are ignored.
    ask(cores, leader, boot_timestamp_ms=10**9, endpoint=NEW)
    assert "new" not in {host for host, _ in addresses(cores, leader).values()}


@pytest.mark.requirement("K595-18")
def test_older_boot_time_changes_nothing_and_unknown_replicas_are_not_stored() -> None:
    cores, leader = formed_cores("1", "2", "3")
    ask(cores, leader, replica=KEY, boot_timestamp_ms=100, endpoint=NEW)
    assert addresses(cores, leader)[KEY] == ("new", 100)
    ask(cores, leader, replica=KEY, boot_timestamp_ms=99, endpoint=OLD)
    assert addresses(cores, leader)[KEY] == ("new", 100)
    for key in (key_of(9), key_of(2, 2), leader.key):
        ask(cores, leader, replica=key, boot_timestamp_ms=10**9, endpoint=OLD)
    assert "old" not in {host for host, _ in addresses(cores, leader).values()}
    assert len(addresses(cores, leader)) == 3
    # A peer without UUIDs means the voter of that id.
    ask(cores, leader, replica=ReplicaKey(2), boot_timestamp_ms=101, endpoint=OLD)
    assert addresses(cores, leader)[KEY] == ("old", 101)


@pytest.mark.requirement("K595-18")
def test_moved_voter_is_found_by_the_only_eligible_leader() -> None:
    """Too few for a quorum, and the vote of the moved one is needed."""
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    cores.partition(("1", "3"), ("2",))
    cores.propose(one, "not on 2")
    cores.advance(100)
    for node in (one, two, three):
        cores.crash(node)
    cores.heal()
    # 3 stays away; 1 has more records than 2, so only 1 can be elected, and knows only 2's old address.
    cores.move(two, "2-moved")
    cores.advance(3000)
    assert not two.is_leader
    cores.restart(one)
    cores.advance(6000)
    assert one.is_leader
    assert addresses(cores, one)[KEY][0] == "2-moved"
    assert two.values() == ["not on 2"]


@pytest.mark.requirement("K595-18")
def test_two_moved_voters_find_each_other_through_a_third() -> None:
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    for node in (two, three):
        cores.crash(node)
    cores.advance(4000)
    assert not one.is_leader
    cores.move(two, "2-moved")
    cores.move(three, "3-moved")
    cores.advance(3000)
    cores.crash(one)
    cores.advance(10_000)
    assert two.is_leader or three.is_leader
    for node in (two, three):
        found = addresses(cores, node)
        assert (found[key_of(2)][0], found[key_of(3)][0]) == ("2-moved", "3-moved")


@pytest.mark.requirement("K595-18")
def test_clock_that_went_back_is_detected() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    two = cores.nodes["2"]
    cores.advance(100_000)
    cores.move(two, "2-moved")
    cores.advance(600)
    assert addresses(cores, cores.nodes["1"])[KEY][0] == "2-moved"
    late = cores.now_ms
    cores.move(two, "2-again", boot_timestamp_ms=5)
    cores.advance(3000)
    for name in ("1", "3"):
        host, boot = addresses(cores, cores.nodes[name])[KEY]
        assert host == "2-again"
        assert 5 < boot <= late


def test_unresponsive_peer_is_retried_with_a_backoff() -> None:
    sent: list[Send] = []
    cores, one = formed_cores("1", "2", "3")
    two = cores.nodes["2"]
    cores.crash(two)
    cores.crash(one)
    cores.observer = _note_questions(sent, to="2")
    cores.restart(one)
    cores.advance(60_000)
    assert 5 < len(sent) < 60
    cores.move(two, "2")
    cores.advance(6000)
    sent.clear()
    cores.advance(60_000)
    assert not sent, "a replica lacks an endpoint"


def test_peer_without_the_api_is_not_queried_again() -> None:
    sent: list[Send] = []
    cores = Cores(_note_questions(sent, to="2"))
    one = cores.quorum("1", "2", "3")
    cores.crash(one)
    cores.partition(("1", "3"), ("2",))
    cores.restart(one)
    cores.advance(100)
    cores.do(one, RequestFailed(sent[-1].correlation, FailureReason.UNSUPPORTED))
    sent.clear()
    cores.advance(30_000)
    assert not sent


def _note_questions(sent: list[Send], to: str) -> Callable[[Node, Output], None]:
    def saw(node: Node, output: Output) -> None:
        requested = isinstance(output, Send) and isinstance(output.request, DiscoverBrokersRequest)
        if requested and output.destination.host == to:  # type: ignore[union-attr]
            sent.append(output)  # type: ignore[arg-type]

    return saw


def test_observer_finds_the_quorum_through_any_node_that_knows_it() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    cores.advance(600)
    nine = cores.start("9", bootstrap=("2",))
    cores.advance(1000)
    assert nine.replica.leader_id == 1
    assert not nine.replica.gossip.strangers
    lonely = cores.start("8", bootstrap=("7",))
    entries = tuple(
        ReceivedEndpoint(key_of(n), 1, Endpoint("CONTROLLER", f"host-{n}", 1)) for n in range(100)
    )
    for received in entries:
        ask(cores, lonely, replica=received.key, boot_timestamp_ms=1, endpoint=received.endpoint)
    assert not lonely.replica.gossip.strangers, "an incoming connection was asked for the leader"
    cores.partition(["1", "2", "3", "9"], ["8"])
    seven = cores.start("7")
    cores.partition(["1", "2", "3", "9"], ["7"], ["8"])
    cores.advance(2000)
    assert seven.up
    question = next(
        number
        for number, sent in lonely.replica.outstanding.items()
        if isinstance(sent.request, DiscoverBrokersRequest)
    )
    answer = DiscoverBrokersResponse(RaftError.NONE, CurrentLeader(-1, 0), None, entries)
    cores.do(lonely, ResponseReceived(question, answer))
    assert len(lonely.replica.gossip.strangers) == MAX_UNKNOWN_REPLICAS


def test_response_of_another_cluster_is_ignored() -> None:
    cores, one = formed_cores("1", "2", "3")
    liar = cores.nodes["2"]
    cores.crash(one)
    liar.replica.cluster_id = "another"
    liar.replica.gossip.hear(ReceivedEndpoint(key_of(3), 10**9, NEW))
    cores.restart(one)
    cores.advance(1000)
    assert "new" not in {host for host, _ in addresses(cores, one).values()}


def test_boot_without_a_clock_is_ignored() -> None:
    cores, one = formed_cores("1", "2", "3")
    ask(cores, one, replica=KEY, boot_timestamp_ms=(1 << 63) - 1, endpoint=NEW)
    assert addresses(cores, one)[KEY][0] == "2"
    two = cores.nodes["2"]
    two.replica.gossip.hear(ReceivedEndpoint(one.key, (1 << 63) - 1, NEW))
    cores.crash(one)
    cores.restart(one)
    cores.advance(1000)
    assert one.replica.boot_timestamp_ms == 0


@pytest.mark.requirement("K595-18")
@pytest.mark.parametrize("by_id_alone", [False, True])
def test_address_of_a_target_voter_is_kept_until_the_target_is_removed(by_id_alone: bool) -> None:
    """KIP-595: "if the ReplicaId ... matches one of the existing voters (or target voters)"."""
    cores, one = formed_cores("1", "2", "3")
    eight, nine = key_of(8), key_of(9)
    wanted = (one.key, cores.nodes["2"].key, ReplicaKey(8) if by_id_alone else eight)
    assert announced(cores, one, eight, 998, "too-early") is None
    altered = cores.request(one, AlterQuorumRequest(CLUSTER_ID, wanted, 3000, None))
    assert isinstance(altered, VoterChangeResponse)
    assert altered.error is RaftError.NONE
    assert announced(cores, one, eight, 999, "eight") == ("eight", 9093)
    assert one.replica.endpoint_of(eight) == Endpoint("CONTROLLER", "eight", 9093)
    assert announced(cores, one, eight, 1000, "moved") == ("moved", 9093)
    assert announced(cores, one, eight, 999, "older boot") == ("moved", 9093)
    assert announced(cores, one, nine, 999, "nine") is None
    cancelled = cores.request(one, AlterQuorumRequest(CLUSTER_ID, None, 3000, None))
    assert isinstance(cancelled, VoterChangeResponse)
    assert cancelled.error is RaftError.NONE
    assert one.replica.gossip.get(eight) is None
    assert announced(cores, one, eight, 1001, "too-late") is None


@pytest.mark.requirement("K595-18")
def test_multiple_keys_of_one_target_id_share_one_address() -> None:
    cores, one = formed_cores("1", "2", "3")
    wanted = (one.key, cores.nodes["2"].key, ReplicaKey(8))
    cores.request(one, AlterQuorumRequest(CLUSTER_ID, wanted, 3000, None))
    keys = [ReplicaKey(8, UUID(int=number)) for number in range(1, 200)]
    for boot, key in enumerate(keys):
        announced(cores, one, key, 1000 + boot, f"host-{boot}")
    known = [key for key in keys if one.replica.gossip.get(key) is not None]
    assert known == keys[-1:]


def announced(
    cores: Cores, to: Node, key: ReplicaKey, boot_ms: int, host: str
) -> tuple[str, int] | None:
    """The stored endpoint of a key after its announcement."""
    cores.request(to, DiscoverBrokersRequest(key, boot_ms, Endpoint("CONTROLLER", host, 9093)))
    received = to.replica.gossip.get(key)
    return None if received is None else (received.endpoint.host, received.endpoint.port)


@pytest.mark.requirement("K595-18")
@pytest.mark.parametrize("place", ["1", "9"])
def test_false_address_that_responds_does_not_keep_a_voter_away(place: str) -> None:
    """That of the replica itself, or of one of another quorum. The voter has announced the right one before, and can't be elected itself."""
    cores = Cores()
    one = cores.quorum("1", "2")
    two = cores.nodes["2"]
    cores.start("9", founder=True)
    cores.partition(["1"], ["2"], ["9"])
    cores.propose(one, "only here")
    cores.advance(3_000)
    cores.crash(one, lose_unflushed=False)
    cores.restart(one)
    forged = Endpoint("CONTROLLER", place, 9093)
    ask(cores, one, replica=two.key, boot_timestamp_ms=1 << 50, endpoint=forged)
    cores.heal()
    cores.advance(20_000)
    assert cores.nodes["9"].is_leader, "of its own quorum"
    assert one.is_leader
    assert two.replica.high_watermark == one.replica.high_watermark


@pytest.mark.parametrize("boot_ms", [LATEST_BOOT_MS - 1, LATEST_BOOT_MS])
def test_voter_corrects_a_false_address_of_the_latest_possible_boot(boot_ms: int) -> None:
    """No boot is later. The record has an outdated address, so nothing else tells where the voter is."""
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    forged = Endpoint("CONTROLLER", "nobody", 9093)
    for node in (one, three):
        ask(cores, node, replica=two.key, boot_timestamp_ms=boot_ms, endpoint=forged)
    cores.crash(one)
    cores.move(two, "elsewhere")
    cores.advance(10_000)
    known = three.replica.gossip.get(two.key)
    assert known is not None
    assert known.endpoint.host == "elsewhere"
    ask(cores, three, replica=two.key, boot_timestamp_ms=LATEST_BOOT_MS + 1, endpoint=forged)
    assert three.replica.gossip.get(two.key) == known


def test_no_earlier_boot_replaces_the_latest_possible_one() -> None:
    gossip = EndpointGossip()
    gossip.hear(ReceivedEndpoint(KEY, LATEST_BOOT_MS, NEW))
    assert not gossip.hear(ReceivedEndpoint(KEY, LATEST_BOOT_MS - 1, OLD))
    assert gossip.address_of(KEY, RECORDED) == NEW
