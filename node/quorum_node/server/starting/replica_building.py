"""Creates the core of one partition, from the configuration and the state on the disk."""

import random
import time

from quorum_node.configuration.keys.listeners import ADMIN_LISTENER, CONTROLLER_LISTENER
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.raft.config import RaftConfig
from quorum_node.raft.log_state import LogState
from quorum_node.raft.replica import Replica
from quorum_node.records.identity import Endpoint, replica_key, uuid_text
from quorum_node.server.starting.startup import is_founder, other_servers
from quorum_node.server.starting.static_voters import static_voters
from quorum_node.storage.meta_properties import MetaProperties
from quorum_node.storage.partition_directory import OpenPartition


def build_replica(config: NodeConfig, meta: MetaProperties, opened: OpenPartition) -> Replica:
    """A replica that has not been started.

    The founder of the first partition founds all of them: they share its disk and its identity.
    """
    formation, timeouts = config.formation, config.timeouts
    raft_config = RaftConfig(
        endpoints=own_endpoints(config),
        bootstrap=tuple(
            Endpoint(CONTROLLER_LISTENER, server.host, server.port)
            for server in other_servers(config)
        ),
        cluster_id=meta.cluster_id or config.cluster_id,
        founder=is_founder(config, meta.directory_id),
        boot_timestamp_ms=time.time_ns() // 1_000_000,
        static_voters=static_voters(config),
        may_form=config.may_bootstrap and config.is_member,
        new_cluster_id=uuid_text(fresh_uuid()),
        initial_voters=formation.initial_voters if formation else len(config.static_voters) or 1,
        auto_join=config.auto_join,
        witness=config.witness,
        election_timeout_ms=timeouts.election_timeout_ms,
        fetch_timeout_ms=timeouts.fetch_timeout_ms,
        election_backoff_max_ms=timeouts.election_backoff_max_ms,
        request_timeout_ms=timeouts.request_timeout_ms,
        retry_backoff_ms=timeouts.retry_backoff_ms,
        retry_backoff_max_ms=timeouts.retry_backoff_max_ms,
    )
    return Replica(
        raft_config,
        replica_key(meta.node_id, opened.replica_uuid),
        opened.state,
        log_state(opened),
        random.Random().random,
        lambda: time.time_ns() // 1_000_000,
    )


def log_state(opened: OpenPartition) -> LogState:
    """The state that the storage has found, for the core."""
    log, newest = opened.log, opened.newest
    known = newest is not None and newest.id.end_offset > 0
    partials = opened.snapshots.partials()
    partial = partials[-1] if partials else None
    opened.snapshots.drop_partials(keep=partial)
    return LogState(
        start=log.start,
        end_offset=log.end_offset,
        epoch_starts=tuple(log.epoch_starts),
        control_batches=tuple(log.control_batches),
        snapshot=newest.id if newest is not None and known else None,
        snapshot_voters=newest.bounds.voters if newest is not None and known else None,
        snapshot_kraft_version=newest.bounds.kraft_version if newest is not None and known else 1,
        partial=None if partial is None else (partial, opened.snapshots.partial(partial)),
    )


def own_endpoints(config: NodeConfig) -> tuple[Endpoint, ...]:
    """The endpoints that a member announces to the others. A broker announces its own in its registration."""
    if not config.is_member:
        return ()
    admin = config.admin.advertised
    return (
        *(
            Endpoint(each.name, each.advertised.host, each.advertised.port)
            for each in config.controller_listeners
        ),
        Endpoint(ADMIN_LISTENER, admin.host, admin.port),
    )
