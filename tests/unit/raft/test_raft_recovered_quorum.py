"""After a recovery a majority of the old voters elects a leader, cut off from the survivor: which requests are rejected."""

from dataclasses import replace

import pytest

from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import (
    NO_LEADER,
    BeginQuorumEpochRequest,
    CurrentLeader,
    FetchRequest,
    VoteRequest,
    VoteResponse,
    voter_entry,
)
from quorum_node.raft.outputs import AppendBatch, HaltReason, OlderQuorum, Output, Superseded
from quorum_node.raft.transitions import observe_leader
from quorum_node.raft.voters import VoterSet, tombstones_after
from quorum_node.records.batches import encode_batch
from quorum_node.records.control import LeaderChange, VotersRecord, decode_control, encode_control
from quorum_node.records.identity import ReplicaKey
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, key_of
from support.raft.snapshot_env import delete_prefix, release_finish, take_snapshot, until

pytestmark = pytest.mark.requirement("OP-07")
DISTANCE = 1 << 16


class Split(Cores):
    """Voters 1, 2, 3 and observer 4. 1 is recovered as the sole voter while 2 and 3 run on without it."""

    def __init__(self, *voters: str, observer: str = "4") -> None:
        super().__init__(self._note)
        self.refused: list[tuple[str, OlderQuorum]] = []
        self.told: list[tuple[str, Superseded]] = []
        names = voters or ("1", "2", "3")
        self.founder = self.quorum(*names)
        self.four = self.start(observer, bootstrap=list(names))
        self.propose(self.founder, "before")
        self.advance(600)

    def _note(self, node: Node, output: Output) -> None:
        if isinstance(output, OlderQuorum):
            self.refused.append((node.name, output))
        if isinstance(output, Superseded):
            self.told.append((node.name, output))

    def recover(self, node: Node) -> None:
        """What `quorum-node --recover` does to a stopped replica."""
        self.crash(node)
        assert node.state is not None
        before = node.replica.voters.latest
        epoch = node.replica.epoch + DISTANCE
        recovered = key_of(node.key.id, incarnation=9)
        after = VoterSet((voter_entry(recovered, endpoints_of(node.name)),))
        record = VotersRecord(
            after.voters,
            CLUSTER_ID,
            initial_voters=1,
            tombstones=tombstones_after(before.record.tombstones, before.voters, after),
            recovered_epoch=epoch,
        )
        base = node.log_end
        data = encode_batch(
            base_offset=base,
            leader_epoch=epoch,
            timestamp_ms=0,
            records=[
                encode_control(LeaderChange(recovered.id, (recovered,), (recovered,))),
                encode_control(record),
            ],
            control=True,
        )
        node.batches.append(AppendBatch(base, base + 2, epoch, data))
        node.key = recovered
        node.state = replace(
            node.state, leader_epoch=epoch, leader_id=NO_LEADER, voted=recovered, formed=True
        )
        node.config = replace(node.config, founder=False)
        self.restart(node)

    def lift(self, *nodes: Node) -> None:
        """Old voters have received the new epochs: they continue above them."""
        epoch = self.founder.replica.epoch + 3
        for node in nodes:
            self.crash(node)
            assert node.state is not None
            node.state = replace(node.state, leader_epoch=epoch, voted=None, leader_id=NO_LEADER)
        for node in nodes:
            self.restart(node)

    def rejoin(self) -> None:
        """The links are back. Old voters receive the recovery, and those with a higher committed offset stop."""
        self.heal()
        for _ in range(20):
            self.advance(1_000)
            for node in self.nodes.values():
                if node.up and node.halted is not None:
                    self.crash(node)

    def split(self) -> tuple[Node, Node]:
        """The recovered leader, and the leader of the old majority; 4 has seen the recovery."""
        old = [self.nodes[name] for name in "23"]
        self.partition(["1", "4"], ["2", "3"])
        self.recover(self.founder)
        self.advance(20_000)
        assert self.founder.is_leader
        leader = next(node for node in old if node.is_leader)
        write = self.propose(leader, "acknowledged by the old majority")
        self.advance(100)
        assert write in leader.committed, "an epoch can't prevent this"
        after = self.propose(self.founder, "after")
        self.advance(100)
        assert after in self.founder.committed
        assert self.four.committed_values()[-1] == "after"
        return self.founder, leader


def recovered_epoch(node: Node) -> int:
    return node.replica.voters.latest.record.recovered_epoch


def test_observer_that_knows_the_recovery_ignores_the_old_majority() -> None:
    cores = Split()
    new, old = cores.split()
    four = cores.four
    seen, epoch = four.committed_values(), four.replica.epoch
    cores.partition(["1"], ["2", "3", "4"])
    cores.advance(60_000)
    assert four.committed_values() == seen
    assert four.replica.epoch == epoch == new.replica.epoch
    assert four.replica.leader_id == NO_LEADER
    assert {name for name, _ in cores.refused} == {"4"}
    assert old.replica.epoch < DISTANCE, "a voter raised its epoch"
    assert old.name in {name for name, _ in cores.told}
    assert cores.told[0][1] == Superseded(four.key, recovered_epoch(new))
    assert old.is_leader, "reported, but the node continues, because any peer could send this"
    cores.rejoin()
    assert four.replica.leader_id == new.key.id


def test_old_majority_is_rejected_with_epochs_above_the_recovered_ones() -> None:
    """An old voter may have received the new epochs; then the epoch alone shows nothing."""
    cores = Split()
    new, old = cores.split()
    four = cores.four
    seen = four.committed_values()
    cores.crash(new)
    cores.lift(*(cores.nodes[name] for name in "23"))
    cores.partition(["2", "3", "4"], ["1"])
    cores.advance(60_000)
    old = next(cores.nodes[name] for name in "23" if cores.nodes[name].is_leader)
    assert old.replica.epoch > new.replica.epoch
    assert four.committed_values() == seen
    assert four.replica.epoch == new.replica.epoch, "their epoch was adopted"
    assert not four.halted
    assert "4" in {name for name, _ in cores.refused}
    cores.restart(new)
    cores.rejoin()
    write = cores.propose(new, "goes on")
    cores.advance(1_000)
    assert write in new.committed
    assert four.committed_values()[-1] == "goes on"


def test_old_voter_that_knows_the_recovery_does_not_elect_another_old_voter() -> None:
    """3 has led above the recovered epoch, so its log wins the comparison; 5 is one of its voters."""
    cores = Split("1", "2", "3", "4", "5", observer="6")
    old = [cores.nodes[name] for name in "234"]
    five = cores.nodes["5"]
    for node in (*old, five):
        cores.crash(node)
    cores.recover(cores.founder)
    cores.advance(5_000)
    cores.restart(five)
    cores.advance(10_000)
    assert recovered_epoch(five) == recovered_epoch(cores.founder)
    cores.partition(["1", "5", "6"], ["2", "3", "4"])
    for node in old:
        cores.restart(node)
    cores.lift(*old)
    cores.advance(20_000)
    leader = next(node for node in old if node.is_leader)
    assert leader.replica.epochs.last_epoch > cores.founder.replica.epoch
    cores.crash(leader)
    left = [node for node in old if node is not leader]
    cores.partition(["1", "6"], [*(node.name for node in left), "5"])
    epoch = five.replica.epoch
    cores.advance(60_000)
    assert not any(node.is_leader for node in left), "two of five elected a leader"
    assert five.replica.epoch == epoch, "it adopted their epochs"
    assert five.replica.leader_id in (NO_LEADER, 1)
    assert recovered_epoch(five) == recovered_epoch(cores.founder)


@pytest.mark.parametrize("pre_vote", [False, True])
@pytest.mark.parametrize(
    ("candidate", "reported"),
    [
        pytest.param(key_of(2), 0, id="an old voter"),
        pytest.param(key_of(2), -1, id="an old voter that says nothing of recoveries"),
        pytest.param(key_of(9), 0, id="a new replica of the older quorum"),
    ],
)
def test_candidate_of_the_older_quorum_gets_no_vote(
    candidate: ReplicaKey, reported: int, pre_vote: bool
) -> None:
    cores = Split()
    new, _ = cores.split()
    four, epoch = cores.four, cores.four.replica.epoch
    cores.crash(new)
    cores.advance(60_000)
    for requested in (epoch, epoch + 5):
        request = VoteRequest(
            CLUSTER_ID,
            candidate,
            requested,
            requested,
            last_epoch_end_offset=1_000,
            voter=four.key,
            pre_vote=pre_vote,
            recovered_epoch=reported,
        )
        answer = cores.request(four, request)
        assert isinstance(answer, VoteResponse)
        assert not answer.vote_granted
        assert answer.leader == CurrentLeader(NO_LEADER, 0), "it adopted an epoch"
    assert four.replica.epoch == epoch
    assert four.replica.voted is None


@pytest.mark.parametrize("reported", [-1, "recovered"])
def test_unknown_candidates_possibly_of_the_recovered_quorum_get_a_vote(
    reported: int | str,
) -> None:
    """A voter by a record that has not arrived here: stock Kafka without the field, or a replica that knows the recovery."""
    cores = Split()
    new, _ = cores.split()
    four, epoch = cores.four, cores.four.replica.epoch
    seen = recovered_epoch(new) if reported == "recovered" else -1
    cores.crash(new)
    cores.advance(60_000)
    request = VoteRequest(
        CLUSTER_ID, key_of(9), epoch + 1, epoch, 1_000, four.key, recovered_epoch=seen
    )
    answer = cores.request(four, request)
    assert isinstance(answer, VoteResponse)
    assert answer.vote_granted
    assert four.replica.voted == key_of(9)


def test_begin_epoch_of_an_older_quorum_leader_is_ignored() -> None:
    cores = Split()
    new, _ = cores.split()
    four, epoch = cores.four, cores.four.replica.epoch
    cores.crash(new)
    cores.advance(60_000)
    request = BeginQuorumEpochRequest(
        CLUSTER_ID, 2, epoch + 5, four.key, endpoints_of("2")[0], recovered_epoch=0
    )
    answer = cores.request(four, request)
    assert answer is not None
    assert answer.error is not RaftError.NONE
    assert answer.leader == CurrentLeader(NO_LEADER, 0)
    assert four.replica.epoch == epoch
    assert four.replica.leader_id == NO_LEADER
    assert (
        "4",
        OlderQuorum(CurrentLeader(2, epoch + 5, endpoints_of("2")[0]), recovered_epoch(new)),
    ) in cores.refused


@pytest.mark.parametrize("kind", ["vote", "begin"])
def test_response_of_the_older_quorum_sets_no_leader(kind: str) -> None:
    """A node of the older quorum answers at the address of a voter of the recovered one."""
    cores = Split()
    new, old = cores.split()
    cores.lift(*(cores.nodes[name] for name in "23"))
    cores.partition(["2", "3"], ["1"])
    cores.advance(20_000)
    old = next(cores.nodes[name] for name in "23" if cores.nodes[name].is_leader)
    request: VoteRequest | BeginQuorumEpochRequest
    if kind == "vote":
        request = VoteRequest(
            CLUSTER_ID, key_of(9), 1, 1, 1, key_of(8), recovered_epoch=recovered_epoch(new)
        )
    else:
        request = BeginQuorumEpochRequest(
            CLUSTER_ID, 9, 1, key_of(8), None, recovered_epoch=recovered_epoch(new)
        )
    answer = cores.request(old, request)
    assert answer is not None
    assert answer.leader.leader_epoch > new.replica.epoch
    assert answer.leader.recovered_epoch == 0, "it reports that it knows of none"
    four = cores.four
    epoch = four.replica.epoch
    observe_leader(four.replica, answer.leader, error=RaftError.NONE)
    assert four.replica.epoch == epoch
    assert four.replica.leader_id != old.key.id


def test_survivor_ends_the_older_quorum_when_it_is_reachable() -> None:
    """The older leader neither is queried nor needs an answer: it sends BeginQuorumEpoch to its lost voter."""
    cores = Split("2", "1", "3")
    old, survivor = cores.founder, cores.nodes["1"]
    others = [cores.nodes[name] for name in "23"]
    cores.crash(cores.four)
    cores.partition(["1"], ["2", "3"])
    cores.recover(survivor)
    cores.advance(20_000)
    assert survivor.is_leader
    assert old.is_leader, "it has led since before the recovery, and the survivor had followed it"
    cores.heal()
    cores.advance(30_000)
    assert not old.is_leader
    assert survivor.is_leader
    assert all(node.halted or node.replica.leader_id == survivor.key.id for node in others)


def test_new_replica_of_the_recovered_quorum_is_served_without_a_loss_report() -> None:
    """Its log is empty: it reads of the recovery only later. The same holds for nodes that query it meanwhile."""
    cores = Split()
    new, _ = cores.split()
    five = cores.start("5", bootstrap=["1", "4"])
    cores.advance(5_000)
    assert recovered_epoch(five) == recovered_epoch(new)
    answer = cores.add_voter(new, five)
    assert answer.error.value == "ok", answer.message
    assert recovered_epoch(five) == recovered_epoch(new), "every later voters record carries it"
    assert new.replica.voters.latest.offset > 0
    assert cores.refused == []
    assert cores.told == []


def test_returning_old_voter_joins_the_recovered_quorum() -> None:
    cores = Split()
    new, _ = cores.split()
    old = [cores.nodes[name] for name in "23"]
    cores.rejoin()
    # What they have acknowledged to each other is committed as far as they know: they stop, or follow.
    assert all(node.halted or node.replica.leader_id == new.key.id for node in old)
    assert new.is_leader
    assert isinstance(new.replica.role, Leader)


def test_old_voter_finds_a_leader_that_it_never_knew() -> None:
    """Only the leader itself can report it, and none of the known addresses is the leader's."""
    cores = Split()
    old = cores.nodes["2"]
    for name in "23":
        cores.crash(cores.nodes[name])
    cores.recover(cores.founder)
    cores.advance(5_000)
    newcomers = [cores.start(name, bootstrap=["1"]) for name in "56"]
    cores.advance(2_000)
    for newcomer in newcomers:
        answer = cores.add_voter(cores.founder, newcomer)
        assert answer.error is RaftError.NONE
    cores.crash(cores.founder)
    cores.advance(10_000)
    leader = next(node for node in newcomers if node.is_leader)
    cores.restart(cores.founder)
    cores.restart(old)
    cores.advance(30_000)
    assert leader.is_leader
    assert old.replica.leader_id == leader.key.id
    assert old.replica.epoch == leader.replica.epoch


def test_stock_observer_follows_the_epoch() -> None:
    """It sends no recovery: the old leader rejects it for its newer epoch, and has no records for it."""
    cores = Split()
    new, old = cores.split()
    stock = FetchRequest(
        CLUSTER_ID, ReplicaKey(77), new.replica.epoch, 3, 1, max_wait_ms=0, answer=-2
    )
    answer = cores.request(old, stock)
    assert answer is not None
    assert answer.error is RaftError.UNKNOWN_LEADER_EPOCH
    assert answer.leader.leader_epoch < new.replica.epoch, "which stock Kafka ignores as stale"
    assert not answer.records  # type: ignore[union-attr]
    assert old.replica.epoch < DISTANCE


def test_recovery_record_is_in_the_log_and_stock_kafka_skips_it() -> None:
    record = VotersRecord((voter_entry(key_of(1), endpoints_of("1")),), recovered_epoch=70_000)
    from quorum_node.records.batches import decode_records, split_batches

    data = encode_batch(
        base_offset=0,
        leader_epoch=1,
        timestamp_ms=0,
        records=[encode_control(record)],
        control=True,
    )
    ((decoded,),) = [decode_records(batch) for batch in split_batches(data)[0]]
    assert decode_control(decoded) == record


def test_recovery_is_not_taken_while_a_snapshot_of_the_old_majority_is_verified() -> None:
    """The snapshot would replace it in the end. Seed 30031 of the distant epochs showed this."""
    cores = Split()
    four, two = cores.four, cores.nodes["2"]
    cores.partition(["1"], ["2", "3"], ["4"])
    cores.advance(20_000)
    old = next(cores.nodes[name] for name in "23" if cores.nodes[name].is_leader)
    for number in range(8):
        cores.propose(old, f"old {number}")
    cores.advance(600)
    for node in (two, cores.nodes["3"]):
        take_snapshot(cores, node)
        delete_prefix(cores, node)
    four.hold_finish = True
    cores.partition(["1"], ["2", "3", "4"])
    until(cores, lambda: four.finished is not None, 20_000)
    cores.partition(["1", "4"], ["2", "3"])
    cores.recover(cores.founder)
    cores.advance(20_000)
    cores.propose(cores.founder, "after")
    cores.advance(1_000)
    assert four.replica.leader_id == cores.founder.key.id
    assert recovered_epoch(cores.founder) > recovered_epoch(four) == 0
    release_finish(cores, four)
    assert four.replica.snapshot == two.snapshots.latest
    cores.advance(5_000)
    assert four.halted is not None, "it has committed records that the recovered quorum lacks"
    assert four.halted.reason is HaltReason.CORRUPTION
