"""The APIs of a broker's listeners, served here or forwarded to the active controller.

`apis.py` has those of the controllers' listeners. Must not know how a request is handled.
Source: Kafka's protocol guide, "API Keys"; the versions that a stock 4.3 broker announces,
restricted to what is served.
"""

from quorum_node.protocol import apis
from quorum_node.protocol.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN as ADD_PARTITIONS_TO_TXN,
)
from quorum_node.protocol.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS as ALTER_REPLICA_LOG_DIRS,
)
from quorum_node.protocol.api import Api
from quorum_node.protocol.delete_groups import DELETE_GROUPS as DELETE_GROUPS
from quorum_node.protocol.delete_records import DELETE_RECORDS as DELETE_RECORDS
from quorum_node.protocol.describe_client_quotas import (
    DESCRIBE_CLIENT_QUOTAS as DESCRIBE_CLIENT_QUOTAS,
)
from quorum_node.protocol.describe_groups import DESCRIBE_GROUPS as DESCRIBE_GROUPS
from quorum_node.protocol.describe_log_dirs import DESCRIBE_LOG_DIRS as DESCRIBE_LOG_DIRS
from quorum_node.protocol.describe_producers import DESCRIBE_PRODUCERS as DESCRIBE_PRODUCERS
from quorum_node.protocol.describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS as DESCRIBE_TOPIC_PARTITIONS,
)
from quorum_node.protocol.describe_transactions import (
    DESCRIBE_TRANSACTIONS as DESCRIBE_TRANSACTIONS,
)
from quorum_node.protocol.fetch import FetchRequest, FetchResponse
from quorum_node.protocol.find_coordinator import FIND_COORDINATOR as FIND_COORDINATOR
from quorum_node.protocol.heartbeat import HEARTBEAT as HEARTBEAT
from quorum_node.protocol.init_producer_id import INIT_PRODUCER_ID as INIT_PRODUCER_ID
from quorum_node.protocol.join_group import JOIN_GROUP as JOIN_GROUP
from quorum_node.protocol.leave_group import LEAVE_GROUP as LEAVE_GROUP
from quorum_node.protocol.list_groups import LIST_GROUPS as LIST_GROUPS
from quorum_node.protocol.list_offsets import LIST_OFFSETS as LIST_OFFSETS
from quorum_node.protocol.list_transactions import LIST_TRANSACTIONS as LIST_TRANSACTIONS
from quorum_node.protocol.metadata import METADATA as METADATA
from quorum_node.protocol.offset_commit import OFFSET_COMMIT as OFFSET_COMMIT
from quorum_node.protocol.offset_delete import OFFSET_DELETE as OFFSET_DELETE
from quorum_node.protocol.offset_fetch import OFFSET_FETCH as OFFSET_FETCH
from quorum_node.protocol.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH as OFFSET_FOR_LEADER_EPOCH,
)
from quorum_node.protocol.produce import PRODUCE as PRODUCE
from quorum_node.protocol.sync_group import SYNC_GROUP as SYNC_GROUP
from quorum_node.protocol.write_txn_markers import WRITE_TXN_MARKERS as WRITE_TXN_MARKERS

DATA_FETCH = Api(1, FetchRequest, FetchResponse, 4, 18)
"""APIs about topic partitions: one request can name many."""

_SERVED = (
    PRODUCE,
    DATA_FETCH,
    LIST_OFFSETS,
    METADATA,
    FIND_COORDINATOR,
    apis.SASL_HANDSHAKE,
    apis.SASL_AUTHENTICATE,
    apis.API_VERSIONS,
    INIT_PRODUCER_ID,
    OFFSET_FOR_LEADER_EPOCH,
    apis.DESCRIBE_CONFIGS,
    apis.DESCRIBE_ACLS,
    apis.DESCRIBE_USER_SCRAM_CREDENTIALS,
    apis.DESCRIBE_CLUSTER,
    DELETE_RECORDS,
    ALTER_REPLICA_LOG_DIRS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    JOIN_GROUP,
    SYNC_GROUP,
    HEARTBEAT,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_DELETE,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    DELETE_GROUPS,
    DESCRIBE_TOPIC_PARTITIONS,
    WRITE_TXN_MARKERS,
)
FORWARDED = frozenset(apis.FORWARDABLE)
"""Keys of requests that are forwarded to the active controller in an Envelope."""

BROKER_APIS: dict[int, Api] = {
    api.key: api
    for api in sorted(
        (*_SERVED, *(each for each in apis.APIS.values() if each.key in FORWARDED)),
        key=lambda api: api.key,
    )
}
"""All APIs of a broker's listener by key, in ascending order."""
FIRST_ANNOUNCED = {PRODUCE.key: 0}
"""Lowest announced version, where it differs from the lowest served one."""
SENT_TO_BROKERS: dict[int, Api] = {ADD_PARTITIONS_TO_TXN.key: ADD_PARTITIONS_TO_TXN}
"""APIs that brokers of this software request from stock ones and don't serve themselves."""
