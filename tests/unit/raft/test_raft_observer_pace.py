"""Many observers delay commits little: voters are answered at once, observers in turns (raft/observer_pace.py)."""

from quorum_node.raft.events import RequestReceived
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import FetchRequest
from quorum_node.raft.outputs import FlushLog, Respond
from support.raft.cores import CLUSTER_ID, Cores, Node, formed_cores, key_of

OBSERVERS = 40
FIRST = 100


def quorum_with_observers() -> tuple[Cores, Node]:
    """Three voters, and forty observers' fetches parked at the leader (not whole replicas)."""
    cores, leader = formed_cores("1", "2", "3")
    cores.advance(1000)
    for number in range(OBSERVERS):
        fetch(cores, leader, number)
    assert observers_parked(leader) == OBSERVERS
    return cores, leader


def fetch(cores: Cores, leader: Node, number: int, **changes: int) -> None:
    """A long poll of an observer, request id 1000 + number."""
    values = {
        "current_leader_epoch": leader.replica.epoch,
        "fetch_offset": leader.replica.log_end,
        "last_fetched_epoch": leader.replica.epochs.last_epoch,
        "max_wait_ms": 500,
        "high_watermark": leader.replica.high_watermark,
    }
    request = FetchRequest(CLUSTER_ID, key_of(FIRST + number), **{**values, **changes})
    cores.do(leader, RequestReceived(1000 + number, request))


def observers_parked(leader: Node) -> int:
    """How many of the crowd wait."""
    role = leader.replica.role
    assert isinstance(role, Leader)
    return sum(each.request.replica.id >= FIRST for each in role.parked.values())


def answered(outputs: list[object]) -> list[int]:
    """Which of the crowd, in order."""
    return [o.request_id - 1000 for o in outputs if isinstance(o, Respond) and o.request_id >= 1000]


def test_commit_does_not_wait_for_observers() -> None:
    cores, leader = quorum_with_observers()
    outputs: list[object] = []
    cores.observer = lambda node, output: outputs.append(output) if node is leader else None
    proposal = cores.propose(leader, "a")
    assert proposal in leader.committed
    kinds = [type(output) for output in outputs]
    flush = kinds.index(FlushLog)
    assert not answered(outputs[:flush]), "the leader's own disk was kept waiting"
    burst = leader.replica.config.observer_burst
    assert len(answered(outputs)) == burst
    assert observers_parked(leader) == OBSERVERS - burst


def test_observers_are_served_in_turn_with_all_new_records() -> None:
    cores, leader = quorum_with_observers()
    reported: dict[int, int] = {}

    def hear(node: Node, output: object) -> None:
        if node is leader and isinstance(output, Respond) and output.request_id >= 1000:
            wanted = getattr(output.response, "range")  # noqa: B009
            assert output.request_id not in reported
            reported[output.request_id] = wanted.limit_offset

    cores.observer = hear
    for text in "abcdef":
        cores.propose(leader, text)
    interval_ms = leader.replica.config.observer_interval_ms
    cores.advance(OBSERVERS * interval_ms + 1)
    assert len(reported) == OBSERVERS
    assert observers_parked(leader) == 0
    late = [end for end in reported.values() if end == leader.replica.log_end]
    assert len(late) >= OBSERVERS - leader.replica.config.observer_burst


def test_observer_pace_is_constant_under_steady_writes() -> None:
    cores, leader = quorum_with_observers()
    outputs: list[object] = []
    cores.observer = lambda node, output: outputs.append(output) if node is leader else None
    config, count = leader.replica.config, 0
    for round_ in range(100):
        cores.propose(leader, f"{round_}")
        cores.advance(1)
        again, outputs[:] = answered(outputs), []
        count += len(again)
        for number in again:
            fetch(cores, leader, number)
    assert count <= config.observer_burst + 101 / config.observer_interval_ms
    assert count >= 90 / config.observer_interval_ms, "turns must not be lost either"


def test_lagging_observer_is_answered_immediately() -> None:
    cores, leader = quorum_with_observers()
    for text in "abcdef":
        cores.propose(leader, text)
    cores.advance(100)
    fetch(cores, leader, 0, fetch_offset=3, last_fetched_epoch=1)
    for number in range(1, 10):  # no free turn is left
        fetch(cores, leader, number)
    cores.propose(leader, "g")
    outputs: list[object] = []
    cores.observer = lambda node, output: outputs.append(output) if node is leader else None
    fetch(cores, leader, 0, fetch_offset=4, last_fetched_epoch=1)
    assert answered(outputs) == [0]
