"""Three voters with the shortest accepted timeouts: the leader stays, and another one is elected only if it fails."""

from dataclasses import replace
from typing import Any

import pytest

from quorum_node.raft.outputs import Output, Send
from support.raft.cores import Cores, Node
from support.shortest_timeouts import SHORTEST_MS

pytestmark = pytest.mark.requirement("K595-01")

MINUTE_MS = 60_000


class Impatient(Cores):
    """Every replica has these timeouts. Counts the requests that are sent, by their type."""

    def __init__(self, **timeouts_ms: float) -> None:
        super().__init__(self._note)
        self.timeouts_ms = timeouts_ms
        self.sent: dict[str, int] = {}

    def _replica(self, config: Any, *rest: Any) -> Any:
        return super()._replica(replace(config, **self.timeouts_ms), *rest)

    def _note(self, _: Node, output: Output) -> None:
        if isinstance(output, Send):
            kind = type(output.request).__name__
            self.sent[kind] = self.sent.get(kind, 0) + 1


def epochs_of(cores: Cores) -> set[int]:
    return {node.replica.epoch for node in cores.nodes.values() if node.up}


SLOW_RETRIES = {**SHORTEST_MS, "retry_backoff_ms": 300, "retry_backoff_max_ms": 300}
"""As slow as the shortest fetch timeout permits."""


@pytest.mark.parametrize("timeouts_ms", [SHORTEST_MS, SLOW_RETRIES], ids=["all", "slow retries"])
@pytest.mark.parametrize("busy", [False, True])
def test_leader_stays_with_the_shortest_timeouts(timeouts_ms: dict[str, int], busy: bool) -> None:
    cores = Impatient(**timeouts_ms)
    leader = cores.quorum("1", "2", "3")
    before = epochs_of(cores)
    cores.sent.clear()
    for number in range(100):
        if busy:
            cores.propose(leader, f"v{number}")
        cores.advance(MINUTE_MS / 100)
    assert leader.is_leader
    assert epochs_of(cores) == before
    assert "VoteRequest" not in cores.sent, "an idle quorum asks for votes"


def test_failed_leader_is_replaced_once_with_the_shortest_timeouts() -> None:
    cores = Impatient(**SHORTEST_MS)
    first = cores.quorum("1", "2", "3")
    (before,) = epochs_of(cores)
    cores.crash(first)
    cores.advance(10_000)
    second = cores.leader
    assert second is not first
    (after,) = epochs_of(cores)
    assert after - before <= 5
    cores.restart(first)
    cores.advance(MINUTE_MS)
    assert cores.leader is second
    assert epochs_of(cores) == {after}
