"""Start-up checks: latch, token, data directory. Formats the directory if this node is allowed to.

Every check that can refuse a start is made here, before any socket is opened. Each raises an error that main turns into an exit code:
ConfigError, WrongDirectory, StorageFailure, DiskFull.
"""

from pathlib import Path
from uuid import UUID

import structlog

from quorum_node.configuration.node_config import NodeConfig
from quorum_node.configuration.properties import ConfigError
from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.host_port import HostPort
from quorum_node.records.identity import uuid_text
from quorum_node.server.ending.termination import Termination
from quorum_node.server.starting.existing_clusters import existing_cluster
from quorum_node.server.starting.snapshot_rescue import fetch_again
from quorum_node.server.starting.startup_connections import Dial, dial_in_clear_text
from quorum_node.server.starting.static_voters import log_static_voters
from quorum_node.storage.directory import (
    OpenDirectory,
    format_directory,
    identity_text,
    is_formatted,
    open_directory,
)
from quorum_node.storage.errors import StorageFailure, WrongDirectory
from quorum_node.storage.meta_properties import MetaProperties
from quorum_node.storage.partition_directory import SnapshotLost, partition_directory
from quorum_node.storage.replica_uuid import give_replica_uuid

_LOG = structlog.get_logger("quorum_node")


def read_token(config: NodeConfig) -> str | None:
    """The admin token, None if none is configured. Raises ConfigError."""
    path = config.admin_token_file
    if path is None and config.controller.authorizer.enabled:
        return None  # a client certificate is needed then, also on this host
    if path is None:
        _LOG.warning(
            "admin.token.file is not set: the admin API has no token. Changes are accepted from this host only;"
            " every process on it can make them"
        )
        return None
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"admin.token.file={path}: can't be read: {why}") from error
    if not token:
        raise ConfigError(f"admin.token.file={path}: the file is empty")
    return token


def open_replica(
    config: NodeConfig, termination: Termination, dial: Dial = dial_in_clear_text
) -> OpenDirectory:
    """Check the latch, format an empty directory if allowed, open it."""
    latched = termination.latch.read()
    if latched is not None:
        raise StorageFailure(
            f"this replica's storage failed before: {latched}. Replace the replica by one with an empty disk."
            f" Only if the disk is known to be good: remove {termination.latch.places()} and restart the node"
        )
    given = give_replica_uuid(config.data_dir, partition_directory(config.data_dir, 0), fresh_uuid)
    if given is not None:
        identity = identity_text(config.node_id, given)
        _LOG.info(
            f"{config.data_dir} was written by a version without replica UUIDs; its replica is {identity} now"
        )
    if not is_formatted(config.data_dir, termination.latch):
        meta = _new_identity(config, dial)
        format_directory(config.data_dir, meta)
        identity = identity_text(meta.node_id, meta.directory_id)
        _LOG.info(f"formatted {config.data_dir} as {identity}", clusterId=meta.cluster_id)
    directory = _open(config, termination, dial)
    log_static_voters(config, directory.first)
    termination.opened(directory.meta.directory_id)
    for partition in directory.partitions:
        if partition.log.torn_bytes:
            text = f"truncated {partition.log.torn_bytes} bytes of an incomplete batch at the end of the log"
            _LOG.info(f"{text} in {partition.path}")
        for note in partition.notes:
            _LOG.warning(f"{partition.path}: {note}")
    return directory


def _open(config: NodeConfig, termination: Termination, dial: Dial) -> OpenDirectory:
    """Open the directory. A snapshot that is needed for this and damaged is downloaded again, at most once."""
    fetched: set[Path] = set()
    while True:
        try:
            return open_directory(
                config.data_dir,
                node_id=config.node_id,
                cluster_id=config.cluster_id,
                segment_bytes=config.segment_bytes,
                latch=termination.latch,
                partitions=config.partitions,
            )
        except SnapshotLost as lost:
            if lost.path in fetched:
                raise
            fetched.add(lost.path)
            fetch_again(lost, other_servers(config), dial)


def is_founder(config: NodeConfig, replica_uuid: UUID) -> bool:
    """Whether this replica key may found the quorum."""
    formation = config.formation
    return formation is not None and (formation.founder_id, formation.founder_uuid) == (
        config.node_id,
        replica_uuid,
    )


def other_servers(config: NodeConfig) -> list[HostPort]:
    """The bootstrap servers except this node itself."""
    return [server for server in config.bootstrap_servers if server != config.dialled.advertised]


def _new_identity(config: NodeConfig, dial: Dial) -> MetaProperties:
    formation = config.formation
    founder = formation is not None and formation.founder_id == config.node_id
    if formation is None or not founder or not config.may_bootstrap:
        return MetaProperties(config.node_id, fresh_uuid(), config.cluster_id, config.partitions)
    if config.witness:
        raise ConfigError(
            f"quorum.witness=true: formation.founder.id={formation.founder_id} makes this node the founder of the"
            " quorum, which a witness can't be; set quorum.witness once the quorum has formed"
        )
    existing = existing_cluster(other_servers(config), dial)
    if existing is not None:
        server, cluster_id = existing
        raise WrongDirectory(
            f"formation.founder.id={formation.founder_id}: {config.data_dir} is empty, but {server}"
            f" is in cluster {cluster_id} already: a quorum is founded only once. Start this node with a"
            " new replica UUID (without formation.founder.*) and add it as a voter"
        )
    return MetaProperties(
        config.node_id,
        formation.founder_uuid,
        config.cluster_id or uuid_text(fresh_uuid()),
        config.partitions,
    )
