"""Leases of brokers. Soft state of the active controller. PURE.

Owns when a lease ends, and each broker's offset in the metadata log. A lease belongs to a broker
epoch, so a new process of a broker inherits nothing. Leases are not persisted: a new controller
gives every broker that is not fenced a new lease, so each of them has its full length to send a
heartbeat.
Source: KIP-631, "Broker Heartbeats" (a lease of 30 s there; Kafka ships 9 s,
`broker.session.timeout.ms`).
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Lease:
    """`metadata_offset`: the last record that the broker has applied, -1 if unknown."""

    broker_epoch: int
    renewed_ms: float
    metadata_offset: int = -1
    shutdown_offset: int = -1
    """Before the broker may shut down, all others must have applied this record; -1: no shutdown
    was requested.
    """


class BrokerLeases:
    """All leases. Times are of a monotonic clock."""

    def __init__(self, session_timeout_ms: float) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._leases: dict[int, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def renew(
        self, broker_id: int, broker_epoch: int, now_ms: float, metadata_offset: int
    ) -> Lease:
        """A heartbeat arrived, or a registration was accepted (offset -1)."""
        lease = self._leases.get(broker_id)
        if lease is None or lease.broker_epoch != broker_epoch:
            lease = self._leases[broker_id] = Lease(broker_epoch, now_ms)
        lease.renewed_ms = now_ms
        lease.metadata_offset = max(lease.metadata_offset, metadata_offset)
        return lease

    def get(self, broker_id: int, broker_epoch: int) -> Lease | None:
        """The lease of this broker epoch."""
        lease = self._leases.get(broker_id)
        return lease if lease is not None and lease.broker_epoch == broker_epoch else None

    def is_valid(self, broker_id: int, broker_epoch: int, now_ms: float) -> bool:
        """Whether the lease has not ended."""
        lease = self.get(broker_id, broker_epoch)
        return lease is not None and now_ms < lease.renewed_ms + self.session_timeout_ms

    def expiry_ms(self, broker_id: int, broker_epoch: int) -> float:
        """When the lease ends; in the past for a broker without one."""
        lease = self.get(broker_id, broker_epoch)
        return lease.renewed_ms + self.session_timeout_ms if lease is not None else -float("inf")
