"""Very many senders of Fetch, as any process can make them up: what the leader remembers is bounded, and voters can still be added."""

from uuid import UUID

import pytest

from quorum_node.raft import RaftError, fetch_serving
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import FetchRequest
from quorum_node.records.identity import Endpoint, ReplicaKey
from support.raft.altered import alter
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, formed_cores

FEW = 20


@pytest.fixture(autouse=True)
def a_crowd_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand replicas would take the test a minute."""
    monkeypatch.setattr(fetch_serving, "MAX_TRACKED_OBSERVERS", FEW)


def fetch(node: Node, key: ReplicaKey, endpoints: tuple[Endpoint, ...] = ()) -> FetchRequest:
    replica = node.replica
    last_epoch = replica.epochs.last_epoch
    return FetchRequest(
        CLUSTER_ID,
        key,
        replica.epoch,
        replica.log_end,
        last_epoch,
        max_wait_ms=0,
        endpoints=endpoints,
    )


def crowd(cores: Cores, leader: Node, count: int, id: int | None = None) -> None:
    """Fetches of as many replicas; `id`: all of them claim to have it."""
    for number in range(count):
        key = ReplicaKey(1000 + number if id is None else id, UUID(int=(9 << 64) + number))
        cores.request(leader, fetch(leader, key))


def tracked(node: Node) -> int:
    assert isinstance(node.replica.role, Leader)
    return len(node.replica.role.progress)


def test_a_voter_is_added_beside_a_crowd_of_observers() -> None:
    cores, leader = formed_cores("1", "2", "3")
    crowd(cores, leader, FEW)
    newcomer = cores.start("4", bootstrap=("1",))
    cores.advance(100)
    assert cores.add_voter(leader, newcomer).error is RaftError.NONE
    assert newcomer.replica.is_voter


def test_a_target_without_uuid_does_not_make_the_leader_remember_everybody() -> None:
    cores, leader = formed_cores("1", "2", "3")
    assert alter(leader, cores, (1, 2, 3, 4, 5)).error is RaftError.NONE
    crowd(cores, leader, 3 * FEW + fetch_serving.RESERVED_FOR_TARGETS, id=4)
    assert tracked(leader) <= FEW + fetch_serving.RESERVED_FOR_TARGETS + 5


def test_targets_are_followed_beside_a_crowd_of_observers() -> None:
    cores, leader = formed_cores("1", "2", "3")
    crowd(cores, leader, FEW)
    assert alter(leader, cores, (1, 2, 3, 4, 5)).error is RaftError.NONE
    for name in ("4", "5"):
        cores.start(name, bootstrap=("1",))
    cores.advance(5000)
    assert all(cores.nodes[name].replica.is_voter for name in ("4", "5"))


def test_impossible_listeners_of_an_observer_are_not_remembered() -> None:
    cores, leader = formed_cores("1", "2", "3")
    one = ReplicaKey(1000, UUID(int=7))
    huge = tuple(Endpoint("CONTROLLER", "x" * 100_000, 9093) for _ in range(20))
    cores.request(leader, fetch(leader, one, huge))
    assert isinstance(leader.replica.role, Leader)
    assert leader.replica.role.progress[one].endpoints == ()
    cores.request(leader, fetch(leader, one, endpoints_of("4")))
    assert leader.replica.role.progress[one].endpoints == endpoints_of("4")
