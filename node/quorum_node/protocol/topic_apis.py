"""The APIs of topics, partitions, their configs, and of rights: what clients and brokers ask a controller for.

Owns their part of the table in `apis.py`. Must not know how a request is handled.
Source: Kafka's protocol guide, "API Keys", the versions of Kafka 4.3.
"""

from quorum_node.protocol.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from quorum_node.protocol.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from quorum_node.protocol.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from quorum_node.protocol.api import Api
from quorum_node.protocol.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from quorum_node.protocol.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from quorum_node.protocol.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from quorum_node.protocol.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from quorum_node.protocol.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

CREATE_TOPICS = Api(19, "CreateTopics", CreateTopicsRequest, CreateTopicsResponse, 2, 7)
DELETE_TOPICS = Api(20, "DeleteTopics", DeleteTopicsRequest, DeleteTopicsResponse, 1, 6)
DESCRIBE_ACLS = Api(29, "DescribeAcls", DescribeAclsRequest, DescribeAclsResponse, 1, 3)
CREATE_ACLS = Api(30, "CreateAcls", CreateAclsRequest, CreateAclsResponse, 1, 3)
DELETE_ACLS = Api(31, "DeleteAcls", DeleteAclsRequest, DeleteAclsResponse, 1, 3)
ALTER_CONFIGS = Api(33, "AlterConfigs", AlterConfigsRequest, AlterConfigsResponse, 0, 2)
CREATE_PARTITIONS = Api(
    37, "CreatePartitions", CreatePartitionsRequest, CreatePartitionsResponse, 0, 3
)
ELECT_LEADERS = Api(43, "ElectLeaders", ElectLeadersRequest, ElectLeadersResponse, 0, 2)
ALTER_PARTITION_REASSIGNMENTS = Api(
    45,
    "AlterPartitionReassignments",
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    0,
    1,
)
LIST_PARTITION_REASSIGNMENTS = Api(
    46,
    "ListPartitionReassignments",
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    0,
    0,
)
ALTER_CLIENT_QUOTAS = Api(
    49, "AlterClientQuotas", AlterClientQuotasRequest, AlterClientQuotasResponse, 0, 1
)
DESCRIBE_USER_SCRAM_CREDENTIALS = Api(
    50,
    "DescribeUserScramCredentials",
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    0,
    0,
)
ALTER_USER_SCRAM_CREDENTIALS = Api(
    51,
    "AlterUserScramCredentials",
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    0,
    0,
)
ALTER_PARTITION = Api(56, "AlterPartition", AlterPartitionRequest, AlterPartitionResponse, 2, 3)
ASSIGN_REPLICAS_TO_DIRS = Api(
    73,
    "AssignReplicasToDirs",
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    0,
    0,
)

TOPIC_APIS: tuple[Api, ...] = (
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_ACLS,
    CREATE_ACLS,
    DELETE_ACLS,
    ALTER_CONFIGS,
    CREATE_PARTITIONS,
    ELECT_LEADERS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    ALTER_USER_SCRAM_CREDENTIALS,
    ALTER_PARTITION,
    ASSIGN_REPLICAS_TO_DIRS,
)
