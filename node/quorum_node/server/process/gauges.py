"""The gauges, read from the replicas at scrape time."""

import time
from collections.abc import Callable, Hashable, Sequence

from quorum_node.api import Role
from quorum_node.host_port import HostPort
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.description import ReplicaDescription
from quorum_node.server.admin.views import role_of
from quorum_node.server.listener.kafka_listener import KafkaListeners
from quorum_node.server.observing.metrics import Gauges
from quorum_node.server.partition.replica_host import ReplicaHost
from quorum_node.storage.disk_reserve import DiskReserve
from quorum_node.storage.snapshots import SnapshotStore


def gauges_of_node(listeners: KafkaListeners, reserve: DiskReserve) -> Gauges:
    """The function that `Metrics` calls for the gauges of the node."""

    def gauges() -> dict[str, float | dict[str, float]]:
        return {
            "disk_free_bytes": reserve.free_bytes,
            "disk_low": float(reserve.low),
            "connections": listeners.connections,
            "requests_in_flight": listeners.requests_in_flight,
            "unfinished_request_bytes": listeners.unfinished_bytes,
        }

    return gauges


def gauges_of_replica(host: ReplicaHost) -> Gauges:
    """The function that `PartitionMetrics` calls for the gauges of a replica."""

    def gauges() -> dict[str, float | dict[str, float]]:
        description = host.describe()
        role = role_of(description)
        addresses = {
            (endpoint.host, endpoint.port)
            for voter in description.voters
            if voter.key != description.key and (endpoint := voter.endpoint(CONTROLLER)) is not None
        }
        return {
            "leader_id": description.leader_id,
            "leader_epoch": description.leader_epoch,
            "voted_id": -1 if description.voted is None else description.voted.id,
            "role": {each.value: float(each is role) for each in Role},
            "is_voter": float(description.is_voter),
            "voters": len(description.voters),
            "voter_connections": len(addresses & host.peers.connected_addresses()),
            "high_watermark": description.high_watermark,
            "log_end_offset": description.log_end_offset,
            "log_end_epoch": description.log_end_epoch,
            "durable_end_offset": description.durable_end_offset,
            "applied_offset": host.applier.committed.end_offset,
            "metadata_lag": max(0, description.high_watermark - host.applier.committed.end_offset),
            "broker_metadata_lag": {
                str(broker_id): float(lag) for broker_id, lag in host.role.broker_lags().items()
            },
            "active_controller": float(host.role.is_active),
            "formed": float(description.formed),
            "log_start_offset": description.log_start_offset,
            **_age_of_state(description, host.now().core_ms),
            **_of_snapshots(host.snapshots, description.high_watermark),
            **_of_cluster(host.applier.image),
        }

    return gauges


def _age_of_state(description: ReplicaDescription, now_ms: float) -> dict[str, float]:
    if description.as_of_ms is None:
        return {}
    return {"state_age_seconds": max(0.0, (now_ms - description.as_of_ms) / 1000)}


def _of_cluster(image: ClusterImage) -> dict[str, float]:
    brokers = image.brokers.by_id
    active = sum(image.brokers.is_active(each) for each in brokers)
    return {
        "active_brokers": active,
        "fenced_brokers": sum(each.fenced for each in brokers.values()),
        "leaderless_partitions": len(image.topics.marked_leaderless),
    }


def _of_snapshots(store: SnapshotStore, high_watermark: int) -> dict[str, float | dict[str, float]]:
    ids = store.ids()
    values: dict[str, float | dict[str, float]] = {"snapshots": len(ids)}
    if ids:
        age_ms = time.time_ns() // 1_000_000 - store.timestamp_ms(ids[-1])
        values["latest_snapshot_size_bytes"] = store.size_bytes(ids[-1])
        values["latest_snapshot_age_seconds"] = max(0.0, age_ms / 1000)
    lag = high_watermark - ids[-1].end_offset if ids else 0
    values["metadata_snapshot_lag"] = max(0, lag)
    values["latest_snapshot_end_offset"] = ids[-1].end_offset if ids else 0
    values["latest_snapshot_epoch"] = ids[-1].epoch if ids else 0
    return values


def names_of_peers(hosts: Sequence[ReplicaHost]) -> Callable[[Hashable], str]:
    """How an address is written in a label: as the id of the voter at this address, if one is known."""

    def name_of(label: Hashable) -> str:
        if not isinstance(label, tuple):
            return str(label)
        for host in hosts:
            for voter in host.describe().voters:
                endpoint = voter.endpoint(CONTROLLER)
                if endpoint is not None and (endpoint.host, endpoint.port) == label:
                    return str(voter.key.id)
        return str(HostPort(label[0], label[1]))

    return name_of
