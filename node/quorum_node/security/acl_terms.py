"""Kafka's codes of operations, resource types, pattern types and permissions (KIP-140, KIP-290). PURE."""

from enum import IntEnum

CLUSTER_NAME = "kafka-cluster"
"""Name of the only resource of type CLUSTER."""
METADATA_TOPIC = "__cluster_metadata"
WILDCARD = "*"
ANYBODY = "User:*"
"""Principal of an entry for all callers, whatever the type of their principal."""


class AclOperation(IntEnum):
    """The operation."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclResource(IntEnum):
    """The type of the resource."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(IntEnum):
    """The pattern type of an entry. Other types occur in filters of requests only, and are never stored."""

    LITERAL = 3
    PREFIXED = 4


class AclPermission(IntEnum):
    """The effect of an entry."""

    DENY = 2
    ALLOW = 3


OPERATIONS_OF: dict[AclResource, frozenset[AclOperation]] = {
    AclResource.TOPIC: frozenset(
        {
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        }
    ),
    AclResource.GROUP: frozenset(
        {
            AclOperation.READ,
            AclOperation.DELETE,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        }
    ),
    AclResource.CLUSTER: frozenset(
        {
            AclOperation.CREATE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
            AclOperation.IDEMPOTENT_WRITE,
        }
    ),
}
"""The operations that answers report for a resource of the type (KIP-430)."""

IMPLIED_BY: dict[int, tuple[AclOperation, ...]] = {
    AclOperation.DESCRIBE: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
"""Allowing one of these operations implies the other. Denying one of them implies nothing."""
