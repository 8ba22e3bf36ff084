"""The leader fails at every step of an AlterQuorum: the plan is completed, and no step is done twice."""

from itertools import pairwise

import pytest

from quorum_node.raft.events import RequestReceived
from quorum_node.raft.messages import AlterQuorumRequest
from quorum_node.records.batches import decode_records, split_batches
from quorum_node.records.control import VotersRecord, decode_control
from quorum_node.records.identity import ReplicaKey
from support.raft.cores import CLUSTER_ID, Cores, Node
from support.raft.crashing_leader import CrashingLeader

TARGET = (4, 5, 6)
LIMIT_MS = 40_000
WRITE_EVERY_MS = 20


class Swap:
    """(1, 2, 3) becomes (4, 5, 6) under load; a client repeats requests without an answer."""

    def __init__(self, crash_at: int = 0) -> None:
        self.cores = CrashingLeader(crash_at)
        self.writes: dict[int, str] = {}
        self.cores.quorum("1", "2", "3")
        for name in ("4", "5", "6"):
            self.cores.start(name, bootstrap=["1", "2"])
        self.cores.advance(700)

    def play(self, comes_back_after_ms: float | None) -> Node:
        """Until the target is reached, wherever the leader failed."""
        cores = self.cores
        cores.arm()
        dead_at_ms = None
        began_ms = cores.now_ms
        while cores.now_ms < began_ms + LIMIT_MS:
            self._ask()
            self._write()
            cores.advance(WRITE_EVERY_MS)
            if cores.dead is not None and not cores.dead.up:
                dead_at_ms = dead_at_ms or cores.now_ms
                due = comes_back_after_ms is not None
                if due and cores.now_ms > dead_at_ms + (comes_back_after_ms or 0):
                    cores.restart(cores.dead)
            leader = _leader(cores)
            if leader is not None and _is_reached(leader):
                cores.disarm()
                cores.advance(700)
                return cores.leader
        raise AssertionError(f"not within {LIMIT_MS} ms; {len(cores.moments)} outputs")

    def acknowledged(self) -> set[str]:
        return {
            self.writes[number]
            for node in self.cores.nodes.values()
            for number in node.committed
            if number in self.writes
        }

    def _ask(self) -> None:
        """As an admin client does: again and again, the same target."""
        leader = _leader(self.cores)
        if leader is not None and not _has_target(leader):
            target = tuple(ReplicaKey(each) for each in TARGET)
            request = AlterQuorumRequest(CLUSTER_ID, target, 1000)
            self.cores.do(leader, RequestReceived(self.cores._number(), request))

    def _write(self) -> None:
        leader = _leader(self.cores)
        if leader is not None:
            text = f"w{len(self.writes)}"
            number = self.cores._next_id + 1
            self.writes[number] = text
            self.cores.propose(leader, text)


def _leader(cores: Cores) -> Node | None:
    leaders = [node for node in cores.nodes.values() if node.is_leader]
    return max(leaders, key=lambda node: node.replica.epoch, default=None)


def _ids(node: Node) -> set[int]:
    return {key.id for key in node.replica.voters.latest.voters.ordered_keys}


def _has_target(leader: Node) -> bool:
    return leader.replica.voters.latest.record.target_voters is not None or _ids(leader) == set(
        TARGET
    )


def _is_reached(leader: Node) -> bool:
    voters = leader.replica.voters
    done = _ids(leader) == set(TARGET) and voters.latest.record.target_voters is None
    return done and voters.latest_is_committed


def _history(node: Node) -> list[set[int]]:
    sets = [
        {voter.key.id for voter in control.voters}
        for batch in node.batches
        for whole in split_batches(batch.data)[0]
        if whole.header.is_control
        for record in decode_records(whole)
        if isinstance(control := decode_control(record), VotersRecord)
    ]
    return [sets[0]] + [after for before, after in pairwise(sets) if before != after]


def check(swap: Swap, leader: Node) -> None:
    sets = _history(leader)
    start = sets.index({1, 2, 3})
    changes = [before ^ after for before, after in pairwise(sets[start:])]
    assert all(len(change) == 1 for change in changes), sets
    moved = [change.pop() for change in changes]
    assert sorted(moved) == [1, 2, 3, 4, 5, 6], f"each replica moves once: {sets}"
    assert min(len(each) for each in sets[start:]) >= 2
    lost = swap.acknowledged() - set(leader.values(leader.replica.high_watermark))
    assert not lost, f"acknowledged and lost: {lost}"


def outputs_of_leaders() -> int:
    """How many outputs leaders have on the way without a failure."""
    swap = Swap()
    check(swap, swap.play(None))
    assert len(set(swap.cores.moments)) > 60, (
        "add, commit, remove, hand over: each in several parts"
    )
    return len(swap.cores.moments)


def die_at(number: int, comes_back_after_ms: float | None) -> None:
    swap = Swap(number)
    leader = swap.play(comes_back_after_ms)
    assert swap.cores.dead is not None, f"no crash at output {number}"
    check(swap, leader)


@pytest.mark.requirement("K595-23")
def test_alter_quorum_survives_a_leader_failure_at_every_step() -> None:
    for number in range(1, outputs_of_leaders() + 1):
        die_at(number, comes_back_after_ms=300 if number % 2 else None)


@pytest.mark.long
@pytest.mark.parametrize("comes_back_after_ms", [None, 0.0, 300.0, 3000.0])
def test_alter_quorum_survives_a_leader_failure_and_return_at_every_step(
    comes_back_after_ms: float | None,
) -> None:
    for number in range(1, outputs_of_leaders() + 1):
        die_at(number, comes_back_after_ms)
