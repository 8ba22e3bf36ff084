"""The APIs of a node: a row for each, and the table by key.

A new API is a file with its messages and its `Api`, and a row here. Must not know how a request is
handled.
Source: Kafka's protocol guide, "API Keys", the versions of Kafka 4.3, restricted to what this node
serves. APIs that only KIP drafts define have keys from 20000 up, which stock clients ignore in
ApiVersions.
"""

from quorum_node.protocol.acls import CREATE_ACLS as CREATE_ACLS
from quorum_node.protocol.acls import DELETE_ACLS as DELETE_ACLS
from quorum_node.protocol.acls import DESCRIBE_ACLS as DESCRIBE_ACLS
from quorum_node.protocol.alter_configs import ALTER_CONFIGS as ALTER_CONFIGS
from quorum_node.protocol.alter_partition import ALTER_PARTITION as ALTER_PARTITION
from quorum_node.protocol.alter_quorum import ALTER_QUORUM as ALTER_QUORUM
from quorum_node.protocol.api import Api
from quorum_node.protocol.api_versions import API_VERSIONS as API_VERSIONS
from quorum_node.protocol.assign_replicas_to_dirs import (
    ASSIGN_REPLICAS_TO_DIRS as ASSIGN_REPLICAS_TO_DIRS,
)
from quorum_node.protocol.broker_registration import BROKER_HEARTBEAT as BROKER_HEARTBEAT
from quorum_node.protocol.broker_registration import BROKER_REGISTRATION as BROKER_REGISTRATION
from quorum_node.protocol.broker_registration import UNREGISTER_BROKER as UNREGISTER_BROKER
from quorum_node.protocol.client_quotas import ALTER_CLIENT_QUOTAS as ALTER_CLIENT_QUOTAS
from quorum_node.protocol.configs import DESCRIBE_CONFIGS as DESCRIBE_CONFIGS
from quorum_node.protocol.configs import INCREMENTAL_ALTER_CONFIGS as INCREMENTAL_ALTER_CONFIGS
from quorum_node.protocol.controller_heartbeat import CONTROLLER_HEARTBEAT as CONTROLLER_HEARTBEAT
from quorum_node.protocol.controller_registration import (
    CONTROLLER_REGISTRATION as CONTROLLER_REGISTRATION,
)
from quorum_node.protocol.create_partitions import CREATE_PARTITIONS as CREATE_PARTITIONS
from quorum_node.protocol.create_topics import CREATE_TOPICS as CREATE_TOPICS
from quorum_node.protocol.delegation_tokens import (
    CREATE_DELEGATION_TOKEN as CREATE_DELEGATION_TOKEN,
)
from quorum_node.protocol.delegation_tokens import (
    DESCRIBE_DELEGATION_TOKEN as DESCRIBE_DELEGATION_TOKEN,
)
from quorum_node.protocol.delegation_tokens import (
    EXPIRE_DELEGATION_TOKEN as EXPIRE_DELEGATION_TOKEN,
)
from quorum_node.protocol.delegation_tokens import RENEW_DELEGATION_TOKEN as RENEW_DELEGATION_TOKEN
from quorum_node.protocol.delete_topics import DELETE_TOPICS as DELETE_TOPICS
from quorum_node.protocol.describe import DESCRIBE_CLUSTER as DESCRIBE_CLUSTER
from quorum_node.protocol.describe import DESCRIBE_QUORUM as DESCRIBE_QUORUM
from quorum_node.protocol.discover_brokers import DISCOVER_BROKERS as DISCOVER_BROKERS
from quorum_node.protocol.elect_leaders import ELECT_LEADERS as ELECT_LEADERS
from quorum_node.protocol.elections import BEGIN_QUORUM_EPOCH as BEGIN_QUORUM_EPOCH
from quorum_node.protocol.elections import END_QUORUM_EPOCH as END_QUORUM_EPOCH
from quorum_node.protocol.elections import VOTE as VOTE
from quorum_node.protocol.envelope import ENVELOPE as ENVELOPE
from quorum_node.protocol.features import UPDATE_FEATURES as UPDATE_FEATURES
from quorum_node.protocol.fetch import FETCH as FETCH
from quorum_node.protocol.fetch_snapshot import FETCH_SNAPSHOT as FETCH_SNAPSHOT
from quorum_node.protocol.producer_ids import ALLOCATE_PRODUCER_IDS as ALLOCATE_PRODUCER_IDS
from quorum_node.protocol.read_offset import READ_OFFSET as READ_OFFSET
from quorum_node.protocol.reassignments import (
    ALTER_PARTITION_REASSIGNMENTS as ALTER_PARTITION_REASSIGNMENTS,
)
from quorum_node.protocol.reassignments import (
    LIST_PARTITION_REASSIGNMENTS as LIST_PARTITION_REASSIGNMENTS,
)
from quorum_node.protocol.sasl import SASL_AUTHENTICATE as SASL_AUTHENTICATE
from quorum_node.protocol.sasl import SASL_HANDSHAKE as SASL_HANDSHAKE
from quorum_node.protocol.scram import ALTER_USER_SCRAM_CREDENTIALS as ALTER_USER_SCRAM_CREDENTIALS
from quorum_node.protocol.scram import (
    DESCRIBE_USER_SCRAM_CREDENTIALS as DESCRIBE_USER_SCRAM_CREDENTIALS,
)
from quorum_node.protocol.voters import ADD_RAFT_VOTER as ADD_RAFT_VOTER
from quorum_node.protocol.voters import REMOVE_RAFT_VOTER as REMOVE_RAFT_VOTER
from quorum_node.protocol.voters import UPDATE_RAFT_VOTER as UPDATE_RAFT_VOTER

APIS: dict[int, Api] = {
    api.key: api
    for api in sorted(
        (each for each in tuple(globals().values()) if isinstance(each, Api)),
        key=lambda api: api.key,
    )
}
"""All APIs by key, in ascending order. Keys from 20000 up are private: APIs that only KIP drafts define."""
FIRST_PRIVATE_KEY = 20000
FEW_ELEMENTS = frozenset(api.key for api in APIS.values() if api.is_about_quorum)
"""Keys of requests about the quorum."""
FORWARDABLE = frozenset(api.key for api in APIS.values() if api.is_forwardable)
"""Keys of requests that a broker may forward for a client."""
