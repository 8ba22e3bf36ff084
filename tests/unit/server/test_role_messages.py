"""Log lines about roles: every change once, and a quorum without a majority does not fill the log."""

from structlog.testing import capture_logs

from quorum_node.raft.outputs import Output, RoleChanged
from quorum_node.server.observing.node_events import ReplicaEvents
from support.raft.cores import Cores, Node, formed_cores

HOUR_MS = 3_600_000


def test_voter_without_a_majority_logs_its_roles_ever_more_rarely() -> None:
    events = ReplicaEvents()
    changes = 0

    def hear(node: Node, output: Output) -> None:
        nonlocal changes
        if node.name == "2" and isinstance(output, RoleChanged):
            changes += 1
            events.role_changed(output)

    cores, leader = formed_cores("1", "2", "3")
    cores.crash(leader)
    cores.crash(cores.nodes["3"])
    cores.observer = hear
    with capture_logs() as lines:
        cores.advance(HOUR_MS)
    assert changes > 1000
    assert len(lines) < 50
    assert "a majority of the voters runs" in lines[-1]["event"]
    assert "times by now" not in lines[0]["event"]
    _returns_and_logs_each_role_of_the_next_epoch(cores, leader)


def _returns_and_logs_each_role_of_the_next_epoch(cores: Cores, returning: Node) -> None:
    with capture_logs() as lines:
        cores.restart(returning)
        cores.advance(10_000)
    elected = cores.leader.replica.epoch
    said = [line for line in lines if line["leaderEpoch"] == elected]
    assert said
    assert not any("times by now" in line["event"] for line in said)
    assert (said[-1]["role"], said[-1]["leaderId"]) == (
        "leader" if cores.leader.name == "2" else "follower",
        cores.leader.key.id,
    )
