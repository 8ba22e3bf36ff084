"""Gauges, read from the replica when somebody scrapes."""

from quorum_node.api import Role
from quorum_node.server.admin.views import role_of
from quorum_node.server.listener import KafkaListener
from quorum_node.server.metrics import Gauges
from quorum_node.server.replica_host import ReplicaHost
from quorum_node.storage.disk_reserve import DiskReserve


def gauges_of(host: ReplicaHost, listener: KafkaListener, reserve: DiskReserve) -> Gauges:
    """The function that `Metrics` asks."""

    def gauges() -> dict[str, float | dict[str, float]]:
        description = host.describe()
        role = role_of(description)
        return {
            "leader_id": description.leader_id,
            "leader_epoch": description.leader_epoch,
            "voted_id": -1 if description.voted is None else description.voted.id,
            "role": {each.value: float(each is role) for each in Role},
            "is_voter": float(description.is_voter),
            "voters": len(description.voters),
            "high_watermark": description.high_watermark,
            "log_end_offset": description.log_end_offset,
            "durable_end_offset": description.durable_end_offset,
            "applied_offset": host.applier.image.end_offset,
            "formed": float(description.formed),
            "disk_free_bytes": reserve.free_bytes,
            "disk_low": float(reserve.low),
            "connections": len(listener.connections),
            "requests_in_flight": listener.requests_in_flight,
        }

    return gauges
