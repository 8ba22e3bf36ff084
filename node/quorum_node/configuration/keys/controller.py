"""Keys of the active controller."""

from collections.abc import Mapping
from typing import Any

from quorum_node.configuration.key import Key
from quorum_node.configuration.value_kinds import (
    HOUR_MS,
    MANY,
    Boolean,
    Integer,
    OneWord,
    Principals,
    TopicDefault,
)
from quorum_node.controller.topic_config_types import TOPIC_CONFIGS
from quorum_node.security.authorizer import STANDARD_AUTHORIZER

SESSION_TIMEOUT = Key(
    "broker.session.timeout.ms", Integer(100, HOUR_MS), 9000, "length of a broker's lease"
)
METADATA_MAX_AGE = Key(
    "broker.metadata.max.age.ms",
    Integer(1000, HOUR_MS),
    30_000,
    "ours: a broker whose metadata is older than this is fenced",
)
DEFAULT_REPLICATION_FACTOR = Key(
    "default.replication.factor",
    Integer(1, 2**15 - 1),
    1,
    "for topics that are created without this value",
)
NUM_PARTITIONS = Key(
    "num.partitions", Integer(1, MANY), 1, "for topics that are created without this value"
)
REBALANCE = Key(
    "auto.leader.rebalance.enable",
    Boolean(),
    True,
    "whether leadership returns to preferred replicas automatically",
)
REBALANCE_SECONDS = Key(
    "leader.imbalance.check.interval.seconds", Integer(1, MANY), 300, "interval of this check"
)
MAX_REASSIGNMENTS = Key(
    "quorum.reassignments.max",
    Integer(0, MANY),
    1000,
    "ours: maximum number of partitions in reassignment",
)
AUTHORIZER_CLASS: Key[str | None] = Key(
    "authorizer.class.name",
    OneWord(STANDARD_AUTHORIZER, f"must be {STANDARD_AUTHORIZER}, or absent"),
    None,
    "enables authorization of all requests on both ports (docs/reference/api-permissions.md)",
)
SUPER_USERS: Key[frozenset[str]] = Key(
    "super.users", Principals(), frozenset(), "principals that are allowed everything", shown=""
)
ALLOW_EVERYONE = Key(
    "allow.everyone.if.no.acl.found",
    Boolean(),
    False,
    "whether access is allowed to resources without ACLs",
)
OPEN_METRICS = Key(
    "admin.metrics.open",
    Boolean(),
    True,
    "ours: with an authorizer, whether `/metrics` can be read without permission; otherwise DESCRIBE is required as for other reads",
)

_OF_SYNCS = "; of a broker also the interval of the check for logs to sync by `flush.ms`, which is never done without it"
TOPIC_DEFAULTS: Mapping[str, Key[str | None]] = {
    name: Key(
        name,
        TopicDefault(config, factor),
        None,
        f"`{topic_config}` of topics that do not set it"
        + (f", times {factor}" if factor != 1 else "")
        + (_OF_SYNCS if name == "log.flush.scheduler.interval.ms" else ""),
    )
    for topic_config, config in TOPIC_CONFIGS.items()
    for name, factor in config.broker_names
}
"""Defaults of topic configs, under the brokers' names."""

SECTIONS: Mapping[str, tuple[Key[Any], ...]] = {
    "The controller": (
        SESSION_TIMEOUT,
        METADATA_MAX_AGE,
        DEFAULT_REPLICATION_FACTOR,
        NUM_PARTITIONS,
        REBALANCE,
        REBALANCE_SECONDS,
        MAX_REASSIGNMENTS,
        AUTHORIZER_CLASS,
        SUPER_USERS,
        ALLOW_EVERYONE,
        OPEN_METRICS,
    ),
    "Defaults of topics": tuple(TOPIC_DEFAULTS.values()),
}
