"""The controller's part of the configuration; Kafka's names and defaults where Kafka has one.

`broker.metadata.max.age.ms` is ours: a broker whose metadata is older is fenced (KIP-631, "Broker Heartbeats").
"""

from dataclasses import dataclass

from quorum_node.controller.authorization import AuthorizerSettings
from quorum_node.controller.topic_config_types import BROKER_CONFIGS
from quorum_node.controller.topic_settings import scaled
from quorum_node.controller.view import Settings
from quorum_node.server.config_values import Pairs

_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """`session_timeout_ms`: the length of a broker's lease; `balance_seconds`: None for never."""

    session_timeout_ms: int
    balance_seconds: int | None
    settings: Settings


def read_controller_config(pairs: Pairs) -> ControllerConfig:
    """Raises ConfigError."""
    return ControllerConfig(
        session_timeout_ms=pairs.integer(
            "broker.session.timeout.ms", 9000, minimum=100, maximum=3_600_000
        ),
        balance_seconds=_balance_seconds(pairs),
        settings=Settings(
            max_metadata_age_ms=pairs.integer(
                "broker.metadata.max.age.ms", 30_000, minimum=1000, maximum=3_600_000
            ),
            default_replication_factor=pairs.integer(
                "default.replication.factor", 1, minimum=1, maximum=2**15 - 1
            ),
            num_partitions=pairs.integer("num.partitions", 1, minimum=1, maximum=2**31 - 1),
            max_moving_partitions=pairs.integer(
                "quorum.reassignments.max", 1_000, minimum=0, maximum=2**31 - 1
            ),
            authorizer=_authorizer(pairs),
            static_configs=_static_configs(pairs),
        ),
    )


def _balance_seconds(pairs: Pairs) -> int | None:
    seconds = pairs.integer(
        "leader.imbalance.check.interval.seconds", 300, minimum=1, maximum=2**31 - 1
    )
    return seconds if pairs.boolean("auto.leader.rebalance.enable", default=True) else None


def _static_configs(pairs: Pairs) -> dict[str, str]:
    """Defaults of topics, under the brokers' names."""
    found: dict[str, str] = {}
    for name, (config, factor) in BROKER_CONFIGS.items():
        if pairs.has(name):
            value = pairs.text(name).strip()
            fault = config.fault(scaled(value, factor))
            if fault is not None:
                raise pairs.wrong(name, fault if factor == 1 else f"times {factor}, {fault}")
            found[name] = value
    return found


def _authorizer(pairs: Pairs) -> AuthorizerSettings:
    enabled = pairs.has("authorizer.class.name")
    if enabled and pairs.text("authorizer.class.name") != _AUTHORIZER:
        raise pairs.wrong("authorizer.class.name", f"must be {_AUTHORIZER}, or absent")
    users = pairs.text("super.users", "").split(";") if pairs.has("super.users") else []
    for user in users:
        if ":" not in user:
            raise pairs.wrong("super.users", f"{user!r} is not Type:name, separated by ;")
    return AuthorizerSettings(
        enabled=enabled,
        super_users=frozenset(users),
        allow_if_nothing_is_said=pairs.boolean("allow.everyone.if.no.acl.found", default=False),
    )
