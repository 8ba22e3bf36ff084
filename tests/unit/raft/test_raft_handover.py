"""Which voters get EndQuorumEpoch, in which order, and how a stop ends if no voter receives it (K595-12)."""

from itertools import permutations

import pytest

from quorum_node.raft.events import ShutdownRequested
from quorum_node.raft.messages import EndQuorumEpochRequest
from quorum_node.raft.outputs import HaltReason, Output, Send
from support.raft.cores import Cores, Node, endpoints_of, formed_cores

pytestmark = pytest.mark.requirement("K595-12")


def ends_of(cores: Cores) -> list[tuple[str, EndQuorumEpochRequest]]:
    """Every EndQuorumEpoch that is sent from now on, with the host that it goes to."""
    sent: list[tuple[str, EndQuorumEpochRequest]] = []

    def note(node: Node, output: Output) -> None:
        if isinstance(output, Send) and isinstance(output.request, EndQuorumEpochRequest):
            sent.append((output.destination.host, output.request))

    cores.observer = note
    return sent


@pytest.mark.parametrize("order", list(permutations("234")))
def test_successors_are_ordered_by_replicated_offset(order: tuple[str, ...]) -> None:
    """One after the other falls behind; the most caught-up one is first."""
    cores, one = formed_cores("1", "2", "3", "4", "5", "6", "7")
    connected = list("1234567")
    for name in reversed(order):
        cores.propose(one, f"before {name} is cut off")
        cores.advance(50)
        connected.remove(name)
        cores.partition(connected, *[[each] for each in order if each not in connected])
    cores.propose(one, "seen by 5, 6 and 7 alone")
    cores.advance(50)
    sent = ends_of(cores)
    cores.do(one, ShutdownRequested())
    cores.advance(600)
    assert sent
    for _, request in sent:
        named = [str(key.id) for key in request.preferred_successors]
        assert set(named[:3]) == set("567"), "they have the whole log"
        assert tuple(named[3:]) == order


def test_every_other_voter_gets_one_end_epoch_request() -> None:
    cores, one = formed_cores("1", "2", "3")
    sent = ends_of(cores)
    cores.do(one, ShutdownRequested())
    cores.advance(5000)
    hosts = sorted(host for host, request in sent if request.leader_id == 1)
    assert hosts == sorted(endpoints_of(name)[0].host for name in "23")
    assert {request.leader_epoch for _, request in sent if request.leader_id == 1} == {1}


def test_shutdown_with_lost_requests_is_bounded_and_a_timeout_elects() -> None:
    """The requests are lost: the old leader ends within its bounded wait, and the others elect after a timeout."""
    cores, one = formed_cores("1", "2", "3")
    cores.propose(one, "kept")
    cores.advance(600)
    cores.partition(["1"], ["2", "3"])
    cores.propose(one, "lost")
    sent = ends_of(cores)
    began_ms = cores.now_ms
    cores.do(one, ShutdownRequested())
    while one.halted is None:
        cores.advance(1)
        assert cores.now_ms - began_ms <= one.config.election_timeout_ms
    assert one.halted.reason is HaltReason.SHUTDOWN
    assert len(sent) == 2, "notified once"
    cores.advance(4 * one.config.fetch_timeout_ms)
    assert cores.leader.name in "23"
    assert cores.leader.replica.epoch == 2
    assert cores.leader.committed_values() == ["kept"]


@pytest.mark.parametrize("unreachable", ["2", "3"])
def test_shutdown_does_not_wait_for_an_unresponsive_voter(unreachable: str) -> None:
    cores, one = formed_cores("1", "2", "3")
    reachable = "3" if unreachable == "2" else "2"
    cores.partition(["1", reachable], [unreachable])
    cores.propose(one, "kept")
    cores.advance(50)
    began_ms = cores.now_ms
    cores.do(one, ShutdownRequested())
    cores.advance(30)
    assert one.halted is not None
    assert cores.now_ms - began_ms <= 30
    cores.heal()
    cores.advance(3000)
    assert cores.leader.name == reachable, "only this replica has the whole log"
    assert cores.leader.committed_values() == ["kept"]
