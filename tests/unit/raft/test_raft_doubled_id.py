"""An id has two keys in the voter set: the newest one starts elections, unless only the older one can win."""

from quorum_node.raft.errors import RaftError
from quorum_node.raft.messages import AddVoterRequest
from support.raft.cores import CLUSTER_ID, Cores, Node


def with_two_keys() -> tuple[Cores, Node, Node, Node]:
    """A leader, a voter of id 1, and a replica with a newer key of that id that is not added yet."""
    cores = Cores()
    two = cores.quorum("2", "1")
    newer = cores.start("1'", 1, incarnation=2, bootstrap=["2"])
    cores.advance(500)
    return cores, two, cores.nodes["1"], newer


def test_older_key_leads_whose_log_alone_has_the_record_that_adds_the_newer_one() -> None:
    cores, two, older, newer = with_two_keys()
    two.hold_flush = newer.hold_flush = True
    cores.request(two, AddVoterRequest(CLUSTER_ID, newer.key, newer.config.endpoints, 3_000))
    cores.advance(300)
    assert len(older.replica.voters.latest.voters) == 3
    assert not older.replica.voters.latest_is_committed
    for node in (two, newer, older):
        cores.crash(node)
    for node in (two, newer, older):
        node.hold_flush = False
        cores.restart(node)
    assert len(two.replica.voters.latest.voters) == len(newer.replica.voters.latest.voters) == 2
    cores.advance(20_000)
    assert all(len(node.replica.voters.committed.voters) == 3 for node in (two, newer, older))
    assert cores.leader is not older, "it has handed over"
    leader = cores.leader
    proposal = cores.propose(leader, "after")
    cores.advance(500)
    assert proposal in leader.committed


def test_older_key_leads_whose_log_alone_has_committed_records() -> None:
    """The third voter is down, which a quorum of three has to stand."""
    cores, two, _older, newer = with_two_keys()
    assert cores.add_voter(two, newer).error is RaftError.NONE
    cores.advance(600)
    newer.hold_flush = True
    proposal = cores.propose(two, "before")
    cores.advance(100)
    assert proposal in two.committed
    end_offset = two.replica.high_watermark
    for node in (two, newer):
        cores.crash(node)
    newer.hold_flush = False
    cores.restart(newer)
    assert newer.replica.log_end < end_offset
    cores.advance(20_000)
    assert cores.leader is newer, "the older key led until the newer one had its records"
    assert newer.replica.high_watermark > end_offset
    assert "before" in newer.committed_values()


def test_older_key_leaves_elections_to_the_newer_one() -> None:
    cores, two, older, newer = with_two_keys()
    assert cores.add_voter(two, newer).error is RaftError.NONE
    cores.advance(600)
    led = []
    cores.observer = lambda node, output: led.append(node) if node.is_leader else None
    cores.crash(two)
    cores.advance(20_000)
    assert cores.leader is newer
    assert older not in led
