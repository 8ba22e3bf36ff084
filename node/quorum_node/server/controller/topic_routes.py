"""The rows of topics, partitions, configs and rights in the table of the controller's APIs.

Must not know how a command decides.
"""

from quorum_node.controller.acls import (
    create_acls,
    delete_acls,
    describe_acls,
    refuse_create_acls,
    refuse_delete_acls,
    refuse_describe_acls,
)
from quorum_node.controller.alter_partition import alter_partition, refuse_alter_partition
from quorum_node.controller.client_quotas import (
    alter_client_quotas,
    refuse_alter_client_quotas,
)
from quorum_node.controller.configs import (
    alter_configs,
    incremental_alter_configs,
    refuse_alter_configs,
    refuse_incremental_alter_configs,
)
from quorum_node.controller.directories import (
    assign_replicas_to_dirs,
    refuse_assign_replicas_to_dirs,
)
from quorum_node.controller.elections import elect_leaders, refuse_elect_leaders
from quorum_node.controller.partitions import create_partitions, refuse_create_partitions
from quorum_node.controller.reassignments import (
    alter_reassignments,
    list_reassignments,
    refuse_alter_reassignments,
    refuse_list_reassignments,
)
from quorum_node.controller.scram import (
    alter_scram_credentials,
    describe_scram_credentials,
    refuse_alter_scram_credentials,
    refuse_describe_scram_credentials,
)
from quorum_node.controller.topic_deletion import delete_topics, refuse_delete_topics
from quorum_node.controller.topics import create_topics, refuse_create_topics
from quorum_node.controller.view import View
from quorum_node.protocol.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from quorum_node.protocol.alter_configs import AlterConfigsRequest
from quorum_node.protocol.alter_partition import AlterPartitionRequest
from quorum_node.protocol.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from quorum_node.protocol.client_quotas import AlterClientQuotasRequest
from quorum_node.protocol.configs import IncrementalAlterConfigsRequest
from quorum_node.protocol.create_partitions import CreatePartitionsRequest
from quorum_node.protocol.create_topics import CreateTopicsRequest
from quorum_node.protocol.delete_topics import DeleteTopicsRequest
from quorum_node.protocol.elect_leaders import ElectLeadersRequest
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)
from quorum_node.protocol.scram import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
)
from quorum_node.schema.schema import Message
from quorum_node.server.controller.route import Route

_MANY = 200
"""Items of the image that are looked at: each takes up to 10 µs."""


def _of_many_entries(view: View, request: Message) -> bool:
    return len(view.image.acls.by_id) > _MANY


def _of_many_users(view: View, request: DescribeUserScramCredentialsRequest) -> bool:
    return not request.users and len(view.image.scram.by_user) > _MANY


def _of_many_moves(view: View, request: ListPartitionReassignmentsRequest) -> bool:
    return request.topics is None and len(view.image.topics.marked_reassigning) > _MANY


def _of_many_partitions(view: View, request: ElectLeadersRequest) -> bool:
    return request.topic_partitions is None and view.image.topics.partition_count > _MANY


TOPIC_ROUTES: dict[type[Message], Route] = {
    CreateTopicsRequest: Route(create_topics, refuse_create_topics),
    DeleteTopicsRequest: Route(delete_topics, refuse_delete_topics),
    CreatePartitionsRequest: Route(create_partitions, refuse_create_partitions),
    ElectLeadersRequest: Route(elect_leaders, refuse_elect_leaders, _of_many_partitions),
    AlterPartitionReassignmentsRequest: Route(alter_reassignments, refuse_alter_reassignments),
    ListPartitionReassignmentsRequest: Route(
        list_reassignments, refuse_list_reassignments, _of_many_moves
    ),
    AlterPartitionRequest: Route(alter_partition, refuse_alter_partition),
    AssignReplicasToDirsRequest: Route(assign_replicas_to_dirs, refuse_assign_replicas_to_dirs),
    IncrementalAlterConfigsRequest: Route(
        incremental_alter_configs, refuse_incremental_alter_configs
    ),
    AlterConfigsRequest: Route(alter_configs, refuse_alter_configs),
    AlterClientQuotasRequest: Route(alter_client_quotas, refuse_alter_client_quotas),
    CreateAclsRequest: Route(create_acls, refuse_create_acls),
    DeleteAclsRequest: Route(delete_acls, refuse_delete_acls, _of_many_entries),
    DescribeAclsRequest: Route(describe_acls, refuse_describe_acls, _of_many_entries),
    AlterUserScramCredentialsRequest: Route(
        alter_scram_credentials, refuse_alter_scram_credentials
    ),
    DescribeUserScramCredentialsRequest: Route(
        describe_scram_credentials, refuse_describe_scram_credentials, _of_many_users
    ),
}
