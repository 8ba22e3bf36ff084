"""Keys of the node's identity, administration and termination."""

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
"""Each partition has a thread for its fsyncs, and up to as many connections to each peer."""
CONTROLLER_ROLE = "controller"
BROKER_ROLE = "broker"
BOTH_ROLES = ("broker,controller", "controller,broker")
_OTHER_ROLES = "write controller (a member of the quorum), broker, or broker,controller (both in one process); brokers are in development"

NODE_ID = Key("node.id", Integer(0, MANY), REQUIRED, "the id of this node", Owner.OPERATOR)
CLUSTER_ID: Key[str | None] = Key(
    "cluster.id",
    ClusterId(),
    None,
    "id of the cluster; a data directory of another cluster is refused. Without it the founder generates one",
    Owner.OPERATOR,
)
PROCESS_ROLES = Key(
    "process.roles",
    OneOf((CONTROLLER_ROLE, BROKER_ROLE, *BOTH_ROLES), _OTHER_ROLES),
    CONTROLLER_ROLE,
    "roles of the node: `controller`, `broker` or `broker,controller`; a broker is in development and requires `unstable.broker.role.enable`",
)
DATA_DIR = Key(
    "metadata.log.dir",
    AbsolutePath(),
    REQUIRED,
    "directory of the log, snapshots and identity",
    Owner.OPERATOR,
)
PARTITIONS = Key(
    "quorum.partitions",
    Integer(1, MAX_PARTITIONS),
    1,
    "number of partitions of the metadata topic, each with its own quorum; fixed when the directory is formatted",
)
WITNESS = Key(
    "quorum.witness",
    Boolean(),
    False,
    "whether the node is a witness: a voter that never becomes leader",
)
LOG_LEVEL = Key(
    "log.level", Choice(("debug", "info", "warning", "error")), "info", "level of the log on stdout"
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
    "whether the admin token is accepted from other hosts over plain `http` although members use TLS. For quorums with clients that do not support `https` yet; no effect without TLS",
)
MEMBERSHIP_ON_KAFKA_PORT = Key(
    "admin.membership.on.controller.listener",
    Boolean(),
    True,
    "whether voters can be changed through the Kafka port",
)
LATCH_FILE: Key[Path | None] = Key(
    "failure.latch.file",
    AbsolutePath(),
    None,
    "directory of the failure latch, on another file system than the data",
    Owner.OPERATOR,
)
TERMINATION_FILE: Key[Path | None] = Key(
    "termination.message.file",
    AbsolutePath(),
    None,
    "file for the termination message; default `/dev/termination-log`, if that exists",
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
    "Administration and termination": (
        TOKEN_FILE,
        TOKEN_IN_CLEAR_TEXT,
        MEMBERSHIP_ON_KAFKA_PORT,
        LATCH_FILE,
        TERMINATION_FILE,
    ),
}
