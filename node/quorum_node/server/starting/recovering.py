"""`quorum-node --recover UUID:EPOCH:END_OFFSET`: a survivor of a lost quorum becomes its sole voter.

Owns the checks before it: is this the replica that was confirmed, does its log end where it was confirmed, is a majority unreachable?
Then a copy of the directory is kept, and `storage/sole_voter.py` rewrites it. If the recovery was done before, this does nothing, so the
option may stay.

Records that were committed and are not in this log are lost. Former voters can't do harm: the sole voter has a new replica UUID, so
messages to the old one do not reach it, and its epoch, which each of its answers contains, is far beyond theirs.
"""

import time

import structlog

from quorum_node.configuration.keys.listeners import CONTROLLER_LISTENER
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.configuration.properties import ConfigError
from quorum_node.host_port import HostPort
from quorum_node.quorum_arithmetic import majority
from quorum_node.raft.epoch_bound import MAX_EPOCH
from quorum_node.raft.messages import voter_entry
from quorum_node.raft.replica import Replica
from quorum_node.raft.voters import VoterSet, tombstones_after
from quorum_node.records.control import VotersRecord
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from quorum_node.server.starting.existing_clusters import known_clusters
from quorum_node.server.starting.replica_building import build_replica, own_endpoints
from quorum_node.server.starting.startup_connections import Dial, dial_in_clear_text
from quorum_node.storage.directory import identity_text, open_directory
from quorum_node.storage.errors import WrongDirectory
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.kept_copy import keep_copy
from quorum_node.storage.meta_properties import (
    MetaProperties,
    check_identity,
    read_meta_properties,
)
from quorum_node.storage.partition_directory import OpenPartition, partition_directory
from quorum_node.storage.sole_voter import (
    EPOCH_DISTANCE,
    append_sole_voter,
    owner_of,
    rename_replica,
    save_sole_voter,
)
from quorum_node.survivor import Survivor

_LOG = structlog.get_logger("quorum_node")


def recover(
    config: NodeConfig,
    survivor: Survivor,
    latch: FailureLatch,
    dial: Dial = dial_in_clear_text,
) -> None:
    """Make the replica in the (locked) data directory the sole voter, unless it is that already.

    Raises WrongDirectory or ConfigError if the recovery is refused, and nothing was changed; StorageFailure, DiskFull.
    """
    path = config.data_dir
    meta = read_meta_properties(path)
    if meta is None:
        raise WrongDirectory(f"--recover {survivor}: there is no replica in {path}")
    check_identity(meta, path, config.node_id, config.cluster_id)
    if meta.directory_id == survivor.recovered_uuid:
        _LOG.info(f"--recover {survivor} was carried out before")
        return
    _check_arguments(config, survivor, meta)
    if owner_of(partition_directory(path, 0)) != survivor.recovered_uuid:
        directory = open_directory(
            path,
            node_id=config.node_id,
            cluster_id=config.cluster_id,
            segment_bytes=config.segment_bytes,
            latch=latch,
        )
        try:
            _rewrite(config, survivor, meta, directory.first, dial)
        finally:
            directory.first.log.close()
    rename_replica(path, meta, survivor.recovered_uuid)
    recovered = identity_text(meta.node_id, survivor.recovered_uuid)
    _LOG.warning(f"{recovered} is the sole voter now; committed records beyond its log are lost")


def _check_arguments(config: NodeConfig, survivor: Survivor, meta: MetaProperties) -> None:
    if meta.directory_id != survivor.uuid:
        here = identity_text(meta.node_id, meta.directory_id)
        raise WrongDirectory(
            f"--recover {survivor}: {config.data_dir} belongs to another replica, {here}"
        )
    if meta.partitions > 1 or config.partitions > 1:
        raise ConfigError("--recover: only a node with one quorum partition can be recovered")
    if config.witness:
        raise ConfigError(
            "--recover: a witness never leads; recover another replica, or unset quorum.witness"
        )


def _rewrite(
    config: NodeConfig,
    survivor: Survivor,
    meta: MetaProperties,
    opened: OpenPartition,
    dial: Dial,
) -> None:
    """Append the record of the sole voter, unless an earlier run has, and save the state that belongs to it."""
    replica = build_replica(config, meta, opened)
    recovered = ReplicaKey(meta.node_id, survivor.recovered_uuid)
    latest = replica.voters.latest
    if latest.voters.ordered_keys == (recovered,):
        epoch = latest.epoch
    else:
        _check_log(survivor, opened)
        _check_majority(config, survivor, replica, dial)
        epoch = replica.epoch + EPOCH_DISTANCE
        if epoch > MAX_EPOCH:
            raise ConfigError(
                f"--recover: epoch {epoch} is not possible: the largest one is {MAX_EPOCH}. Create a new cluster with"
                " the records of this one: quorum-pipeline restore --cluster-id NEW (see docs/how-to/recovery.md)"
            )
        kept = keep_copy(config.data_dir, f"before-recovery-{survivor.end_offset}-{survivor.epoch}")
        _LOG.info(f"a copy of the previous directory is kept in {kept}")
        record = sole_voter_record(replica, recovered, own_endpoints(config), epoch)
        append_sole_voter(opened.log, epoch, record, time.time_ns() // 1_000_000)
    save_sole_voter(opened.path, opened.state, epoch, recovered)


def _check_log(survivor: Survivor, opened: OpenPartition) -> None:
    end_offset = opened.log.end_offset
    epoch = opened.log.epoch_before(end_offset)
    if (epoch, end_offset) != (survivor.epoch, survivor.end_offset):
        raise WrongDirectory(
            f"--recover {survivor}: the log in {opened.path} ends at offset {end_offset} with epoch"
            f" {epoch}. This is not the state that was confirmed: check the survivor again"
        )


def _check_majority(config: NodeConfig, survivor: Survivor, replica: Replica, dial: Dial) -> None:
    """Refuse if a leader can be elected: that quorum is not lost, and must not be split."""
    latest = replica.voters.latest
    if latest.offset < 0:
        raise ConfigError(f"--recover {survivor}: the log has no voters record")
    others = [voter for voter in latest.voters if voter.key != replica.key]
    places = {place: voter for voter in others if (place := _listens(voter)) is not None}
    answers = known_clusters(list(places), dial)
    found = [server for server, cluster in answers if cluster == replica.cluster_id]
    reached = len(found) + (replica.key in latest.voters)
    if reached >= majority(len(latest.voters)):
        names = ", ".join(f"{places[server].key} at {server}" for server in found) or "itself"
        raise ConfigError(
            f"--recover {survivor}: {reached} of {len(latest.voters)} voters can be reached ({names}):"
            " they can elect a leader. Start this node without --recover"
        )


def _listens(voter: Voter) -> HostPort | None:
    endpoint = voter.endpoint(CONTROLLER_LISTENER)
    return None if endpoint is None else HostPort(endpoint.host, endpoint.port)


def sole_voter_record(
    replica: Replica, recovered: ReplicaKey, endpoints: tuple[Endpoint, ...], epoch: int
) -> VotersRecord:
    """The voters record of a recovery in `epoch`: the recovered replica is the only voter; the keys of all others are tombstones."""
    before = replica.voters.latest
    after = VoterSet((voter_entry(recovered, endpoints),))
    return VotersRecord(
        after.voters,
        replica.cluster_id,
        initial_voters=1,
        tombstones=tombstones_after(before.record.tombstones, before.voters, after),
        recovered_epoch=epoch,
    )
