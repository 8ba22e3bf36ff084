"""A peer keeps naming a leader that does not lead any more: it is asked with a backoff (raft/discovery.py)."""

from dataclasses import dataclass, field

import pytest

from quorum_node.raft.messages import FetchRequest
from quorum_node.raft.outputs import FormationDelayed, Output, Send
from support.raft.cores import Cores, Node, formed_cores
from support.raft.static_quorums import formed

PERIOD_MS = 20_000


@dataclass
class Watch:
    """Fetches of one node, and what it reports about the formation of the quorum."""

    name: str
    fetches: int = 0
    delays: list[str] = field(default_factory=list)

    def __call__(self, node: Node, output: Output) -> None:
        if node.name != self.name:
            return
        self.fetches += isinstance(output, Send) and isinstance(output.request, FetchRequest)
        if isinstance(output, FormationDelayed):
            self.delays.append(output.why)


def test_observer_asks_for_the_leader_of_a_lost_majority_with_a_backoff() -> None:
    cores, leader = formed_cores("1", "2", "3")
    nine = cores.start("9", bootstrap=("1", "2", "3"))
    cores.advance(2000)
    assert nine.replica.leader_id == leader.key.id
    cores.crash(leader)
    cores.crash(cores.nodes["3"])
    watch = Watch("9")
    cores.observer = watch
    cores.advance(PERIOD_MS)
    assert 5 < watch.fetches < 5 * PERIOD_MS / nine.replica.config.retry_backoff_max_ms


def test_observer_finds_the_next_leader_soon_after_a_crash() -> None:
    cores, leader = formed_cores("1", "2", "3")
    nine = cores.start("9", bootstrap=("1", "2", "3"))
    cores.advance(2000)
    cores.crash(leader)
    while not any(node.is_leader for node in cores.nodes.values() if node.up):
        cores.advance(5)
    elected_ms = cores.now_ms
    while nine.replica.leader_id != cores.leader.key.id:
        cores.advance(5)
    assert cores.now_ms - elected_ms < 250


@pytest.mark.requirement("K853-04")
def test_wiped_static_voters_learn_why_they_can_form_no_quorum() -> None:
    """The remaining voter names the leader of its epoch, which lost its disk."""
    cores = Cores()
    leader = formed(cores)
    cores.advance(600)
    wiped, remaining = (node for node in cores.nodes.values() if node is not leader)
    for node in (leader, wiped, remaining):
        cores.crash(node)
    watch = Watch(wiped.name)
    cores.observer = watch
    cores.lose_disk(leader, 2)
    cores.lose_disk(wiped, 2)
    cores.restart(remaining)
    cores.advance(PERIOD_MS)
    assert remaining.replica.remembered_leader_id == leader.key.id
    assert not any(node.is_leader for node in cores.nodes.values())
    assert any("refuses its vote" in why for why in watch.delays)
    assert watch.fetches < 5 * PERIOD_MS / wiped.replica.config.retry_backoff_max_ms
