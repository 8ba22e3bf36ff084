"""The node's configuration: a Java-properties file plus overrides, every value checked at start.

Key names are Kafka's where Kafka has one (KIP-595 "Configurations", KIP-853); `admin.*`,
`formation.*`, `failure.*`, `termination.*`, `quorum.*`, `metadata.log.reserve.bytes` and
`metadata.log.scrub.bytes.per.second` are ours.
A wrong value is a ConfigError whose message names the key and the value. Knows no file but its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from quorum_node.controller.topic_config_types import BROKER_CONFIGS
from quorum_node.server.config_values import (
    ConfigError,
    HostPort,
    ListenerAddress,
    Pairs,
    VoterAddress,
)
from quorum_node.server.connection_limits import (
    LIMIT_KEYS,
    ConnectionLimits,
    check_limits,
    read_limits,
)
from quorum_node.server.controller.settings import ControllerConfig, read_controller_config
from quorum_node.server.quorum_timeouts import QuorumTimeouts, read_timeouts
from quorum_node.server.snapshot_policy import SnapshotPolicy
from quorum_node.storage.properties_text import parse_properties

CONTROLLER_LISTENER = "CONTROLLER"
ADMIN_LISTENER = "ADMIN"

MAX_PARTITIONS = 16
"""Each has a thread for its fsyncs, and up to as many connections to a peer."""

ADMIN_LIMITS = ConnectionLimits(max_connections=400, max_per_address=100, creation_rate=200)
"""People, probes and operators: few, and each of their connections costs more than one of Kafka."""

KNOWN_KEYS = frozenset(
    {
        "node.id",
        "cluster.id",
        "process.roles",
        "listeners",
        "advertised.listeners",
        "controller.listener.names",
        "metadata.log.dir",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "controller.quorum.election.timeout.ms",
        "controller.quorum.fetch.timeout.ms",
        "controller.quorum.election.backoff.max.ms",
        "controller.quorum.request.timeout.ms",
        "controller.quorum.retry.backoff.ms",
        "controller.quorum.retry.backoff.max.ms",
        "quorum.witness",
        "admin.listener",
        "admin.advertised.listener",
        "admin.token.file",
        "admin.membership.on.controller.listener",
        "controller.quorum.auto.join.enable",
        "formation.founder.id",
        "formation.founder.uuid",
        "formation.initial.voters",
        "formation.bootstrap",
        "failure.latch.file",
        "termination.message.file",
        "metadata.log.segment.bytes",
        "metadata.log.reserve.bytes",
        "metadata.log.scrub.bytes.per.second",
        "metadata.log.max.record.bytes.between.snapshots",
        "metadata.log.max.snapshot.interval.ms",
        "metadata.max.retention.bytes",
        "metadata.max.retention.ms",
        "quorum.partitions",
        "quorum.snapshot.handover",
        "quorum.snapshot.heartbeat.interval.ms",
        "quorum.snapshot.lagging.factor",
        "quorum.reassignments.max",
        "broker.session.timeout.ms",
        "broker.metadata.max.age.ms",
        "default.replication.factor",
        "num.partitions",
        "auto.leader.rebalance.enable",
        "leader.imbalance.check.interval.seconds",
        "authorizer.class.name",
        "super.users",
        "allow.everyone.if.no.acl.found",
        "socket.request.max.bytes",
        "log.level",
        *LIMIT_KEYS,
        *BROKER_CONFIGS,
    }
)


@dataclass(frozen=True, slots=True)
class Formation:
    """Who may form the quorum, under which key, and how many voters it starts with."""

    founder_id: int
    founder_uuid: UUID
    initial_voters: int


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """Everything the process needs to know; all values checked."""

    node_id: int
    cluster_id: str | None
    listener: ListenerAddress
    advertised: HostPort
    admin_listener: ListenerAddress
    admin_advertised: HostPort
    data_dir: Path
    partitions: int
    bootstrap_servers: tuple[HostPort, ...]
    """Whom to ask for the quorum: the bootstrap servers, or the addresses of the static voters."""
    static_voters: tuple[VoterAddress, ...]
    """`controller.quorum.voters`; counts only while no voters record is known."""
    may_bootstrap: bool
    """`formation.bootstrap`: whether this node may help to form a quorum that does not exist yet."""
    timeouts: QuorumTimeouts
    formation: Formation | None
    witness: bool
    admin_token_file: Path | None
    membership_on_controller_listener: bool
    auto_join: bool
    failure_latch_file: Path | None
    termination_message_file: Path | None
    segment_bytes: int
    reserve_bytes: int
    scrub_bytes_per_second: int
    snapshots: SnapshotPolicy
    controller: ControllerConfig
    max_request_bytes: int
    limits: ConnectionLimits
    admin_limits: ConnectionLimits
    log_level: str


def load_config(path: Path, overrides: Iterable[str] = ()) -> NodeConfig:
    """Read and check the file; `overrides` are key=value texts that win. Raises ConfigError."""
    return check_config(read_pairs(path, overrides))


def read_pairs(path: Path, overrides: Iterable[str] = ()) -> dict[str, str]:
    """The unchecked properties, overrides applied. Raises ConfigError."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {path} can't be read: {error}") from error
    try:
        pairs = parse_properties(text)
    except ValueError as error:
        raise ConfigError(f"the configuration file {path}: {error}") from error
    for override in overrides:
        key, found, value = override.partition("=")
        if not found:
            raise ConfigError(f"--override {override!r} is not key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def check_config(raw: dict[str, str]) -> NodeConfig:
    """The checked configuration. Raises ConfigError naming the first wrong key and its value."""
    pairs = Pairs(raw)
    pairs.refuse_unknown(KNOWN_KEYS)
    _check_roles(pairs)
    node_id = pairs.integer("node.id", minimum=0, maximum=2**31 - 1)
    listener = _controller_listener(pairs)
    servers, static_voters = _quorum_servers(pairs)
    formation = _formation(pairs)
    _check_formation(pairs, formation, static_voters)
    admin_listener = pairs.listener("admin.listener", "http://0.0.0.0:8080", "http")
    max_request_bytes = pairs.integer(
        "socket.request.max.bytes", 8 << 20, minimum=1 << 10, maximum=1 << 30
    )
    limits = read_limits(pairs, "controller", ConnectionLimits())
    check_limits(limits, max_request_bytes)
    return NodeConfig(
        node_id=node_id,
        cluster_id=pairs.cluster_id("cluster.id"),
        listener=listener,
        advertised=_advertised(pairs, listener),
        admin_listener=admin_listener,
        admin_advertised=_admin_advertised(pairs, admin_listener),
        data_dir=pairs.absolute_path("metadata.log.dir"),
        partitions=pairs.integer("quorum.partitions", 1, minimum=1, maximum=MAX_PARTITIONS),
        bootstrap_servers=servers,
        static_voters=static_voters,
        may_bootstrap=pairs.boolean("formation.bootstrap", default=True),
        timeouts=read_timeouts(pairs),
        formation=formation,
        witness=pairs.boolean("quorum.witness", default=False),
        admin_token_file=pairs.optional_path("admin.token.file"),
        auto_join=pairs.boolean("controller.quorum.auto.join.enable", default=False),
        membership_on_controller_listener=pairs.boolean(
            "admin.membership.on.controller.listener", default=True
        ),
        failure_latch_file=pairs.optional_path("failure.latch.file"),
        termination_message_file=pairs.optional_path("termination.message.file"),
        segment_bytes=pairs.integer(
            "metadata.log.segment.bytes", 64 << 20, minimum=1 << 14, maximum=1 << 31
        ),
        reserve_bytes=pairs.integer(
            "metadata.log.reserve.bytes", 64 << 20, minimum=0, maximum=1 << 50
        ),
        scrub_bytes_per_second=pairs.integer(
            "metadata.log.scrub.bytes.per.second", 1 << 20, minimum=1 << 10, maximum=1 << 40
        ),
        snapshots=_snapshots(pairs),
        controller=read_controller_config(pairs),
        max_request_bytes=max_request_bytes,
        limits=limits,
        admin_limits=read_limits(pairs, "admin", ADMIN_LIMITS),
        log_level=pairs.choice("log.level", "info", ("debug", "info", "warning", "error")),
    )


_OTHER_ROLES = "this node runs the controller role alone: write controller; brokers are processes of their own, with ids of their own"


def _check_roles(pairs: Pairs) -> None:
    if pairs.text("process.roles", "controller") != "controller":
        raise pairs.wrong("process.roles", _OTHER_ROLES)
    if pairs.text("controller.listener.names", CONTROLLER_LISTENER) != CONTROLLER_LISTENER:
        raise pairs.wrong("controller.listener.names", f"must be {CONTROLLER_LISTENER}")


def _controller_listener(pairs: Pairs) -> ListenerAddress:
    return pairs.listener("listeners", "CONTROLLER://0.0.0.0:9093", CONTROLLER_LISTENER)


def _advertised(pairs: Pairs, listener: ListenerAddress) -> HostPort:
    key = "advertised.listeners"
    if pairs.has(key):
        advertised = pairs.listener(key, "", CONTROLLER_LISTENER)
        return pairs.reachable(key, HostPort(advertised.host, advertised.port))
    return pairs.reachable("listeners", HostPort(listener.host, listener.port), key)


def _admin_advertised(pairs: Pairs, listener: ListenerAddress) -> HostPort:
    key = "admin.advertised.listener"
    if pairs.has(key):
        advertised = pairs.listener(key, "", "http")
        return pairs.reachable(key, HostPort(advertised.host, advertised.port))
    return pairs.reachable("admin.listener", HostPort(listener.host, listener.port), key)


def _quorum_servers(pairs: Pairs) -> tuple[tuple[HostPort, ...], tuple[VoterAddress, ...]]:
    """KIP-853: bootstrap servers and a static voter set exclude each other, one is needed."""
    servers_key, voters_key = "controller.quorum.bootstrap.servers", "controller.quorum.voters"
    servers = pairs.host_ports(servers_key) if pairs.has(servers_key) else ()
    voters = pairs.voters(voters_key) if pairs.has(voters_key) else ()
    if servers and voters:
        raise ConfigError(
            f"{servers_key}={pairs.text(servers_key)} and {voters_key}={pairs.text(voters_key)}"
            f" exclude each other: keep {voters_key} for a static quorum that only these nodes"
            f" will ever form, or {servers_key} for one whose voters are added and removed"
        )
    if not servers and not voters:
        raise ConfigError(
            f"neither {servers_key} nor {voters_key} is set: set {servers_key}=host:port,..."
            f" for a quorum whose voters are added and removed, or {voters_key}=id@host:port,..."
            " for a static one"
        )
    return servers or tuple(voter.address for voter in voters), voters


def _check_formation(
    pairs: Pairs, formation: Formation | None, static_voters: tuple[VoterAddress, ...]
) -> None:
    """Either a founder forms the quorum, or the static voters together do."""
    if formation is not None and static_voters:
        raise pairs.wrong(
            "formation.founder.id",
            "excludes controller.quorum.voters: a static quorum is formed by all its voters"
            " together, not by a founder",
        )
    if (
        static_voters
        and pairs.text("quorum.partitions", "1") != "1"
        and not pairs.has("cluster.id")
    ):
        raise pairs.wrong(
            "quorum.partitions",
            "several partitions of a static quorum may have several first leaders, and each would"
            " make a cluster id of its own: set cluster.id",
        )


def _snapshots(pairs: Pairs) -> SnapshotPolicy:
    """Kafka's names, defaults and meanings; how snapshots take turns is ours."""
    default, far = SnapshotPolicy(), 2**63 - 1
    return SnapshotPolicy(
        max_record_bytes=pairs.integer(
            "metadata.log.max.record.bytes.between.snapshots",
            default.max_record_bytes,
            minimum=1,
            maximum=far,
        ),
        max_interval_ms=pairs.integer(
            "metadata.log.max.snapshot.interval.ms", default.max_interval_ms, minimum=0, maximum=far
        ),
        retention_bytes=pairs.integer(
            "metadata.max.retention.bytes", default.retention_bytes, minimum=-1, maximum=far
        ),
        retention_ms=pairs.integer(
            "metadata.max.retention.ms", default.retention_ms, minimum=-1, maximum=far
        ),
        heartbeat_ms=pairs.integer(
            "quorum.snapshot.heartbeat.interval.ms",
            default.heartbeat_ms,
            minimum=10,
            maximum=60_000,
        ),
        lagging_factor=pairs.integer(
            "quorum.snapshot.lagging.factor", default.lagging_factor, minimum=1, maximum=1000
        ),
        handover=pairs.boolean("quorum.snapshot.handover", default=default.handover),
    )


def _formation(pairs: Pairs) -> Formation | None:
    keys = ("formation.founder.id", "formation.founder.uuid", "formation.initial.voters")
    given = [key for key in keys[:2] if pairs.has(key)]
    if not given:
        if pairs.has(keys[2]):
            raise pairs.wrong(keys[2], f"needs {keys[0]} and {keys[1]}")
        return None
    if len(given) == 1:
        missing = next(key for key in keys[:2] if key not in given)
        raise ConfigError(f"{given[0]}={pairs.text(given[0])} needs {missing} to be set as well")
    return Formation(
        founder_id=pairs.integer(keys[0], minimum=0, maximum=2**31 - 1),
        founder_uuid=pairs.uuid(keys[1]),
        initial_voters=pairs.integer(keys[2], 1, minimum=1, maximum=99),
    )
