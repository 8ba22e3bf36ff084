"""Kafka's numbers of operations, kinds of resources, patterns and permissions (KIP-140, KIP-290). PURE."""

from enum import IntEnum

CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of the kind CLUSTER."""
METADATA_TOPIC = "__cluster_metadata"
WILDCARD = "*"
ANYBODY = "User:*"
"""The principal of an entry about everybody, whatever the type of their principal."""


class AclOperation(IntEnum):
    """What somebody does."""

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
    """To what it is done."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(IntEnum):
    """How the name of an entry is meant. Others are filters of requests, and never stored."""

    LITERAL = 3
    PREFIXED = 4


class AclPermission(IntEnum):
    """What an entry says."""

    DENY = 2
    ALLOW = 3


IMPLIED_BY: dict[int, tuple[AclOperation, ...]] = {
    AclOperation.DESCRIBE: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
"""Who is allowed one of these is allowed that. Being denied one of them denies nothing else."""
