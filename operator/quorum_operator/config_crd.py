"""`spec.config` of a MetadataQuorum: which node properties are allowed, and why others are not.

Every key of docs/reference/configuration.md is listed here exactly once; a test compares both. The names are repeated
because the operator depends only on the node's admin API.
"""

from dataclasses import dataclass

_LISTENERS = ("controller", "admin")

_OF_LISTENERS = (
    "connections.max.idle.ms",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "queued.max.request.bytes",
    "quorum.principal.max.connections",
    "quorum.principal.queued.max.request.bytes",
    "quorum.principal.queued.max.requests",
    "quorum.principal.request.percentage",
    "quorum.request.receive.timeout.ms",
)
"""Also as listener.name.NAME.KEY."""

_OF_LOGINS = (
    "connections.max.reauth.ms",
    "sasl.enabled.mechanisms",
    "sasl.server.max.receive.size",
)
"""Of listeners with SASL, also as listener.name.NAME.KEY."""

_OF_NODES = (
    "admin.membership.on.controller.listener",
    "auto.leader.rebalance.enable",
    "broker.metadata.max.age.ms",
    "broker.session.timeout.ms",
    "controller.quorum.election.backoff.max.ms",
    "controller.quorum.election.timeout.ms",
    "controller.quorum.fetch.timeout.ms",
    "controller.quorum.request.timeout.ms",
    "controller.quorum.retry.backoff.max.ms",
    "controller.quorum.retry.backoff.ms",
    "default.replication.factor",
    "leader.imbalance.check.interval.seconds",
    "log.level",
    "metadata.log.max.record.bytes.between.snapshots",
    "metadata.log.max.snapshot.interval.ms",
    "metadata.log.reserve.bytes",
    "metadata.log.scrub.bytes.per.second",
    "metadata.log.segment.bytes",
    "metadata.max.retention.bytes",
    "metadata.max.retention.ms",
    "num.partitions",
    "quorum.files.poll.ms",
    "quorum.handshake.timeout.ms",
    "quorum.handshakes.max",
    "quorum.handshakes.rate",
    "quorum.reassignments.max",
    "quorum.snapshot.handover",
    "quorum.snapshot.heartbeat.interval.ms",
    "quorum.snapshot.lagging.factor",
    "socket.request.max.bytes",
)

_OF_TOPICS = (
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "log.cleaner.delete.retention.ms",
    "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio",
    "log.cleaner.min.compaction.lag.ms",
    "log.cleanup.policy",
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "log.flush.scheduler.interval.ms",
    "log.index.interval.bytes",
    "log.index.size.max.bytes",
    "log.local.retention.bytes",
    "log.local.retention.ms",
    "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.type",
    "log.preallocate",
    "log.retention.bytes",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.hours",
    "log.roll.jitter.hours",
    "log.roll.jitter.ms",
    "log.roll.ms",
    "log.segment.bytes",
    "log.segment.delete.delay.ms",
    "message.max.bytes",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)

_OF_GROUPS = (
    "group.consumer.assignment.interval.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.max.assignment.interval.ms",
    "group.consumer.max.heartbeat.interval.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.min.assignment.interval.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.session.timeout.ms",
    "group.share.assignment.interval.ms",
    "group.share.delivery.count.limit",
    "group.share.heartbeat.interval.ms",
    "group.share.max.assignment.interval.ms",
    "group.share.max.delivery.count.limit",
    "group.share.max.heartbeat.interval.ms",
    "group.share.max.partition.max.record.locks",
    "group.share.max.record.lock.duration.ms",
    "group.share.max.session.timeout.ms",
    "group.share.min.assignment.interval.ms",
    "group.share.min.delivery.count.limit",
    "group.share.min.heartbeat.interval.ms",
    "group.share.min.partition.max.record.locks",
    "group.share.min.record.lock.duration.ms",
    "group.share.min.session.timeout.ms",
    "group.share.partition.max.record.locks",
    "group.share.record.lock.duration.ms",
    "group.share.session.timeout.ms",
    "group.streams.assignment.interval.ms",
    "group.streams.heartbeat.interval.ms",
    "group.streams.initial.rebalance.delay.ms",
    "group.streams.max.assignment.interval.ms",
    "group.streams.max.heartbeat.interval.ms",
    "group.streams.max.session.timeout.ms",
    "group.streams.max.standby.replicas",
    "group.streams.min.assignment.interval.ms",
    "group.streams.min.heartbeat.interval.ms",
    "group.streams.min.session.timeout.ms",
    "group.streams.num.standby.replicas",
    "group.streams.session.timeout.ms",
)

CONFIG_KEYS = tuple(
    sorted(
        (
            *_OF_NODES,
            *_OF_TOPICS,
            *_OF_GROUPS,
            *_OF_LISTENERS,
            *(f"listener.name.{name}.{key}" for name in _LISTENERS for key in _OF_LISTENERS),
        )
    )
)
"""Node properties that a resource may set."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Keys that a resource may not set, why, and what to do instead."""

    keys: tuple[str, ...]
    why: str


REFUSED = (
    Refused(
        ("node.id",),
        "the operator assigns the id of each member. To replace a member list its id in spec.retire",
    ),
    Refused(("cluster.id",), "it applies to the whole quorum. Set spec.clusterId"),
    Refused(("metadata.log.dir",), "it is on the member's volume. Set spec.storage"),
    Refused(
        (
            "listeners",
            "advertised.listeners",
            "admin.listener",
            "admin.advertised.listener",
            "controller.listener.names",
            "health.listener",
        ),
        "the quorum's Services and probes expect members at fixed ports. spec.networkPolicy controls who can reach "
        "them",
    ),
    Refused(
        (
            "listener.security.protocol.map",
            "quorum.identity.binding",
            "quorum.role.mapping.rules",
            "quorum.tls.migration",
        ),
        "the operator manages the certificates. Set spec.tls",
    ),
    Refused(
        (
            "connection.failed.authentication.delay.ms",
            *_OF_LOGINS,
            *(f"listener.name.{name}.{key}" for name in _LISTENERS for key in _OF_LOGINS),
        ),
        "the listeners that the operator configures authenticate clients by certificates, without SASL. Set spec.tls",
    ),
    Refused(
        (
            "controller.quorum.bootstrap.servers",
            "controller.quorum.voters",
            "controller.quorum.auto.join.enable",
            "formation.bootstrap",
            "formation.founder.id",
            "formation.founder.uuid",
            "formation.initial.voters",
            "formation.scram.file",
        ),
        "the operator forms the quorum and changes its voters. Set spec.replicas",
    ),
    Refused(
        ("process.roles", "quorum.partitions", "quorum.witness"),
        "the operator supports only quorums of one partition in which every member can lead. Leave it out",
    ),
    Refused(
        (
            "unstable.broker.role.enable",
            "log.dirs",
            "log.dir.failure.timeout.ms",
            "broker.rack",
            "broker.heartbeat.interval.ms",
            "replica.lag.time.max.ms",
            "inter.broker.listener.name",
            "quorum.replica.lag.max.bytes",
            "log.cleaner.enable",
            "log.cleaner.backoff.ms",
            "log.cleaner.io.max.bytes.per.second",
            "log.cleaner.dedupe.buffer.size",
            "replica.fetch.wait.max.ms",
            "replica.fetch.response.max.bytes",
            "replica.fetch.max.bytes",
            "quorum.broker.shutdown.timeout.ms",
            "log.retention.check.interval.ms",
            "producer.id.expiration.ms",
            "producer.id.expiration.check.interval.ms",
            "cordoned.log.dirs",
            "offsets.topic.num.partitions",
            "offsets.topic.replication.factor",
            "offsets.topic.segment.bytes",
            "offsets.retention.minutes",
            "offsets.retention.check.interval.ms",
            "offsets.commit.timeout.ms",
            "offset.metadata.max.bytes",
            "group.min.session.timeout.ms",
            "group.max.session.timeout.ms",
            "group.initial.rebalance.delay.ms",
            "group.max.size",
        ),
        "it is for brokers, and the operator runs members of the quorum. Leave it out",
    ),
    Refused(
        (
            "admin.token.file",
            "admin.token.in.clear.text",
            "failure.latch.file",
            "termination.message.file",
        ),
        "the operator mounts these files and reads them. The token is in the Secret NAME-admin",
    ),
    Refused(
        (
            "authorizer.class.name",
            "super.users",
            "allow.everyone.if.no.acl.found",
            "admin.metrics.open",
        ),
        "the operator and the probes have to read from members regardless of ACLs. Limit who reaches the members by "
        "spec.networkPolicy",
    ),
)
OF_TLS = "ssl."
"""Prefix of the keys for certificates, alone or after the name of a listener."""


def rules() -> list[tuple[str, str]]:
    """CEL rules of the whole spec, each with its message."""
    known = (*CONFIG_KEYS, *(key for each in REFUSED for key in each.keys))
    of_tls = f"key.startsWith('{OF_TLS}') || key.contains('.{OF_TLS}')"
    return [
        *((_without(each.keys), _violation(", ".join(each.keys), each.why)) for each in REFUSED),
        (
            f"!has(self.config) || !self.config.exists(key, {of_tls})",
            _violation(
                "keys of ssl", "the operator makes and mounts the certificates. Set spec.tls"
            ),
        ),
        (
            f"!has(self.config) || self.config.all(key, key in [{_listed(known)}] || {of_tls})",
            (
                "spec.config holds a property that the node does not know: docs/reference/configuration.md lists them "
                "all, in small letters"
            ),
        ),
    ]


def _without(keys: tuple[str, ...]) -> str:
    return f"!has(self.config) || [{_listed(keys)}].all(key, !(key in self.config))"


def _violation(what: str, why: str) -> str:
    return f"spec.config may not hold {what}: {why}"


def _listed(keys: tuple[str, ...]) -> str:
    return ", ".join(f"'{key}'" for key in keys)
