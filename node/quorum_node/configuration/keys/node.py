"""Keys: who the node is, and how it ends."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quorum_node.configuration.key import REQUIRED, Key, Owner
from quorum_node.configuration.value_kinds import (
    MANY,
    AbsolutePath,
    Boolean,
    Choice,
    ClusterId,
    Integer,
    OneOf,
)

MAX_PARTITIONS = 16
"""Each has a thread for its fsyncs, and up to as many connections to a peer."""
CONTROLLER_ROLE = "controller"
BROKER_ROLE = "broker"
_OTHER_ROLES = (
    "a node has one role: write controller (a member of the quorum) or broker (in development). Brokers are processes"
    " of their own, with ids of their own"
)

NODE_ID = Key("node.id", Integer(0, MANY), REQUIRED, "the id of this node", Owner.OPERATOR)
CLUSTER_ID: Key[str | None] = Key(
    "cluster.id",
    ClusterId(),
    None,
    "the cluster that it belongs to; a directory of another one is refused. Without it the founder makes one",
    Owner.OPERATOR,
)
PROCESS_ROLES = Key(
    "process.roles",
    OneOf((CONTROLLER_ROLE, BROKER_ROLE), _OTHER_ROLES),
    CONTROLLER_ROLE,
    "the one role that a node has; `broker` is in development and needs `unstable.broker.role.enable`",
)
DATA_DIR = Key(
    "metadata.log.dir",
    AbsolutePath(),
    REQUIRED,
    "where log, snapshots and identity are kept",
    Owner.OPERATOR,
)
PARTITIONS = Key(
    "quorum.partitions",
    Integer(1, MAX_PARTITIONS),
    1,
    "partitions of the metadata topic, each a quorum of its own; fixed when the directory is formatted",
)
WITNESS = Key(
    "quorum.witness",
    Boolean(),
    False,
    "a voter that never leads",
)
LOG_LEVEL = Key(
    "log.level", Choice(("debug", "info", "warning", "error")), "info", "what is written to stdout"
)

TOKEN_FILE: Key[Path | None] = Key(
    "admin.token.file",
    AbsolutePath(),
    None,
    "the file with the admin token",
    Owner.OPERATOR,
)
TOKEN_IN_CLEAR_TEXT = Key(
    "admin.token.in.clear.text",
    Boolean(),
    False,
    "whether the admin token is taken from other hosts by plain `http` though members dial each other by TLS. For a quorum whose clients do not speak `https` yet; without TLS on any port the key changes nothing",
)
MEMBERSHIP_ON_KAFKA_PORT = Key(
    "admin.membership.on.controller.listener",
    Boolean(),
    True,
    "voters can be changed through the Kafka port",
)
LATCH_FILE: Key[Path | None] = Key(
    "failure.latch.file",
    AbsolutePath(),
    None,
    "where a failed disk is remembered, outside of that disk",
    Owner.OPERATOR,
)
TERMINATION_FILE: Key[Path | None] = Key(
    "termination.message.file",
    AbsolutePath(),
    None,
    "where the last words of the process go; without it `/dev/termination-log`, if that exists",
    Owner.OPERATOR,
)


SECTIONS: Mapping[str, tuple[Key[Any], ...]] = {
    "The node": (
        NODE_ID,
        CLUSTER_ID,
        PROCESS_ROLES,
        DATA_DIR,
        PARTITIONS,
        WITNESS,
        LOG_LEVEL,
    ),
    "Administration and the end of the process": (
        TOKEN_FILE,
        TOKEN_IN_CLEAR_TEXT,
        MEMBERSHIP_ON_KAFKA_PORT,
        LATCH_FILE,
        TERMINATION_FILE,
    ),
}
