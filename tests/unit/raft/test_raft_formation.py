"""How a quorum begins (KIP-595, "Bootstrapping Procedure"; the project's formation rule)."""

import pytest

from quorum_node.raft import RaftError, RoleName
from quorum_node.raft.outputs import HaltReason
from quorum_node.records.batches import decode_records, split_batches
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord, decode_control
from support.raft.cores import CLUSTER_ID, Cores, formed_cores


@pytest.mark.requirement("K595-20", "K595-21")
def test_first_leader_writes_voters_and_cluster_id_before_other_records() -> None:
    cores = Cores()
    one = cores.start("1", founder=True, initial_voters=3)
    assert one.is_leader, "a single voter elects itself at once"
    records = decode_records(split_batches(one.batches[0].data)[0][0])
    first = [decode_control(record) for record in records]
    assert [type(record) for record in first] == [LeaderChange, KRaftVersion, VotersRecord]
    assert [record.offset for record in records] == [0, 1, 2]
    voters = first[2]
    assert isinstance(voters, VotersRecord)
    assert (voters.cluster_id, voters.initial_voters) == (CLUSTER_ID, 3)
    assert [voter.key for voter in voters.voters] == [one.key]


@pytest.mark.requirement("K595-20")
def test_every_node_reads_the_cluster_id_from_the_log_and_validates_it_afterwards() -> None:
    cores = Cores()
    cores.start("1", founder=True)
    two = cores.start("2", bootstrap=["1"])
    assert two.replica.cluster_id is None or two.replica.cluster_id == CLUSTER_ID
    cores.advance(50)
    assert two.replica.cluster_id == CLUSTER_ID
    assert two.state is not None
    assert two.state.cluster_id == CLUSTER_ID


@pytest.mark.requirement("K595-20", "K595-05")
def test_new_replica_of_another_cluster_stops() -> None:
    cores = Cores()
    cores.start("1", founder=True)
    stranger = cores.start("2", bootstrap=["1"], cluster_id="another")
    cores.advance(5_000)
    assert stranger.halted is not None
    assert stranger.halted.reason is HaltReason.IDENTITY_MISMATCH
    assert stranger.batches == []


def test_empty_disk_of_a_non_founder_never_becomes_a_voter_automatically() -> None:
    cores = Cores()
    lonely = cores.start("2", bootstrap=["1"])
    cores.advance(60_000)
    assert lonely.replica.role.name is RoleName.UNATTACHED
    assert lonely.replica.epoch == 0
    assert not lonely.replica.is_voter


@pytest.mark.requirement("K595-21")
def test_no_writes_before_all_initial_voters_joined_including_after_a_restart() -> None:
    cores = Cores()
    one = cores.start("1", founder=True, initial_voters=3)
    refused = [cores.propose(one, "too early")]
    for name in ("2", "3"):
        cores.start(name, bootstrap=["1"], initial_voters=3)
        cores.advance(50)
        assert cores.add_voter(one, cores.nodes[name]) is not None
        if name == "2":
            refused.append(cores.propose(one, "too early"))
            cores.crash(one)
            cores.advance(100)
            cores.restart(one)
            cores.advance(4000)
            one = cores.leader
            refused.append(cores.propose(one, "still too early"))
    errors = {error for node in cores.nodes.values() for error in node.failed.values()}
    assert errors == {RaftError.NOT_FORMED}
    proposal = cores.propose(one, "now")
    assert proposal in one.committed


def test_formed_quorum_stays_formed_after_shrinking_and_restarting() -> None:
    cores = Cores()
    one = cores.start("1", founder=True, initial_voters=3)
    for name in ("2", "3"):
        cores.start(name, bootstrap=["1"], initial_voters=3)
        cores.advance(50)
        cores.add_voter(one, cores.nodes[name])
    for name in ("3", "2"):
        answer = cores.remove_voter(one, cores.nodes[name].key)
        assert answer.error is RaftError.NONE
    cores.crash(one)
    cores.restart(one)
    assert one.is_leader
    assert one.replica.formed
    assert cores.propose(one, "a") in one.committed


def test_founder_that_crashed_before_its_first_durable_batch_forms_again() -> None:
    cores = Cores()
    one = cores.start("1", founder=True, run=False)
    one.hold_flush = True
    cores.run()
    assert one.durable_batches == 0
    assert len(one.batches) == 1
    cores.crash(one)
    assert one.batches == []
    one.hold_flush = False
    cores.restart(one)
    assert one.is_leader
    assert one.replica.epoch == 2
    assert one.replica.high_watermark == 3


def test_founder_flag_is_ignored_if_a_log_exists() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.crash(one)
    cores.advance(500)
    cores.restart(one)
    cores.advance(1000)
    assert not one.is_leader
    assert len(one.replica.voters.latest.voters) == 3
