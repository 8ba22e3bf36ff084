"""Leases of brokers: who sent a heartbeat when. Soft state of the active controller. PURE.

Owns when a lease ends, and how far a broker is in the metadata log. A lease belongs to a broker epoch, so
a new process of a broker inherits nothing. It is never written down: a new controller gives every broker
that is not fenced a fresh lease, and each of them has the length of one to report.

Source: KIP-631, "Broker Heartbeats" (a lease of 30 s there; Kafka ships 9 s, `broker.session.timeout.ms`).
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Lease:
    """`metadata_offset`: the last record that the broker has applied, -1 if it did not say yet."""

    broker_epoch: int
    renewed_ms: float
    metadata_offset: int = -1
    shutdown_offset: int = -1
    """Everybody else must have applied this record before the broker may shut down; -1: it doesn't ask to."""


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
        """The lease of this process of the broker."""
        lease = self._leases.get(broker_id)
        return lease if lease is not None and lease.broker_epoch == broker_epoch else None

    def is_valid(self, broker_id: int, broker_epoch: int, now_ms: float) -> bool:
        """Whether the broker reported in time."""
        lease = self.get(broker_id, broker_epoch)
        return lease is not None and now_ms < lease.renewed_ms + self.session_timeout_ms

    def expiry_ms(self, broker_id: int, broker_epoch: int) -> float:
        """When its lease ends; a broker without one has ended already."""
        lease = self.get(broker_id, broker_epoch)
        return lease.renewed_ms + self.session_timeout_ms if lease is not None else -float("inf")
