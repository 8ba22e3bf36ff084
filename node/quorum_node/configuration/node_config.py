"""The configuration of a process: checked values, and the rules between keys.

A wrong value is a ConfigError whose message names the key and the value. Single values are checked
by the table (`keys/`), combinations of values here. Must not know files.
"""

from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from quorum_node.configuration.broker_config import BrokerConfig, check_role, read_broker_config
from quorum_node.configuration.controller_settings import ControllerConfig, read_controller_config
from quorum_node.configuration.keys import listeners, log, node, quorum
from quorum_node.configuration.keys.table import known_names
from quorum_node.configuration.listener_config import (
    AdminConfig,
    ListenerConfig,
    TlsConfig,
    controller_listener_names,
    names_of_listeners,
    read_admin,
    read_kafka_listeners,
    read_tls,
)
from quorum_node.configuration.properties import ConfigError, Properties
from quorum_node.configuration.snapshots import SnapshotPolicy, read_snapshot_policy
from quorum_node.configuration.timeouts import QuorumTimeouts, read_timeouts
from quorum_node.host_port import HostPort, ListenerAddress, VoterAddress


@dataclass(frozen=True, slots=True)
class Formation:
    """Founder of the quorum, its key, and the number of initial voters."""

    founder_id: int
    founder_uuid: UUID
    initial_voters: int


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The checked configuration of a process."""

    node_id: int
    cluster_id: str | None
    listeners: tuple[ListenerConfig, ...]
    """Listeners of Kafka's protocol: the controller's, then the broker's. Members connect to the first one of a member."""
    admin: AdminConfig
    health_listener: ListenerAddress | None
    """Additional port for probes and metrics, in clear text."""
    tls: TlsConfig
    data_dir: Path
    partitions: int
    bootstrap_servers: tuple[HostPort, ...]
    """Addresses at which the node looks for the quorum: bootstrap servers, or the static voters."""
    static_voters: tuple[VoterAddress, ...]
    """`controller.quorum.voters`; used only while no voters record is known."""
    may_bootstrap: bool
    """`formation.bootstrap`: whether this node may take part in the formation of a new quorum."""
    timeouts: QuorumTimeouts
    formation: Formation | None
    first_scram_file: Path | None
    """`formation.scram.file`: first users of a new quorum."""
    witness: bool
    admin_token_file: Path | None
    token_needs_tls: bool
    """Whether a token from another host is refused if it was sent in clear text."""
    membership_on_controller_listener: bool
    auto_join: bool
    failure_latch_file: Path | None
    termination_message_file: Path | None
    segment_bytes: int
    reserve_bytes: int
    scrub_bytes_per_second: int
    snapshots: SnapshotPolicy
    controller: ControllerConfig
    log_level: str
    broker: BrokerConfig | None = None
    """Settings of the broker; None without the role of broker."""
    broker_listeners: tuple[ListenerConfig, ...] = ()
    """Those of `listeners` that belong to the broker; the first one is the one between brokers."""

    @property
    def is_member(self) -> bool:
        """Whether the process is a member of the quorum; else it observes the quorum as a broker."""
        return self.broker is None or self.broker.is_member

    @property
    def controller_listeners(self) -> tuple[ListenerConfig, ...]:
        """Those of `listeners` that belong to the controller."""
        return self.listeners[: len(self.listeners) - len(self.broker_listeners)]

    @property
    def dialled(self) -> ListenerConfig:
        """The listener to which members connect."""
        return self.listeners[0]

    @property
    def quorum_listener(self) -> str:
        """Name of the listener under which this node reaches members of the quorum."""
        return self.dialled.name if self.broker is None else self.broker.controllers.name

    @property
    def between_brokers(self) -> ListenerConfig:
        """The listener on which brokers fetch from each other."""
        return self.broker_listeners[0]

    @property
    def has_tls(self) -> bool:
        """Whether any port uses TLS, or a broker connects to the controllers by TLS."""
        if self.broker is not None and self.broker.controllers.ssl is not None:
            return True
        return self.admin.ssl is not None or any(each.ssl is not None for each in self.listeners)


def check_config(raw: dict[str, str]) -> NodeConfig:
    """The checked configuration. Raises ConfigError, which names the first wrong key and its value."""
    properties = Properties(raw)
    properties.refuse_unknown(known_names(names_of_listeners(properties)))
    check_role(properties)
    node_id = properties.get(node.NODE_ID)
    kafka_listeners = read_kafka_listeners(properties)
    broker = read_broker_config(properties)
    _check_both_roles(properties, broker, kafka_listeners)
    admin = read_admin(properties, kafka_listeners[0].name)
    servers, static_voters = _quorum_servers(properties)
    formation = _formation(properties)
    _check_formation(properties, formation, static_voters)
    return NodeConfig(
        node_id=node_id,
        cluster_id=properties.get(node.CLUSTER_ID),
        listeners=kafka_listeners,
        admin=admin,
        health_listener=properties.get(listeners.HEALTH),
        tls=read_tls(properties, kafka_listeners[0]),
        data_dir=properties.get(node.DATA_DIR),
        partitions=properties.get(node.PARTITIONS),
        bootstrap_servers=servers,
        static_voters=static_voters,
        may_bootstrap=properties.get(quorum.MAY_BOOTSTRAP),
        timeouts=read_timeouts(properties),
        formation=formation,
        first_scram_file=properties.get(quorum.FIRST_SCRAM),
        witness=properties.get(node.WITNESS),
        admin_token_file=properties.get(node.TOKEN_FILE),
        token_needs_tls=(
            admin.ssl is None
            and kafka_listeners[0].ssl is not None
            and not properties.get(node.TOKEN_IN_CLEAR_TEXT)
        ),
        auto_join=properties.get(quorum.AUTO_JOIN),
        membership_on_controller_listener=properties.get(node.MEMBERSHIP_ON_KAFKA_PORT),
        failure_latch_file=properties.get(node.LATCH_FILE),
        termination_message_file=properties.get(node.TERMINATION_FILE),
        segment_bytes=properties.get(log.SEGMENT_BYTES),
        reserve_bytes=properties.get(log.RESERVE_BYTES),
        scrub_bytes_per_second=properties.get(log.SCRUB_BYTES_PER_SECOND),
        snapshots=read_snapshot_policy(properties),
        controller=read_controller_config(properties),
        log_level=properties.get(node.LOG_LEVEL),
        broker=broker,
        broker_listeners=_of_broker(properties, kafka_listeners) if broker else (),
    )


def _check_both_roles(
    properties: Properties, broker: BrokerConfig | None, found: tuple[ListenerConfig, ...]
) -> None:
    """With both roles, the broker presents the certificate of its listener between brokers to the controllers."""
    if broker is None or not broker.is_member:
        return
    for each in found:
        if each.sasl is not None:
            raise ConfigError(
                f"{node.PROCESS_ROLES.name}: a process with both roles supports PLAINTEXT and SSL only yet, and listener {each.name} uses"
                f" {each.protocol.value}. For SASL run the controller and the broker as two processes, each with its own node.id"
            )
    controller, between = found[0], _of_broker(properties, found)[0]
    if controller.protocol is not between.protocol:
        raise ConfigError(
            f"{node.PROCESS_ROLES.name}: in a process with both roles listener {controller.name} of the controller and listener {between.name} between"
            f" brokers need the same protocol: they use {controller.protocol.value} and {between.protocol.value}"
        )


def _of_broker(
    properties: Properties, found: tuple[ListenerConfig, ...]
) -> tuple[ListenerConfig, ...]:
    names = controller_listener_names(properties)
    return tuple(each for each in found if each.name not in names)


def _quorum_servers(
    properties: Properties,
) -> tuple[tuple[HostPort, ...], tuple[VoterAddress, ...]]:
    """KIP-853: either bootstrap servers or a static voter set."""
    servers, voters = properties.get(quorum.BOOTSTRAP_SERVERS), properties.get(quorum.STATIC_VOTERS)
    servers_key, voters_key = quorum.BOOTSTRAP_SERVERS.name, quorum.STATIC_VOTERS.name
    if servers and voters:
        raise ConfigError(
            f"{servers_key}={properties.text(quorum.BOOTSTRAP_SERVERS)}"
            f" and {voters_key}={properties.text(quorum.STATIC_VOTERS)} can't be combined: keep {voters_key} for a static quorum with a fixed list of voters, or {servers_key} for a quorum whose voters are added and removed"
        )
    if not servers and not voters:
        raise ConfigError(
            f"neither {servers_key} nor {voters_key} is set: set {servers_key}=host:port,..."
            f" for a quorum whose voters are added and removed, or {voters_key}=id@host:port,..."
            " for a static one"
        )
    return servers or tuple(voter.address for voter in voters), voters


def _formation(properties: Properties) -> Formation | None:
    founder = (quorum.FOUNDER_ID.name, quorum.FOUNDER_UUID.name)
    given = [key.name for key in (quorum.FOUNDER_ID, quorum.FOUNDER_UUID) if properties.has(key)]
    if not given:
        if properties.has(quorum.INITIAL_VOTERS):
            raise properties.wrong(quorum.INITIAL_VOTERS, f"needs {founder[0]} and {founder[1]}")
        return None
    if len(given) == 1:
        there = quorum.FOUNDER_ID if given[0] == founder[0] else quorum.FOUNDER_UUID
        missing = next(name for name in founder if name not in given)
        raise ConfigError(f"{given[0]}={properties.text(there)} needs {missing} to be set as well")
    founder_id = properties.get(quorum.FOUNDER_ID)
    assert founder_id is not None
    return Formation(
        founder_id=founder_id,
        founder_uuid=properties.get(quorum.FOUNDER_UUID),
        initial_voters=properties.get(quorum.INITIAL_VOTERS),
    )


def _check_formation(
    properties: Properties, formation: Formation | None, static_voters: tuple[VoterAddress, ...]
) -> None:
    """Either a founder forms the quorum, or all static voters together."""
    if formation is not None and static_voters:
        raise properties.wrong(
            quorum.FOUNDER_ID,
            "can't be combined with controller.quorum.voters: a static quorum is formed by all its voters together, not by a founder",
        )
    several = (properties.text(node.PARTITIONS) or "1") != "1"
    if static_voters and several and not properties.has(node.CLUSTER_ID):
        raise properties.wrong(
            node.PARTITIONS,
            "with several partitions a static quorum can have several first leaders, each of which would generate a cluster id: set cluster.id",
        )
