"""A static quorum: voters known by id alone, until the first leader writes who they are (K853-04)."""

from dataclasses import replace
from itertools import pairwise

import pytest

from quorum_node.raft import QuorumState, RaftError
from quorum_node.raft.events import DiskLow, RequestReceived
from quorum_node.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    FetchRequest,
    RemoveVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from quorum_node.raft.outputs import AppendBatch, FormationDelayed, Output, RoleChanged
from quorum_node.raft.roles import RoleName
from quorum_node.records.batches import encode_values
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord
from quorum_node.records.identity import KEEPS_TARGET_VOTERS, ReplicaKey
from support.raft.cores import Cores, Node, formed_cores, key_of, static_voters
from support.raft.static_quorums import THREE, controls, formed, keys, start


@pytest.mark.requirement("K853-04", "K595-21", "K595-20", "K650-02")
def test_voters_are_the_first_record_in_the_log() -> None:
    cores = Cores()
    leader = formed(cores)
    (_, change), (_, version), (offset, record) = controls(leader)[:3]
    assert isinstance(change, LeaderChange)
    assert isinstance(version, KRaftVersion)
    assert isinstance(record, VotersRecord)
    assert offset == 2
    assert {voter.key for voter in record.voters} == {key_of(n) for n in (1, 2, 3)}
    assert record.initial_voters == 3
    assert record.cluster_id == f"made-by-{leader.name}"
    assert all(voter.endpoint("CONTROLLER") for voter in record.voters)
    assert all(voter.private_features & KEEPS_TARGET_VOTERS for voter in record.voters)
    cores.advance(600)
    for node in cores.nodes.values():
        assert set(keys(node)) == {key_of(n) for n in (1, 2, 3)}
        assert node.replica.cluster_id == record.cluster_id
        assert not node.replica.ids_only
        assert node.state is not None
        assert len(node.state.current_voters) == 3
    cores.propose(leader, "a")
    cores.advance(600)
    assert all(node.committed_values() == ["a"] for node in cores.nodes.values())


@pytest.mark.requirement("K853-04")
def test_two_of_three_static_voters_elect_no_leader_and_write_nothing() -> None:
    seen: list[tuple[str, Output]] = []
    cores = Cores(lambda node, output: seen.append((node.name, output)))
    start(cores, "1", "2")
    cores.advance(30_000)
    assert not any(node.is_leader for node in cores.nodes.values())
    assert not any(isinstance(output, AppendBatch) for _, output in seen)
    assert all(node.replica.epoch == 0 for node in cores.nodes.values())
    delays = {output for _, output in seen if isinstance(output, FormationDelayed)}
    assert FormationDelayed(ReplicaKey(3), "it does not respond") in delays
    cores.start("3", static=THREE)
    cores.advance(5000)
    assert cores.leader.replica.formed


class FetchesCutOff:
    """Cuts the way from some nodes to a leader the moment it is elected: they fetch in vain."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.cores = Cores(self._saw)
        self.seen: list[tuple[str, Output]] = []

    def _saw(self, node: Node, output: Output) -> None:
        self.seen.append((node.name, output))
        if isinstance(output, RoleChanged) and output.role is RoleName.LEADER:
            self.cores.cut |= {(name, node.name) for name in self.names if name != node.name}

    def appends(self) -> list[AppendBatch]:
        return [output for _, output in self.seen if isinstance(output, AppendBatch)]


@pytest.mark.requirement("K853-04", "K595-21")
def test_leader_writes_nothing_until_it_knows_every_uuid() -> None:
    mute = FetchesCutOff("3")
    cores = mute.cores
    one, _, _ = start(cores, *THREE)
    cores.advance(2000)
    assert one.is_leader
    assert keys(one) == (key_of(1), key_of(2), ReplicaKey(3))
    number = cores.propose(one, "too early")
    assert one.failed[number] is RaftError.NOT_FORMED
    for request in (
        AddVoterRequest(None, key_of(3), one.config.endpoints, 100),
        RemoveVoterRequest(None, ReplicaKey(3), 100),
    ):
        answer = cores.request(one, request)
        assert isinstance(answer, VoterChangeResponse)
        assert answer.error is RaftError.EPOCH_NOT_COMMITTED
    read = cores.read(one)
    assert read not in one.reads
    assert not mute.appends()

    mute.names = ()
    cores.heal()
    cores.advance(5000)
    leader = cores.leader
    assert set(keys(leader)) == {key_of(n) for n in (1, 2, 3)}
    assert [type(record) for _, record in controls(leader)][:3] == [
        LeaderChange,
        KRaftVersion,
        VotersRecord,
    ]


def test_next_leader_collects_the_uuids_again() -> None:
    mute = FetchesCutOff("3")
    cores = mute.cores
    one, two, three = start(cores, *THREE)
    cores.advance(2000)
    assert one.is_leader
    assert key_of(2) in keys(one)
    mute.names = ("2",)
    cores.partition(("1",), ("2",), ("3",))
    cores.advance(4000)
    assert not one.is_leader
    assert keys(one) == (key_of(1), ReplicaKey(2), ReplicaKey(3))
    cores.heal()
    cores.lose_disk(two, 2)
    mute.names = ()
    cores.advance(8000)
    assert cores.leader.replica.formed
    assert set(keys(three)) == {key_of(1), key_of(2, 2), key_of(3)}


def test_last_uuid_reported_for_an_id_is_written() -> None:
    mute = FetchesCutOff("3")
    cores = mute.cores
    one, two, _ = start(cores, *THREE)
    cores.advance(2000)
    assert one.is_leader
    cores.lose_disk(two, 2)
    cores.advance(600)
    assert one.is_leader
    assert keys(one) == (key_of(1), key_of(2, 2), ReplicaKey(3))
    cores.heal()
    cores.advance(3000)
    assert one.replica.formed
    assert set(keys(one)) == {key_of(1), key_of(2, 2), key_of(3)}


def test_full_disk_delays_the_voters_record() -> None:
    cores = Cores()
    one, _, _ = start(cores, *THREE)
    cores.do(one, DiskLow(True))
    cores.advance(3000)
    assert one.is_leader
    assert not one.batches
    cores.do(one, DiskLow(False))
    cores.advance(3000)
    assert one.replica.formed


def vote(
    node: Node,
    cores: Cores,
    candidate: ReplicaKey,
    *,
    epoch: int = 9,
    voter: ReplicaKey | None = None,
    static: tuple[int, ...] = (1, 2, 3),
    log: tuple[int, int] = (0, 0),
) -> VoteResponse:
    answer = cores.request(node, VoteRequest(None, candidate, epoch, *log, voter, False, static))
    assert isinstance(answer, VoteResponse)
    return answer


@pytest.mark.requirement("K853-04", "K853-02", "K650-02")
def test_votes_before_the_uuids_are_known_are_by_id() -> None:
    """By id, once per epoch and key, for a candidate of the same configuration; nothing else."""
    cores = Cores()
    (two,) = start(cores, "2")
    by_id = ReplicaKey(2)
    for candidate, voter, static, error in (
        (key_of(1), by_id, (1, 2), RaftError.INCONSISTENT_VOTER_SET),
        (key_of(1), by_id, (1, 2, 3, 4), RaftError.INCONSISTENT_VOTER_SET),
        (key_of(4), by_id, (1, 2, 3), RaftError.INCONSISTENT_VOTER_SET),
        (key_of(2, 7), by_id, (1, 2, 3), RaftError.INCONSISTENT_VOTER_SET),
        (key_of(1), None, (1, 2, 3), RaftError.INVALID_VOTER_KEY),
        (key_of(1), key_of(2), (1, 2, 3), RaftError.INVALID_VOTER_KEY),
        (key_of(1), ReplicaKey(3), (1, 2, 3), RaftError.INVALID_VOTER_KEY),
        (key_of(1), None, (), RaftError.INVALID_VOTER_KEY),
        (key_of(1), by_id, (), RaftError.INVALID_VOTER_KEY),
        (key_of(1), key_of(2, 7), (), RaftError.INVALID_VOTER_KEY),
    ):
        answer = vote(two, cores, candidate, voter=voter, static=static)
        assert (answer.vote_granted, answer.error) == (False, error), (candidate, voter, static)
    assert two.replica.epoch == 0
    assert vote(two, cores, key_of(1), voter=by_id).vote_granted
    assert two.state is not None
    assert (two.state.leader_epoch, two.state.voted) == (9, key_of(1))
    assert vote(two, cores, key_of(1), voter=by_id).vote_granted
    # The same id with another disk is another replica, and so is another id.
    assert not vote(two, cores, key_of(1, 2), voter=by_id).vote_granted
    assert not vote(two, cores, key_of(3), voter=by_id).vote_granted
    # A quorum that has formed knows this replica's key and requests its vote.
    assert vote(
        two, cores, key_of(3), epoch=10, voter=key_of(2), static=(), log=(9, 3)
    ).vote_granted


@pytest.mark.requirement("K853-04")
def test_replica_with_a_voters_record_grants_no_vote_by_id_only() -> None:
    """An emptied disk and a late starter can't elect a second leader behind a formed quorum."""
    cores = Cores()
    leader = formed(cores)
    cores.advance(600)
    for node in cores.nodes.values():
        epoch = node.replica.epoch
        candidate = key_of(1 if node.key.id != 1 else 3, 2)
        # Even a long log from nowhere does not help.
        answer = vote(node, cores, candidate, voter=ReplicaKey(node.key.id), log=(99, 99))
        assert not answer.vote_granted
        assert answer.error is RaftError.INCONSISTENT_VOTER_SET
        assert node.replica.epoch == epoch
    assert leader.is_leader


@pytest.mark.requirement("K853-04", "K853-06")
def test_wiped_voter_is_an_observer_of_the_formed_quorum() -> None:
    cores = Cores()
    leader = formed(cores)
    cores.advance(600)
    emptied = next(node for node in cores.nodes.values() if node is not leader)
    old = emptied.key
    cores.lose_disk(emptied, 2)
    cores.advance(4000)
    assert not emptied.replica.ids_only
    assert not emptied.replica.is_voter
    assert set(keys(leader)) == {key_of(n) for n in (1, 2, 3)}
    assert not vote(emptied, cores, key_of(1), epoch=99, voter=old, static=()).vote_granted
    # It returns under its new key: two records, never one.
    answer = cores.add_voter(leader, emptied, cluster_id=None, count_newcomer=True)
    assert answer.error is RaftError.NONE, answer.message
    assert {old, emptied.key} <= set(keys(leader))
    cores.advance(600)
    removed = cores.remove_voter(leader, old, cluster_id=None)
    assert removed.error is RaftError.NONE, removed.message
    sets = [set(entry.voters.ordered_keys) for entry in leader.replica.voters.entries]
    assert all(len(one ^ other) <= 1 for one, other in pairwise(sets[1:]))


@pytest.mark.requirement("K853-04")
@pytest.mark.parametrize("alive", [("1", "3"), ("2", "3")])
def test_wiped_disk_and_late_starter_form_no_second_quorum(
    alive: tuple[str, str],
) -> None:
    """The quorum has formed on 1 and 2 alone; 3 is not informed yet; one of 1 and 2 is wiped."""
    cores = Cores()
    one, two, three = start(cores, *THREE)
    # 3 fetches once, so that its UUID is known, and receives nothing from then on.
    while one.replica.ids_only:
        cores.advance(1)
        assert cores.now_ms < 9000
    cores.partition(("1", "2"), ("3",))
    cores.crash(three)
    three.batches, three.durable_batches = [], 0
    cores.advance(600)
    assert one.replica.high_watermark >= 3
    emptied, other = (one, two) if alive[0] == "1" else (two, one)
    cores.crash(other)
    cores.lose_disk(emptied, 2)
    cores.restart(three)
    cores.partition(alive)
    cores.advance(30_000)
    assert three.replica.ids_only
    assert emptied.replica.ids_only
    assert not emptied.is_leader
    assert not three.is_leader

    cores.heal()
    cores.restart(other)
    cores.advance(8000)
    assert cores.leader is other
    assert not emptied.replica.is_voter
    assert three.replica.is_voter


@pytest.mark.requirement("K853-04")
def test_new_uuid_of_a_known_id_is_accepted_and_a_new_id_is_not() -> None:
    cores = Cores()
    leader = formed(cores)
    newcomer = cores.start("4", bootstrap=THREE)
    cores.advance(600)
    answer = cores.add_voter(leader, newcomer, cluster_id=None)
    assert answer.error is RaftError.NEW_VOTER_ID
    assert "controller.quorum.bootstrap.servers" in answer.message
    # The same quorum, started with bootstrap servers, takes it.
    leader.config = replace(leader.config, static_voters=())
    leader.replica.config = leader.config
    answer = cores.add_voter(leader, newcomer, cluster_id=None)
    assert answer.error is RaftError.NONE, answer.message


@pytest.mark.requirement("K595-19")
def test_known_quorum_takes_precedence_over_configured_voters() -> None:
    cores, founder = formed_cores("1", "2", "3")
    for node in cores.nodes.values():
        cores.crash(node)
        node.config = replace(node.config, static_voters=static_voters("7", "8", node.name))
    for node in cores.nodes.values():
        cores.restart(node)
    cores.advance(5000)
    assert all(not node.replica.ids_only for node in cores.nodes.values())
    assert set(keys(cores.leader)) == {key_of(n) for n in (1, 2, 3)}
    assert founder.replica.is_voter


@pytest.mark.requirement("K595-19", "K853-04")
def test_configured_voters_only_exclude_new_ids_in_a_known_quorum() -> None:
    """Voters and endpoints are those of the log; only KIP-853's rejection of new ids remains."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    for node in cores.nodes.values():
        cores.crash(node)
        node.config = replace(node.config, static_voters=static_voters("1", "2", "7"))
    for node in cores.nodes.values():
        cores.restart(node)
    cores.advance(5000)
    leader = cores.leader
    assert set(keys(leader)) == {key_of(n) for n in (1, 2, 3)}, "voters of the log"
    assert leader.replica.endpoint_of(key_of(3)) is not None, "3 is asked, though it is not named"
    assert leader.replica.endpoint_of(key_of(7)) is None, "7 is not asked, though it is named"
    refused = cores.start("4", bootstrap=("1", "2", "3"))
    cores.advance(600)
    answer = cores.add_voter(leader, refused, cluster_id=None)
    assert answer.error is RaftError.NEW_VOTER_ID
    taken = cores.start("7", bootstrap=("1", "2", "3"))
    cores.advance(600)
    answer = cores.add_voter(leader, taken, cluster_id=None)
    assert answer.error is RaftError.NONE, answer.message


@pytest.mark.requirement("K853-01")
def test_vote_from_a_version_0_file_is_kept() -> None:
    """The file contains an id without a UUID: no other candidate gets that epoch's vote."""
    cores = Cores()
    (two,) = start(cores, "2")
    two.state = QuorumState(leader_epoch=5, voted=ReplicaKey(3))
    cores.restart(two)
    for candidate in (key_of(1), key_of(3)):
        answer = vote(two, cores, candidate, epoch=5, voter=ReplicaKey(2))
        assert not answer.vote_granted
    assert two.replica.voted == ReplicaKey(3)
    assert vote(two, cores, key_of(1), epoch=6, voter=ReplicaKey(2)).vote_granted


def test_begin_quorum_epoch_by_id_counts_only_before_the_voters_are_known() -> None:
    cores = Cores()
    (two,) = start(cores, "2")
    begin = BeginQuorumEpochRequest(None, 1, 4, ReplicaKey(2), static_voters("1")[0].endpoints[0])
    answer = cores.request(two, begin)
    assert answer is not None
    assert answer.error is RaftError.NONE  # type: ignore[union-attr]
    assert (two.replica.epoch, two.replica.remembered_leader_id) == (4, 1)
    other = Cores()
    leader = formed(other)
    node = next(each for each in other.nodes.values() if each is not leader)
    begin = replace(begin, cluster_id=node.replica.cluster_id, leader_epoch=99)
    begin = replace(begin, voter=ReplicaKey(node.key.id))
    answer = other.request(node, begin)
    assert answer is not None
    assert answer.error is RaftError.INVALID_VOTER_KEY  # type: ignore[union-attr]


def test_newer_epoch_of_a_configured_voter_is_adopted() -> None:
    """It could never follow this leader, and without it nothing can be written."""
    mute = FetchesCutOff("3")
    cores = mute.cores
    one, _, _ = start(cores, *THREE)
    cores.advance(2000)
    assert one.is_leader
    fetch = FetchRequest(None, key_of(3), one.replica.epoch + 4, 0, 0)
    cores.do(one, RequestReceived(10**6, fetch))
    assert one.replica.epoch == fetch.current_leader_epoch


def old_log(*ends: tuple[int, int]) -> list[AppendBatch]:
    """Batches (epoch, end offset) of a quorum that never wrote its voters."""
    batches, base = [], 0
    for epoch, end in ends:
        values = [f"{epoch}-{offset}".encode() for offset in range(base, end)]
        data = encode_values(base_offset=base, leader_epoch=epoch, timestamp_ms=0, values=values)
        batches.append(AppendBatch(base, end, epoch, data))
        base = end
    return batches


@pytest.mark.requirement("K853-04", "K853-01")
@pytest.mark.parametrize("best", THREE)
def test_static_kafka_quorum_continues_after_its_own_records(best: str) -> None:
    """kraft.version 0: records, but no voters. The best log of all leads; what it has is kept."""
    cores = Cores()
    for name in THREE:
        node = cores.start(name, static=THREE, run=False)
        node.batches = old_log((1, 3), (4, 7)) if name == best else old_log((1, 3), (2, 5))
        node.durable_batches = len(node.batches)
        node.state = QuorumState(leader_epoch=6, voted=ReplicaKey(2))
        cores.restart(node)
    cores.advance(10_000)
    leader = cores.leader
    assert leader.name == best
    assert leader.replica.formed
    assert [offset for offset, _ in controls(leader)][:3] == [7, 8, 9]
    values = ["1-0", "1-1", "1-2", "4-3", "4-4", "4-5", "4-6"]
    assert all(node.committed_values() == values for node in cores.nodes.values())
