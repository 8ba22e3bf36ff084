"""Cluster ids in requests and answers: which senders must include one, and which answers show that a replica's own id is wrong."""

from dataclasses import replace

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.cluster_identity import note_answer
from quorum_node.raft.messages import (
    BeginQuorumEpochRequest,
    DiscoverBrokersRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    UpdateVoterRequest,
    VoteRequest,
)
from quorum_node.raft.outputs import HaltReason, Respond
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.snapshot_id import SnapshotId
from support.raft.cores import (
    CLUSTER_ID,
    Cores,
    Node,
    endpoints_of,
    formed_cores,
    key_of,
    static_voters,
)
from support.raft.snapshots import NodeSnapshots


def members_requests(cores: Cores, cluster_id: str | None) -> list[tuple[Node, Request]]:
    one, two, three = (cores.nodes[name] for name in "123")
    end, last = one.replica.log_end, one.replica.epochs.last_epoch
    place = endpoints_of("1")[0]
    return [
        (one, FetchRequest(cluster_id, two.key, 1, end, last, 0, 1000)),
        (one, FetchRequest(cluster_id, two.key, 1, 0, 0, 0, 1000)),
        (one, FetchSnapshotRequest(cluster_id, two.key, 1, SnapshotId(1, 1), 0, 1000)),
        (two, BeginQuorumEpochRequest(cluster_id, 1, 1, two.key, place)),
        (two, VoteRequest(cluster_id, three.key, 2, 1, 99, voter=two.key)),
        (two, VoteRequest(cluster_id, three.key, 1, 1, 99, voter=two.key, pre_vote=True)),
        (two, EndQuorumEpochRequest(cluster_id, 1, 1, (three.key, two.key))),
        (one, UpdateVoterRequest(cluster_id, two.key, two.config.endpoints, 3000, 1)),
    ]


@pytest.mark.requirement("K595-14", "K595-20")
@pytest.mark.parametrize("cluster_id", [None, "another"])
@pytest.mark.parametrize("number", range(8))
def test_members_must_send_the_cluster_id(cluster_id: str | None, number: int) -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    node, request = members_requests(cores, cluster_id)[number]
    answer = cores.request(node, request)
    assert answer is not None
    assert answer.error is RaftError.INVALID_CLUSTER_ID, request
    assert answer.leader.leader_id == 1
    assert answer.leader.leader_epoch == 1
    node, request = members_requests(cores, CLUSTER_ID)[number]
    answer = cores.request(node, request)
    assert answer is not None
    assert answer.error is not RaftError.INVALID_CLUSTER_ID


@pytest.mark.requirement("K595-20")
@pytest.mark.parametrize("key", [ReplicaKey(-1), key_of(8)])
def test_consumers_and_new_replicas_may_omit_the_cluster_id(key: ReplicaKey) -> None:
    cores, one = formed_cores("1", "2", "3")
    end, last = one.replica.log_end, one.replica.epochs.last_epoch
    answer = cores.request(one, FetchRequest(None, key, 1, end, last, 0, 1000))
    assert answer is not None
    assert answer.error is RaftError.NONE
    answer = cores.request(one, FetchRequest("another", key, 1, end, last, 0, 1000))
    assert answer is not None
    assert answer.error is RaftError.INVALID_CLUSTER_ID


def with_another_id(*names: str) -> tuple[Cores, Node]:
    """A quorum with a last voter that restarts with another cluster id."""
    cores = Cores()
    cores.quorum(*names)
    node = cores.nodes[names[-1]]
    cores.crash(node)
    assert node.state is not None
    node.state = replace(node.state, cluster_id="another")
    node.config = replace(node.config, cluster_id="another")
    return cores, node


@pytest.mark.requirement("K595-05", "K595-20")
@pytest.mark.parametrize("names", ["12", "123", "1234", "12345"])
def test_voter_of_another_cluster_stops(names: str) -> None:
    cores, node = with_another_id(*names)
    cores.restart(node)
    cores.advance(10_000)
    assert node.halted is not None
    assert node.halted.reason is HaltReason.IDENTITY_MISMATCH
    assert "another" in node.halted.detail
    assert "(1, " in node.halted.detail, "it names who refused it"
    assert CLUSTER_ID in node.halted.detail, "it names both ids"


@pytest.mark.requirement("K595-05")
@pytest.mark.parametrize("names", ["123", "12345"])
def test_voter_does_not_stop_for_less_than_a_majority(names: str) -> None:
    """The others may be unreachable: then it waits for them."""
    cores, node = with_another_id(*names)
    for name in names[len(names) // 2 : -1]:
        cores.crash(cores.nodes[name])
    cores.restart(node)
    cores.advance(20_000)
    assert node.halted is None
    for name in names[len(names) // 2 : -1]:
        cores.restart(cores.nodes[name])
    cores.advance(10_000)
    assert node.halted is not None


@pytest.mark.requirement("K595-05")
def test_static_voter_of_another_cluster_stops() -> None:
    cores = Cores()
    for name in ("1", "2", "3"):
        cores.start(name, static=("1", "2", "3"), cluster_id="A")
    cores.advance(8000)
    three = cores.nodes["3"]
    cores.crash(three)
    three.batches, three.durable_batches, three.state = [], 0, None
    three.snapshots, three.key = NodeSnapshots(), key_of(3, 2)
    three.config = replace(three.config, cluster_id="B")
    cores.restart(three)
    cores.advance(10_000)
    assert three.halted is not None
    assert three.halted.reason is HaltReason.IDENTITY_MISMATCH


def liar(cores: Cores, name: str) -> None:
    """From now on that node rejects every cluster id except an unused one."""
    node = cores.nodes[name]
    node.replica.cluster_id = "a lie"


@pytest.mark.requirement("K595-05")
def test_single_lying_peer_stops_no_replica() -> None:
    """Both as the leader, and as a voter or an observer that is queried."""
    for lies in ("1", "2"):
        _receive_false_cluster_id(lies)


def _receive_false_cluster_id(lies: str) -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    observer = cores.start("7", bootstrap=["1", "2", "3"])
    cores.advance(1000)
    three = cores.nodes["3"]
    cores.crash(three)
    cores.crash(observer)
    liar(cores, lies)
    cores.restart(three)
    cores.restart(observer)
    newcomer = cores.start("8", bootstrap=["1", "2", "3"], cluster_id=CLUSTER_ID)
    cores.advance(15_000)
    assert three.halted is None
    assert observer.halted is None
    assert newcomer.halted is None
    honest = "2" if lies == "1" else "1"
    assert cores.nodes[honest].halted is None
    assert cores.leader.name in {honest, "3"}


@pytest.mark.requirement("K595-05")
def test_replica_that_was_served_once_never_stops_for_another_cluster_id() -> None:
    """Its peers' addresses may have been given to nodes of another cluster."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    liar(cores, "1")
    liar(cores, "2")
    cores.advance(20_000)
    assert cores.nodes["3"].halted is None


@pytest.mark.requirement("K595-20")
def test_static_quorum_forms_without_a_configured_cluster_id() -> None:
    """Its first leader generates one; the others adopt it before it is known to be committed."""
    refused: list[object] = []
    cores = Cores(
        lambda _, output: (
            refused.append(output)
            if isinstance(output, Respond)
            and getattr(output.response, "error", None) is RaftError.INVALID_CLUSTER_ID
            else None
        )
    )
    for name in ("1", "2", "3"):
        cores.start(name, static=("1", "2", "3"))
    cores.advance(8000)
    assert len({node.replica.cluster_id for node in cores.nodes.values()}) == 1
    assert cores.leader.replica.cluster_id is not None
    assert refused == []


@pytest.mark.requirement("K595-05")
def test_announced_addresses_of_voters_do_not_count() -> None:
    """Any process can announce an address for a voter, and more than one."""
    cores = Cores()
    one = cores.quorum("1", "2", "3")
    three = cores.nodes["3"]
    for name in ("8", "9"):
        cores.start(name, founder=True)
        liar(cores, name)
    cores.crash(three)
    cores.partition(["1", "2"], ["3", "8", "9"])
    cores.restart(three)
    for voter_id, name in ((1, "8"), (2, "9")):
        forged = DiscoverBrokersRequest(key_of(voter_id), 1 << 50, endpoints_of(name)[0])
        cores.request(three, forged)
    cores.advance(10_000)
    assert three.halted is None
    asked = {sent.destination.host for sent in three.replica.outstanding.values()}
    assert asked <= {"1", "2"}, "they are not asked again"
    cores.heal()
    cores.advance(6_000)
    assert three.halted is None
    assert three.replica.leader_id == cores.leader.key.id
    assert three.replica.high_watermark == one.replica.high_watermark


def test_addresses_of_the_configuration_do_not_count_beside_the_voters() -> None:
    """A single lying voter may also listen there: behind a Kubernetes Service, while no other one is ready."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    three = cores.nodes["3"]
    cores.crash(three)
    cores.crash(cores.nodes["2"])
    cores.start("9", founder=True)
    for name in ("1", "9"):  # one process
        liar(cores, name)
    cores.moved["service"] = "9"
    three.config = replace(three.config, bootstrap=endpoints_of("service")[:1])
    cores.restart(three)
    cores.advance(10_000)
    assert three.halted is None
    cores.restart(cores.nodes["2"])
    cores.advance(10_000)
    assert three.halted is None
    assert three.replica.leader_id == cores.leader.key.id


def new_member_behind_services(cores: Cores) -> Node:
    """A quorum; and a new member whose two Services lead to one lying process, as no other one is ready."""
    cores.quorum("1", "2", "3")
    cores.start("9", founder=True)
    liar(cores, "9")
    cores.moved |= {"service": "9", "another-service": "9"}
    return cores.start("4", bootstrap=["service", "another-service"], cluster_id=CLUSTER_ID)


def test_new_member_waits_whether_its_services_lead_elsewhere_a_moment_later() -> None:
    cores = Cores()
    four = new_member_behind_services(cores)
    cores.advance(1_500)
    assert four.replica.refused_by
    assert four.halted is None
    cores.moved |= {"another-service": "1", "1": "1"}
    cores.advance(20_000)
    assert four.halted is None
    assert four.replica.leader_id == cores.leader.key.id
    assert four.replica.high_watermark == cores.leader.replica.high_watermark


def test_one_other_answer_restarts_the_wait_of_a_new_member() -> None:
    cores = Cores()
    four = new_member_behind_services(cores)
    cores.advance(1_500)
    note_answer(four.replica, None, endpoints_of("service")[0], RaftError.NOT_QUORUM_LEADER)
    cores.advance(1_500)
    assert four.halted is None
    cores.advance(3_000)
    assert four.halted is not None


def test_new_member_stops_if_all_its_servers_keep_refusing_it() -> None:
    cores = Cores()
    four = new_member_behind_services(cores)
    cores.advance(5_000)
    assert four.halted is not None
    assert four.halted.reason is HaltReason.IDENTITY_MISMATCH


def test_addresses_of_the_static_voters_count() -> None:
    """They are of the configuration, as the bootstrap servers are. The voters record has newer ones."""
    cores = Cores()
    one = cores.quorum("1", "2", "3")
    three = cores.nodes["3"]
    cores.crash(three)
    three.config = replace(three.config, static_voters=static_voters("8"), may_form=False)
    cores.partition(["1", "2"], ["3"])
    cores.restart(three)
    refusal = RaftError.INVALID_CLUSTER_ID
    note_answer(three.replica, one.key, endpoints_of("7")[0], refusal)
    assert not three.replica.refused_by
    note_answer(three.replica, one.key, endpoints_of("8")[0], refusal)
    assert three.replica.refused_by == {one.key}


@pytest.mark.parametrize("restarts", [False, True])
def test_node_of_another_cluster_at_the_address_of_a_voter_raises_no_epoch(restarts: bool) -> None:
    """The address was assigned again after the voter's pod was deleted. Both sides are honest."""
    cores, one = formed_cores("1", "2", "3")
    cores.crash(cores.nodes["2"])
    other = cores.start("8", founder=True)
    cores.crash(other)
    assert other.state is not None
    other.state = replace(other.state, leader_epoch=5_000, cluster_id="another")
    other.config = replace(other.config, cluster_id="another", founder=False)
    cores.restart(other)
    other.replica.cluster_id = "another"
    cores.advance(100)
    assert other.is_leader
    assert other.replica.epoch > 5_000
    cores.moved["2"] = "8"
    if restarts:
        cores.crash(one)
        cores.restart(one)
    cores.advance(10_000)
    assert cores.nodes["3"].replica.leader_id == one.replica.leader_id != -1
    assert one.replica.epoch == cores.nodes["3"].replica.epoch < 10
