"""How a static quorum comes to be, step by step; and who does not take part (KIP-595, K595-19)."""

from dataclasses import replace

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.messages import (
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
    FetchRequest,
    VoteRequest,
)
from quorum_node.raft.outputs import FormationDelayed, Output, Send
from quorum_node.records.identity import ReplicaKey
from support.raft.cores import Cores, Node, endpoints_of, key_of
from support.raft.static_quorums import THREE, formed, keys, start


@pytest.mark.requirement("K595-19")
def test_bootstrapping_procedure_in_six_steps() -> None:
    sent: list[tuple[str, Send]] = []

    def saw(node: Node, output: Output) -> None:
        if isinstance(output, Send):
            sent.append((node.name, output))

    def kinds(name: str) -> list[type]:
        return [type(output.request) for who, output in sent if who == name]

    # 3. Nothing is known: every configured address is queried, for the leader and for the voters,
    # repeatedly, and no vote is requested.
    cores = Cores(saw)
    one, nine = start(cores, "1", "9")
    cores.advance(900)
    assert set(kinds("1")) == {FetchRequest, DiscoverBrokersRequest}
    assert {output.destination.host for who, output in sent if who == "1"} >= {"2", "3"}
    assert len(kinds("1")) > 4
    # 5. No node knows a leader: a configured voter counts itself as one, and reports its endpoint;
    # any other node stays an observer. Both continue to query.
    assert (one.replica.is_voter, nine.replica.is_voter) == (True, False)
    answer = cores.request(one, DiscoverBrokersRequest(ReplicaKey(-1)))
    assert isinstance(answer, DiscoverBrokersResponse)
    assert {received.key: received.endpoint.host for received in answer.brokers} == {
        key_of(1): "1",
        ReplicaKey(2): "2",
        ReplicaKey(3): "3",
    }
    cores.advance(3000)
    assert nine.replica.leader_id == -1
    # 6. Once it reaches the others, it begins a vote.
    start(cores, "2", "3")
    cores.advance(4000)
    assert VoteRequest in {output for name in THREE for output in kinds(name)}
    leader = cores.leader
    # 4. An answer names the leader: a node without a leader follows it, and requests no vote.
    cores.advance(600)
    assert nine.replica.leader_id == leader.key.id
    assert VoteRequest not in kinds("9")
    # 1., 2. After a restart quorum-state and log are enough: the first request goes to that leader.
    follower = next(node for node in cores.nodes.values() if node not in (leader, nine))
    cores.crash(follower)
    sent.clear()
    cores.restart(follower)
    first = next(output for who, output in sent if who == follower.name)
    assert isinstance(first.request, FetchRequest)
    assert first.destination.host == leader.name
    assert follower.replica.is_voter


@pytest.mark.requirement("K595-19")
def test_node_without_permission_to_form_a_quorum_only_searches() -> None:
    cores = Cores()
    (one,) = start(cores, "1", static=("1",))
    cores.crash(one)
    one.batches, one.durable_batches, one.state = [], 0, None
    one.config = replace(one.config, may_form=False, bootstrap=endpoints_of("2")[:1])
    cores.restart(one)
    cores.advance(10_000)
    assert not one.replica.ids_only
    assert not one.replica.is_voter
    assert not one.batches
    # It still belongs to a static quorum: one that has formed takes no new ids from it either.
    leader = formed(other := Cores())
    leader.replica.config = replace(leader.replica.config, may_form=False)
    newcomer = other.start("4", bootstrap=THREE)
    answer = other.add_voter(leader, newcomer, cluster_id=None)
    assert answer is not None
    assert answer.error is RaftError.NEW_VOTER_ID


@pytest.mark.requirement("K595-19")
def test_single_static_voter_forms_immediately_and_grows_after_the_property_is_removed() -> None:
    cores = Cores()
    (one,) = start(cores, "1", static=("1",))
    assert one.is_leader
    assert one.replica.formed
    number = cores.propose(one, "alone")
    assert number in one.committed
    cores.crash(one)
    one.config = replace(one.config, static_voters=())
    cores.restart(one)
    for name in ("2", "3"):
        node = cores.start(name, bootstrap=("1",))
        cores.advance(300)
        answer = cores.add_voter(one, node, cluster_id=None)
        assert answer.error is RaftError.NONE, answer.message
    cores.advance(600)
    assert [node.committed_values() for node in cores.nodes.values()] == [["alone"]] * 3


def test_voters_with_different_configurations_form_no_quorum() -> None:
    seen: list[Output] = []
    cores = Cores(lambda node, output: seen.append(output))
    start(cores, "1", "3")
    start(cores, "2", static=("1", "2"))
    cores.advance(20_000)
    assert not any(node.is_leader for node in cores.nodes.values())
    reported = {output.why for output in seen if isinstance(output, FormationDelayed)}
    assert "it is configured with the voters 1, 2, this node with 1, 2, 3" in reported
    assert any("refuses its vote" in why for why in reported)


def test_unlisted_node_is_an_observer() -> None:
    cores = Cores()
    start(cores, "4")
    leader = formed(cores)
    four = cores.nodes["4"]
    cores.advance(600)
    assert not four.replica.is_voter
    assert set(keys(four)) == set(keys(leader))
