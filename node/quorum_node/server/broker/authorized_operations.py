"""The operations that a caller may do with a resource, in the form of an answer.

Owns the bit field. Which operations there are belongs to the rights.
Source: KIP-430; `AuthHelper.authorizedOperations` of Apache Kafka 4.3.1.
"""

from quorum_node.controller.authorization import (
    CLUSTER_NAME,
    AclOperation,
    AclResource,
    ListedRights,
)

_NONE = 0


def authorized_operations(
    rights: ListedRights, resource: AclResource, name: str = CLUSTER_NAME
) -> int:
    """One bit for each operation, at the place of its number."""
    return sum(1 << int(each) for each in rights.operations(resource, name))


def operations_on_cluster(rights: ListedRights) -> int:
    """As for any resource; nothing to a caller who may not describe the cluster."""
    if not rights.allows(AclOperation.DESCRIBE, AclResource.CLUSTER):
        return _NONE
    return authorized_operations(rights, AclResource.CLUSTER)
