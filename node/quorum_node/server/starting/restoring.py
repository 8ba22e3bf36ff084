"""`quorum-node --restore-from DIR`: the founder of a new quorum starts with the records of a backup.

Owns the checks before it (is the directory empty, does no quorum exist, is the backup complete, of the right cluster, of a version that
this one reads?) and the order of the writes, so that an interrupted restore can be started again:

1. Everything is created and opened in `restore-in-progress`, inside the data directory.
2. The finished partition is renamed to its place.
3. meta.properties is written. From then on the option has no effect, so it may stay.

With the cluster id of the backup the records stay unchanged. Partitions with raised leader epochs follow (`raised_epochs.py`), and this
node becomes the sole voter as after `--recover`: in an epoch far beyond those of the old quorum, whose voters become tombstones. With
another cluster id the state is written as a snapshot, and epochs start again: no member of the old cluster can be in the new one.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import structlog

from quorum_node.backups.contents import Contents, checked_pieces, read_contents
from quorum_node.backups.files import DirectoryFiles
from quorum_node.backups.manifest import BackupError
from quorum_node.backups.object_address import Place, parse_place
from quorum_node.backups.raised_epochs import (
    append_partitions,
    epoch_margin,
    raised_partitions,
)
from quorum_node.backups.source import Source, find_source
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.configuration.properties import ConfigError
from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.raft.epoch_bound import MAX_EPOCH
from quorum_node.raft.messages import voter_entry
from quorum_node.records.control import VotersRecord
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.metadata.metadata_version import LATEST_LEVEL, LOWEST_LEVEL
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.starting.existing_clusters import existing_cluster
from quorum_node.server.starting.recovering import sole_voter_record
from quorum_node.server.starting.replica_building import build_replica, own_endpoints
from quorum_node.server.starting.startup import other_servers
from quorum_node.server.starting.startup_connections import Dial, dial_in_clear_text
from quorum_node.storage.atomic_file import sync_directory, sync_file
from quorum_node.storage.directory import identity_text, is_formatted
from quorum_node.storage.errors import (
    DiskFull,
    OutOfResources,
    StorageFailure,
    WrongDirectory,
    storage_errors,
)
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.leader_epochs import FILE_NAME as CHECKPOINT
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from quorum_node.storage.partition_directory import (
    OpenPartition,
    format_partition,
    open_partition,
    partition_directory,
)
from quorum_node.storage.snapshots import SnapshotStore
from quorum_node.storage.sole_voter import append_sole_voter, owner_of, save_sole_voter
from quorum_node.storage.synced_end import FILE_NAME as SYNCED_END

STAGING = "restore-in-progress"
_SUFFIXES = (".checkpoint", ".log")
_COPIED = frozenset({CHECKPOINT, SYNCED_END})
"""Copied besides snapshots and segments: they distinguish a truncated log from a damaged one. All other files are newly created."""

_LOG = structlog.get_logger("quorum_node")


def place_of(text: str, endpoint: str | None, region: str | None, path_style: str | None) -> Place:
    """A directory, or an address in an object store. Raises ConfigError."""
    try:
        style = None if path_style is None else path_style == "true"
        return parse_place(text, endpoint, region, style)
    except BackupError as error:
        raise ConfigError(f"--restore-from: {error}") from None


def restore(
    config: NodeConfig,
    path: Place,
    of_cluster: str | None,
    latch: FailureLatch,
    dial: Dial = dial_in_clear_text,
    now_s: float | None = None,
) -> None:
    """Fill the (locked, empty) data directory, unless it is formatted already.

    `of_cluster`: the cluster id of the backup, if it is not `cluster.id`. Raises ConfigError or WrongDirectory if the restore is refused,
    and nothing was changed; StorageFailure, DiskFull.
    """
    if read_meta_properties(config.data_dir) is not None:
        _LOG.info(
            f"--restore-from {path}: {config.data_dir} is formatted already; nothing was restored"
        )
        return
    target = config.cluster_id
    if target is None:
        raise ConfigError(
            "--restore-from needs cluster.id: that of the backup to continue its cluster, or a new one"
        )
    _check_place(config, latch, dial)
    if (uuid := _finished(config)) is None:
        try:
            with _source(path, of_cluster or target) as source:
                uuid = _make(config, source, time.time() if now_s is None else now_s)
        except (BackupError, ConfigError) as error:
            shutil.rmtree(config.data_dir / STAGING, ignore_errors=True)
            known = isinstance(error, ConfigError)
            raise ConfigError(str(error) if known else f"--restore-from {path}: {error}") from None
    write_meta_properties(config.data_dir, MetaProperties(config.node_id, uuid, target))
    shutil.rmtree(config.data_dir / STAGING, ignore_errors=True)
    who = identity_text(config.node_id, uuid)
    _LOG.warning(f"{who} was restored from {path}, and is the sole voter of cluster {target}")


@contextmanager
def _source(place: Place, cluster_id: str) -> Iterator[Source]:
    if isinstance(place, Path):
        yield find_source(place, cluster_id)
        return
    # Most restores read a volume, and need not load these modules.
    from quorum_node.backups.object_store import connect
    from quorum_node.backups.stored_source import find_stored_source

    with closing(connect(place)) as store:
        yield find_stored_source(store, place, cluster_id)


def _check_place(config: NodeConfig, latch: FailureLatch, dial: Dial) -> None:
    if config.partitions > 1:
        raise ConfigError("--restore-from: only a node with one quorum partition can be restored")
    if config.witness:
        raise ConfigError(
            "--restore-from: a witness never leads; restore another node, or unset quorum.witness"
        )
    staging = config.data_dir / STAGING
    begun = staging.exists() or _finished(config) is not None
    if not begun:
        is_formatted(config.data_dir, latch)  # refuses a directory that has lost its identity
    existing = existing_cluster(other_servers(config), dial)
    if existing is not None:
        server, cluster_id = existing
        raise WrongDirectory(
            f"--restore-from: {server} is in cluster {cluster_id} already: a restore creates a new quorum, and never"
            " changes one that exists. Stop that quorum, or restore under another name"
        )


def _finished(config: NodeConfig) -> UUID | None:
    """UUID of the replica if its partition is already in place, so that only meta.properties is missing; else None."""
    staging = config.data_dir / STAGING
    return owner_of(partition_directory(config.data_dir, 0)) if staging.exists() else None


def _check_versions(source: Source, contents: Contents) -> None:
    level = contents.metadata_version
    if level and not LOWEST_LEVEL <= level <= LATEST_LEVEL:
        raise BackupError(
            f"{source.place} has metadata.version {level}, but this version reads {LOWEST_LEVEL} to {LATEST_LEVEL}:"
            " use the image of the members that wrote it, or a newer one"
        )
    if source.end_offset not in (None, contents.end_offset):
        raise BackupError(
            f"{source.place} ends at offset {contents.end_offset}, but its manifest says {source.end_offset}: use another backup"
        )


def _make(config: NodeConfig, source: Source, now_s: float) -> UUID:
    """Create the partition in its place. Also raises BackupError."""
    formation = config.formation
    founds = formation is not None and formation.founder_id == config.node_id
    uuid = formation.founder_uuid if formation is not None and founds else fresh_uuid()
    staging = config.data_dir / STAGING
    with storage_errors(f"restore into {staging}"):
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
    before = fresh_uuid()
    format_partition(staging, 0, before, source.cluster_id)
    _copy(source, staging)
    try:
        # Truncates records that the replica had not synced when its process ended.
        opened = _open(staging, before, source.cluster_id, config.segment_bytes)
    except OutOfResources:
        raise
    except StorageFailure as error:
        raise BackupError(f"{source.place} is damaged: {error}") from None
    try:
        contents = read_contents(DirectoryFiles(staging))
        _check_versions(source, contents)
        partitions = raised_partitions(contents, now_s)
        if source.cluster_id == config.cluster_id:
            if partitions:
                epoch = _raised_epoch(opened.log, now_s)
                append_partitions(opened.log, contents, partitions, epoch, now_s)
            uuid = _append_sole_voter(config, opened, uuid, now_s)
    finally:
        opened.log.close()
    if source.cluster_id != config.cluster_id:
        with storage_errors(f"restore into {staging}"):
            shutil.rmtree(opened.path)
        contents.committed.replay(partitions)
        _begin_anew(config, contents, staging, uuid)
    with storage_errors(f"restore into {config.data_dir}"):
        os.rename(partition_directory(staging, 0), partition_directory(config.data_dir, 0))
        sync_directory(config.data_dir)
    return uuid


def _append_sole_voter(config: NodeConfig, opened: OpenPartition, uuid: UUID, now_s: float) -> UUID:
    """The same cluster: append the record of the sole voter. Returns its UUID, which no former voter may have."""
    meta = MetaProperties(config.node_id, opened.replica_uuid, config.cluster_id)
    replica = build_replica(config, meta, opened)
    epoch = _raised_epoch(opened.log, now_s)
    before = replica.voters.latest
    if ReplicaKey(config.node_id, uuid) in {*before.voters.ordered_keys, *before.record.tombstones}:
        uuid = fresh_uuid()
    founder = ReplicaKey(config.node_id, uuid)
    record = sole_voter_record(replica, founder, own_endpoints(config), epoch)
    append_sole_voter(opened.log, epoch, record, int(now_s * 1000))
    save_sole_voter(opened.path, opened.state, epoch, founder)
    return uuid


def _raised_epoch(log: SegmentedLog, now_s: float) -> int:
    """An epoch beyond those that the old quorum may have used after the last record. Raises ConfigError."""
    last = log.epoch_before(log.end_offset) or 0
    epoch = last + epoch_margin(now_s)
    if epoch > MAX_EPOCH:
        raise ConfigError(
            f"--restore-from: epoch {epoch} is not possible: the largest one is {MAX_EPOCH}. Create a new cluster with these"
            " records: set another cluster.id, and the backup's with --restore-cluster-id"
        )
    return epoch


def _begin_anew(config: NodeConfig, contents: Contents, staging: Path, uuid: UUID) -> None:
    """Another cluster: write one snapshot with the complete state, and one voter."""
    committed = contents.committed
    if not committed.is_whole:
        kinds = ", ".join(sorted(committed.image.left_out)) or "an open transaction"
        raise ConfigError(
            f"--restore-from: a new cluster starts with a snapshot, which would lose {kinds}: restore with the"
            " cluster id of the backup"
        )
    founder = voter_entry(ReplicaKey(config.node_id, uuid), own_endpoints(config))
    named = SnapshotId(committed.end_offset, min(committed.epoch, 1))
    place = (max(committed.end_offset - 1, 0), named.epoch)
    voters = VotersRecord((founder,), config.cluster_id, 1, log_position=place)
    format_partition(staging, 0, uuid, config.cluster_id)
    writer = SnapshotStore(partition_directory(staging, 0)).create(named)
    bounds = SnapshotBounds(committed.timestamp_ms, 1, voters)
    for data in encode_snapshot(named, bounds, committed.image.snapshot_records()):
        writer.append(data)
    writer.freeze()
    opened = _open(staging, uuid, config.cluster_id, config.segment_bytes)
    state = replace(opened.state, formed=True)
    opened.state_file.save(state)
    opened.log.close()


def _open(staging: Path, uuid: UUID, cluster_id: str | None, segment_bytes: int) -> OpenPartition:
    return open_partition(staging, 0, uuid, cluster_id=cluster_id, segment_bytes=segment_bytes)


def _copy(source: Source, staging: Path) -> None:
    """Raises BackupError for unreadable or damaged files: these are not failures of the target's disk."""
    sizes = {
        name: size for name, size in source.files.sizes().items() if _is_copied(Path(name).name)
    }
    target = partition_directory(staging, 0)
    with storage_errors(f"write to {target}"):
        needed, free = sum(sizes.values()), shutil.disk_usage(target).free
        if needed > free:
            raise DiskFull(
                f"{source.place} has {needed} bytes, and {free} are free in {target}: use larger volumes for the members"
            )
        for name in sizes:
            with (target / Path(name).name).open("wb") as writer:
                for data in _pieces(source, name):
                    writer.write(data)
                writer.flush()
                sync_file(writer.fileno())
        sync_directory(target)


def _is_copied(name: str) -> bool:
    return name.endswith(_SUFFIXES) or name in _COPIED


def _pieces(source: Source, name: str) -> Iterator[bytes]:
    wanted = source.entries.get(name)
    return source.files.pieces(name) if wanted is None else checked_pieces(source.files, wanted)
