"""DiscoverBrokers (KIP-595): the addresses of the voters.

Field for field as in the KIP. Its schema lacks the leader and epoch that its text describes, and
identifies voters by id only. Leader, epoch and replica UUIDs are private tagged fields from 20000
up, and so is the partition. The API key is private as well (`apis.py`).
"""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    INT16,
    INT32,
    INT64,
    STRING,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)

CLIENT_ID = -1
"""ReplicaId of a client: the other fields of its request are ignored."""
UNKNOWN_BOOT_TIMESTAMP = -1


@message(flexible_since=0)
class DiscoverBrokersRequest(Message):
    """Request of a replica that listens at host and port, or of a client (CLIENT_ID)."""

    replica_id: int = wire(INT32)
    boot_timestamp: int = wire(INT64, default=UNKNOWN_BOOT_TIMESTAMP)
    host: str = wire(STRING, default="")
    port: int = wire(INT32, default=-1)
    replica_directory_id: UUID | None = wire(UUID_TYPE, tag=20000, default=None)
    partition_index: int = wire(INT32, tag=20001, default=0)


@message()
class DiscoveredBroker(Message):
    """A voter. UNKNOWN_BOOT_TIMESTAMP: the address is that of the voters record."""

    voter_id: int = wire(INT32)
    boot_timestamp: int = wire(INT64)
    host: str = wire(STRING)
    port: int = wire(INT32)
    voter_directory_id: UUID | None = wire(UUID_TYPE, tag=20000, default=None)


@message(flexible_since=0)
class DiscoverBrokersResponse(Message):
    """Known voters; an empty cluster id: not known yet."""

    error_code: int = wire(INT16)
    cluster_id: str = wire(STRING, default="")
    brokers: tuple[DiscoveredBroker, ...] = wire(Array(DiscoveredBroker))
    leader_id: int = wire(INT32, tag=20000, default=-1)
    leader_epoch: int = wire(INT32, tag=20001, default=-1)
    leader_host: str = wire(STRING, tag=20002, default="")
    leader_port: int = wire(INT32, tag=20003, default=-1)


DISCOVER_BROKERS = Api(
    20001, DiscoverBrokersRequest, DiscoverBrokersResponse, 0, 0, is_about_quorum=True
)
