"""EndQuorumEpoch as its sender means it (KIP-595, "EndQuorumEpoch"): the order of successors, and best effort."""

from collections.abc import Iterable

import pytest

from quorum_node.raft.events import ShutdownRequested
from quorum_node.raft.messages import EndQuorumEpochRequest
from quorum_node.raft.outputs import HaltReason, Send
from support.raft.cores import CLUSTER_ID, Cores, Node, formed_cores, key_of

pytestmark = pytest.mark.requirement("K595-12")


def sent_ends(cores: Cores) -> list[EndQuorumEpochRequest]:
    """What is sent from now on."""
    sent: list[EndQuorumEpochRequest] = []

    def note(_: Node, output: object) -> None:
        if isinstance(output, Send) and isinstance(output.request, EndQuorumEpochRequest):
            sent.append(output.request)

    cores.observer = note
    return sent


def order_of(requests: Iterable[EndQuorumEpochRequest]) -> list[list[int]]:
    return [[key.id for key in request.preferred_successors] for request in requests]


@pytest.mark.parametrize("order", [("2", "3", "4"), ("4", "3", "2"), ("3", "4", "2")])
def test_preferred_successors_are_ordered_by_replicated_offset(order: tuple[str, ...]) -> None:
    """Each later one misses one record more; 5 has none of them."""
    cores, one = formed_cores("1", "2", "3", "4", "5")
    for reached in ((), order[:3], order[:2], order[:1]):
        away = [[name] for name in "2345" if name not in reached]
        cores.partition(["1", *reached], *away)
        if reached:
            cores.propose(one, f"known to {reached}")
            cores.advance(20)
    cores.partition(["1"], ["2"], ["3"], ["4"], ["5"])
    sent = sent_ends(cores)
    cores.do(one, ShutdownRequested())
    cores.advance(600)
    assert order_of(sent) == [[int(name) for name in (*order, "5")]] * 4, "one for each voter"


def test_no_successor_waits_longer_than_the_maximum_backoff() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    two = cores.nodes["2"]
    cores.partition(["1"], ["2"], ["3"])
    others = tuple(key_of(number) for number in range(10, 40))
    request = EndQuorumEpochRequest(CLUSTER_ID, 1, 1, (*others, two.key))
    cores.request(two, request)
    deadline_ms = getattr(two.replica.role, "election_deadline_ms")  # noqa: B009 - the role is a union
    assert deadline_ms - cores.now_ms == two.config.retry_backoff_max_ms


@pytest.mark.parametrize("reached", [(), ("2",)], ids=["nobody", "one"])
def test_shutdown_does_not_wait_for_unreachable_voters(reached: tuple[str, ...]) -> None:
    """Sent once to each; the process ends within the time that a handover may take."""
    cores, one = formed_cores("1", "2", "3")
    cores.partition(["1", *reached], *[[name] for name in "23" if name not in reached])
    sent = sent_ends(cores)
    cores.do(one, ShutdownRequested())
    cores.advance(one.config.election_timeout_ms)
    assert len(sent) == 2
    assert one.halted is not None
    assert one.halted.reason is HaltReason.SHUTDOWN


def test_lost_end_epoch_request_is_compensated_by_an_election_timeout() -> None:
    cores, one = formed_cores("1", "2", "3")
    proposal = cores.propose(one, "acknowledged")
    assert proposal in one.committed
    cores.partition(["1"], ["2", "3"])
    cores.do(one, ShutdownRequested())
    cores.advance(1)
    assert not any(cores.nodes[name].is_leader for name in "23")
    cores.advance(2 * one.config.fetch_timeout_ms)
    leader = cores.leader
    assert leader.name in ("2", "3")
    assert leader.committed_values() == ["acknowledged"]
