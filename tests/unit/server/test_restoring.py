"""`--restore-from` on an empty directory: what is restored, what is refused, and that it can be cut short anywhere."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from quorum_node.archiver.taking import take
from quorum_node.backups.manifest import FILE_NAME
from quorum_node.client.committed_log import CommittedLog
from quorum_node.configuration.node_config import NodeConfig, check_config
from quorum_node.configuration.properties import ConfigError
from quorum_node.host_port import HostPort
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.raft.epoch_bound import MAX_EPOCH
from quorum_node.raft.replica import Replica
from quorum_node.records import metadata as md
from quorum_node.records.identity import ReplicaKey, parse_uuid, uuid_text
from quorum_node.records.metadata import decode_metadata
from quorum_node.server.ending.termination import Termination
from quorum_node.server.starting import restoring
from quorum_node.server.starting.replica_building import build_replica
from quorum_node.server.starting.restoring import STAGING, restore
from quorum_node.server.starting.startup import open_replica
from quorum_node.storage.errors import StorageFailure, WrongDirectory
from quorum_node.storage.failure_latch import FAILURE_MARK, FailureLatch
from quorum_node.storage.leader_epochs import read_checkpoint
from quorum_node.storage.meta_properties import MetaProperties, write_meta_properties
from quorum_node.storage.partition_directory import format_partition
from quorum_node.storage.sole_voter import EPOCH_DISTANCE
from quorum_node.storage.synced_end import SyncedEnd
from quorum_pipeline.__main__ import main as pipeline
from quorum_pipeline.state.moment import Moment
from support.metadata_records import level
from support.quorum_directory_reader import DirectoryReader
from support.replayed_directory import replay_directory
from support.written_log import LogWriter, write_history

FOUNDER_UUID = "AAAAAAAAAAAAAAAAAAAABQ"
FOUNDER = ReplicaKey(4, parse_uuid(FOUNDER_UUID))
NO_LATCH = FailureLatch(None)
A_DAY_S = 86_400.0
LATER_S = 1_800_000_000.0


def config_of(tmp_path: Path, cluster_id: str = "cluster", **more: str) -> NodeConfig:
    """Of node 4, the founder."""
    return check_config(
        {
            "node.id": "4",
            "cluster.id": cluster_id,
            "listeners": "CONTROLLER://127.0.0.1:9093",
            "admin.listener": "http://127.0.0.1:8080",
            "metadata.log.dir": str(tmp_path / "data"),
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
            "formation.founder.id": "4",
            "formation.founder.uuid": FOUNDER_UUID,
            "formation.initial.voters": "1",
            **more,
        }
    )


@pytest.fixture(autouse=True)
def existing(monkeypatch: pytest.MonkeyPatch) -> list[tuple[HostPort, str]]:
    """Quorums that can be reached; none by default."""
    found: list[tuple[HostPort, str]] = []
    monkeypatch.setattr(restoring, "existing_cluster", lambda *_: found[0] if found else None)
    return found


def written(root: Path, snapshot: bool = True) -> LogWriter:
    made = LogWriter(root)
    write_history(made)
    if snapshot:
        made.snapshot()
    made.append(md.TopicRecord(name="late", topic_id=UUID(int=9)))
    made.close()
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With one backup, of the cluster `cluster`."""
    written(tmp_path / "old")
    log = cast(CommittedLog, DirectoryReader(tmp_path / "old"))
    take(log, tmp_path / "volume" / "demo", 7, "1.0")
    return tmp_path / "volume" / "demo"


def as_replica(root: Path, cluster_id: str = "cluster") -> Path:
    """What `LogWriter` wrote becomes a replica's data directory."""
    uuid = UUID(int=7)
    format_partition(root, 0, uuid, cluster_id)
    write_meta_properties(root, MetaProperties(1, uuid, cluster_id))
    return root


def opened(config: NodeConfig) -> Replica:
    """As a start finds it."""
    directory = open_replica(config, Termination())
    directory.first.log.close()
    return build_replica(config, directory.meta, directory.first)


def assert_raised(restored: ClusterImage, before: ClusterImage) -> None:
    """The same state, with higher epochs of all partitions: of any log that brokers may have, the leader epochs are lower."""
    values = [list(each.snapshot_records()) for each in (restored, before)]
    records = [[decode_metadata(value) for value in each] for each in values]
    found, wanted = (
        [each for each in one if isinstance(each, md.PartitionRecord)] for one in records
    )
    (margin,) = {b.leader_epoch - a.leader_epoch for a, b in zip(wanted, found, strict=True)}
    assert margin > EPOCH_DISTANCE
    assert records[0] == [
        replace(
            each,
            leader_epoch=each.leader_epoch + margin,
            partition_epoch=each.partition_epoch + margin,
        )
        if isinstance(each, md.PartitionRecord)
        else each
        for each in records[1]
    ]


def content(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_founder_is_the_sole_voter_of_the_restored_records(tmp_path: Path, folder: Path) -> None:
    config, before = config_of(tmp_path), content(folder)
    restore(config, folder, None, NO_LATCH, now_s=LATER_S)
    replica = opened(config)
    assert (replica.key, replica.cluster_id, replica.formed) == (FOUNDER, "cluster", True)
    latest = replica.voters.latest
    assert latest.voters.ordered_keys == (FOUNDER,)
    assert latest.epoch == replica.epoch > 2 + EPOCH_DISTANCE
    assert latest.record.recovered_epoch == latest.epoch, (
        "a replica that has seen it refuses the old quorum"
    )
    assert {key.id for key in latest.record.tombstones} == {1, 2, 3}
    assert replica.may_campaign()
    old, new = (replay_directory(each, Moment()) for each in (tmp_path / "old", tmp_path / "data"))
    assert new.image == old.image
    assert content(folder) == before, "the backup was changed"
    after = content(config.data_dir)
    restore(config, folder, None, NO_LATCH, now_s=LATER_S)  # the option may stay
    assert content(config.data_dir) == after


def test_two_restores_of_one_backup_start_in_different_epochs(tmp_path: Path, folder: Path) -> None:
    epochs = []
    for at in (LATER_S, LATER_S + 60):
        config = config_of(tmp_path)
        restore(config, folder, None, NO_LATCH, now_s=at)
        epochs.append(opened(config).epoch)
        shutil.rmtree(config.data_dir)
    assert epochs[0] < epochs[1]


def test_founder_with_the_uuid_of_a_former_voter_gets_another_uuid(
    tmp_path: Path, folder: Path
) -> None:
    """With the configuration of the lost node: its old key belongs to the old quorum."""
    former = ReplicaKey(2, UUID(int=102))
    settings = {"node.id": "2", "formation.founder.id": "2"}
    settings["formation.founder.uuid"] = uuid_text(UUID(int=102))
    config = config_of(tmp_path, **settings)
    restore(config, folder, None, NO_LATCH, now_s=LATER_S)
    replica = opened(config)
    assert replica.key.id == 2
    assert replica.key != former
    assert former in replica.voters.latest.record.tombstones
    assert replica.may_campaign()


@pytest.mark.parametrize("snapshot", [True, False])
def test_directory_of_a_replica_with_a_torn_tail_is_restored(
    tmp_path: Path, snapshot: bool
) -> None:
    """As after a kill: an incomplete batch was never acknowledged."""
    written(tmp_path / "old", snapshot)
    wanted = replay_directory(tmp_path / "old", Moment())
    path = as_replica(tmp_path / "old")
    segment = max((path / "__cluster_metadata-0").glob("*.log"))
    with segment.open("ab") as file:
        file.write(segment.read_bytes()[:40])
    config = config_of(tmp_path)
    restore(config, path, None, NO_LATCH, now_s=LATER_S)
    assert opened(config).voters.latest.voters.ordered_keys == (FOUNDER,)
    assert replay_directory(config.data_dir, Moment()).image == wanted.image


def test_output_of_a_pipeline_restore_is_accepted(tmp_path: Path) -> None:
    """To a moment of the past, by `quorum-pipeline restore`."""
    written(tmp_path / "old")
    moment = ["--at-offset", "12", "--voter", "1@old:9093", "--cluster-id", "cluster"]
    out = tmp_path / "restored"
    assert pipeline(["restore", "--log", str(tmp_path / "old"), "--output", str(out), *moment]) == 0
    config = config_of(tmp_path)
    restore(config, out, None, NO_LATCH, now_s=LATER_S)
    assert opened(config).voters.latest.voters.ordered_keys == (FOUNDER,)
    wanted = replay_directory(tmp_path / "old", Moment(offset=12))
    assert_raised(replay_directory(config.data_dir, Moment()).image, wanted.image)


def test_new_cluster_starts_with_the_records_in_its_own_epochs(
    tmp_path: Path, folder: Path
) -> None:
    config = config_of(tmp_path, "another")
    restore(config, folder, "cluster", NO_LATCH, now_s=LATER_S)
    replica = opened(config)
    assert (replica.cluster_id, replica.voters.latest.record.cluster_id) == ("another", "another")
    assert replica.voters.latest.voters.ordered_keys == (FOUNDER,)
    assert replica.epoch <= 1
    assert replica.may_campaign()
    old, new = (replay_directory(each, Moment()) for each in (tmp_path / "old", tmp_path / "data"))
    assert new.image == old.image


def refused(
    config: NodeConfig, path: Path, *words: str, of: str | None = None, kind: type = ConfigError
) -> None:
    with pytest.raises(kind) as error:
        restore(config, path, of, NO_LATCH, now_s=LATER_S)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert not (config.data_dir / "meta.properties").exists()
    assert not (config.data_dir / STAGING).exists()


def test_incompatible_backup_is_rejected_and_the_directory_stays_empty(
    tmp_path: Path, folder: Path, existing: list[tuple[HostPort, str]]
) -> None:
    config = config_of(tmp_path)
    (backup,) = folder.glob("backup-*")
    other = config_of(tmp_path, "other")
    refused(
        other, backup, f"{backup} belongs to cluster cluster, but cluster other is to be restored"
    )
    refused(other, folder, "backups of cluster cluster, and none of cluster other")
    refused(config, tmp_path / "nowhere", "can't be read")
    (tmp_path / "empty").mkdir()
    refused(config, tmp_path / "empty", "contains no backup (backup.json) and no data directory")
    existing.append((HostPort("demo", 9093), "cluster"))
    refused(config, folder, "demo:9093 is in cluster cluster already", kind=WrongDirectory)
    existing.clear()
    restore(
        config, folder.parent, None, NO_LATCH, now_s=LATER_S
    )  # the volume, with a folder for each quorum
    assert opened(config).key == FOUNDER


def test_unsupported_versions_are_rejected(tmp_path: Path) -> None:
    made = LogWriter(tmp_path / "old")
    write_history(made)
    made.append(level(md.METADATA_VERSION, md.LATEST_LEVEL + 1))
    made.close()
    words = f"metadata.version {md.LATEST_LEVEL + 1}, but this version reads"
    refused(config_of(tmp_path), as_replica(tmp_path / "old"), words)


def test_epoch_that_cannot_be_raised_requires_a_new_cluster(tmp_path: Path) -> None:
    made = LogWriter(tmp_path / "old")
    write_history(made)
    made.epoch = MAX_EPOCH - 10
    made.append(md.TopicRecord(name="last", topic_id=UUID(int=5)))
    made.close()
    path = as_replica(tmp_path / "old")
    refused(config_of(tmp_path), path, "set another cluster.id")
    config = config_of(tmp_path, "another")
    restore(config, path, "cluster", NO_LATCH, now_s=LATER_S)
    assert opened(config).epoch <= 1


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_damaged_backup_is_rejected_without_fallback_to_another(
    damage: str, tmp_path: Path, folder: Path
) -> None:
    (older,) = folder.glob("backup-*")
    newest = folder / "backup-20991231T000000Z-0000000099"
    shutil.copytree(older, newest)
    manifest = json.loads((newest / FILE_NAME).read_text())
    (newest / FILE_NAME).write_text(json.dumps(manifest | {"takenAt": "2099-12-31T00:00:00Z"}))
    (log,) = (newest / "__cluster_metadata-0").glob("*.log")
    data = log.read_bytes()
    match damage:
        case "flip":
            log.write_bytes(data[:70] + bytes([data[70] ^ 4]) + data[71:])
        case "cut":
            log.write_bytes(data[: len(data) // 2])
        case "gone":
            log.unlink()
    config = config_of(tmp_path)
    refused(config, folder, str(log))
    restore(config, older, None, NO_LATCH, now_s=LATER_S)
    assert opened(config).key == FOUNDER


def test_directory_of_a_failed_or_unidentified_replica_is_rejected(tmp_path: Path) -> None:
    written(tmp_path / "old")
    path = as_replica(tmp_path / "old")
    (path / FAILURE_MARK).write_text("EIO")
    refused(config_of(tmp_path), path, "marks the storage of this replica as failed")
    (path / FAILURE_MARK).unlink()
    write_meta_properties(path, MetaProperties(1, UUID(int=7), None))
    refused(config_of(tmp_path), path, "never joined")


def test_nonempty_directory_is_not_modified(tmp_path: Path, folder: Path) -> None:
    config = config_of(tmp_path)
    config.data_dir.mkdir()
    (config.data_dir / "something").write_text("x")
    with pytest.raises(StorageFailure, match="is not empty"):
        restore(config, folder, None, NO_LATCH, now_s=LATER_S)
    assert content(config.data_dir) == {"something": b"x"}


class Killed(BaseException):
    """The process ends here."""


Call = Callable[..., object]


@pytest.mark.parametrize("number", range(7))
def test_killed_restore_is_completed_by_the_next_one(
    number: int, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path)
    places = [
        (restoring, "format_partition"),
        (restoring, "_copy"),
        (restoring, "_append_sole_voter"),
        (restoring, "save_sole_voter"),
        (os, "rename"),
        (restoring, "write_meta_properties"),
        (restoring.shutil, "rmtree"),
    ]
    owner, name = places[number]
    honest: Call = getattr(owner, name)

    def cut(*arguments: object, **more: object) -> object:
        if name != "rmtree":
            honest(*arguments, **more)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, cut)
        with pytest.raises(Killed):
            restore(config, folder, None, NO_LATCH, now_s=LATER_S)
    restore(config, folder, None, NO_LATCH, now_s=LATER_S + A_DAY_S)
    replica = opened(config)
    assert (replica.key, replica.voters.latest.voters.ordered_keys) == (FOUNDER, (FOUNDER,))
    wanted = replay_directory(tmp_path / "old", Moment())
    assert replay_directory(config.data_dir, Moment()).image == wanted.image


MANY = 1_001
"""Partitions: more than are written in one batch."""


def a_partition(topic_id: UUID, number: int = 0, **fields: int) -> md.PartitionRecord:
    given: dict[str, Any] = {"leader_epoch": 0, "partition_epoch": 0, **fields}
    return md.PartitionRecord(
        partition_id=number, topic_id=topic_id, replicas=(1, 2), isr=(1, 2), leader=1, **given
    )


def with_partitions(root: Path, snapshot: bool) -> LogWriter:
    """As after `written`, with a topic that has partitions; leaders change after the snapshot."""
    made, topic_id = LogWriter(root), UUID(int=3)
    write_history(made)
    made.append(md.TopicRecord(name="t", topic_id=topic_id))
    made.append(*(a_partition(topic_id, number) for number in range(MANY)))
    if snapshot:
        made.snapshot()
    made.append(md.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
    made.close()
    return made


@pytest.mark.parametrize("snapshot", [True, False])
@pytest.mark.parametrize("source", ["backup", "replica"])
@pytest.mark.parametrize("cluster_id", ["cluster", "another"])
def test_leader_epochs_of_restored_partitions_are_higher_than_any_before(
    tmp_path: Path, snapshot: bool, source: str, cluster_id: str
) -> None:
    """Brokers may have logs with later leader epochs than the backup: one that is given again would have other records."""
    with_partitions(tmp_path / "old", snapshot)
    wanted = replay_directory(tmp_path / "old", Moment())
    if source == "backup":
        log = cast(CommittedLog, DirectoryReader(tmp_path / "old"))
        take(log, tmp_path / "backups", 7, "1.0")
        path = tmp_path / "backups"
    else:
        path = as_replica(tmp_path / "old")
    config, before = config_of(tmp_path, cluster_id), content(tmp_path)
    restore(config, path, "cluster", NO_LATCH, now_s=LATER_S)
    restored = replay_directory(config.data_dir, Moment())
    assert_raised(restored.image, wanted.image)
    assert content(tmp_path).items() >= before.items(), "the source was changed"
    replica = opened(config)
    assert replica.voters.latest.voters.ordered_keys == (FOUNDER,)
    if cluster_id == "another":
        return
    # Brokers have the records of the source, and follow from there on. Of later ones of the old quorum, the epoch is lower.
    epochs = dict(read_checkpoint(config.data_dir / "__cluster_metadata-0"))
    added, sole_voter = list(epochs)[-2:]
    assert epochs[added] == wanted.end_offset
    assert sole_voter > added > wanted.epoch + EPOCH_DISTANCE
    assert epochs[sole_voter] == wanted.end_offset + MANY
    old, new = (
        content(each / "__cluster_metadata-0") for each in (tmp_path / "old", config.data_dir)
    )
    if source == "replica":
        assert all(new[name].startswith(old[name]) for name in old if name.endswith(".log"))


def test_log_that_lost_its_synced_end_is_not_completed_by_raised_epochs(tmp_path: Path) -> None:
    """The added records must not hide that the replica has lost some."""
    with_partitions(tmp_path / "old", False)
    path = as_replica(tmp_path / "old")
    partition, state = path / "__cluster_metadata-0", replay_directory(path, Moment())
    SyncedEnd(partition, state.end_offset + 1, state.epoch).close()
    refused(config_of(tmp_path), path, "the disk has lost synced data")


def test_leader_epochs_are_raised_after_the_torn_tail_of_a_replica_was_truncated(
    tmp_path: Path,
) -> None:
    with_partitions(tmp_path / "old", False)
    wanted = replay_directory(tmp_path / "old", Moment())
    path = as_replica(tmp_path / "old")
    (segment,) = (path / "__cluster_metadata-0").glob("*.log")
    with segment.open("ab") as file:
        file.write(segment.read_bytes()[:40])
    config = config_of(tmp_path)
    restore(config, path, None, NO_LATCH, now_s=LATER_S)
    assert_raised(replay_directory(config.data_dir, Moment()).image, wanted.image)


@pytest.mark.parametrize("field", ["leader_epoch", "partition_epoch"])
def test_epochs_of_a_partition_that_can_not_be_raised_are_reported(
    tmp_path: Path, field: str
) -> None:
    made, topic_id = LogWriter(tmp_path / "old"), UUID(int=3)
    write_history(made)
    made.append(
        md.TopicRecord(name="t", topic_id=topic_id),
        a_partition(topic_id, **{field: (1 << 31) - 1}),
    )
    made.close()
    path = as_replica(tmp_path / "old")
    refused(config_of(tmp_path), path, f"partition 0 of topic {topic_id} can't be raised")
