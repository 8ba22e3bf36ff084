"""Authorization of reading and changing the configs of a resource. PURE.

Owns the resource of the check: topics and groups by name, everything else on the cluster.
Source: KIP-133, KIP-714, KIP-848, as in the ControllerApis of stock Kafka 4.3.
"""

from quorum_node.controller.authorization import (
    CLUSTER_NAME,
    AclOperation,
    AclResource,
    Caller,
    Rights,
)
from quorum_node.controller.problem import Problem
from quorum_node.image.resource_types import GROUP, TOPIC
from quorum_node.protocol.errors import ErrorCode

_BY_NAME = {
    TOPIC: (AclResource.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    GROUP: (AclResource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
_ON_CLUSTER = (AclResource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def config_refused(
    rights: Rights,
    caller: Caller,
    operation: AclOperation,
    resource_type: int,
    resource_name: str,
) -> Problem | None:
    """Error for a caller without permission. `operation`: DESCRIBE_CONFIGS or ALTER_CONFIGS."""
    resource, code = _BY_NAME.get(resource_type, _ON_CLUSTER)
    name = CLUSTER_NAME if resource is AclResource.CLUSTER else resource_name
    if rights.allows(operation, resource, name):
        return None
    return Problem(code, f"{caller.principal} lacks {operation.name} on {resource.name} {name}")
