"""The controller's part of the configuration, in the form that its pure code uses.

`broker.metadata.max.age.ms` is ours: a broker whose metadata is older is fenced (KIP-631, "Broker
Heartbeats").
"""

from dataclasses import dataclass

from quorum_node.configuration.keys import controller, group_limits
from quorum_node.configuration.properties import ConfigError, Properties
from quorum_node.controller.group_config_types import group_configs_fault
from quorum_node.controller.view import Settings
from quorum_node.security.authorizer import NO_AUTHORIZER, AuthorizerSettings


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """`session_timeout_ms`: the length of a broker's lease; `balance_seconds`:

    None: leaders are not balanced.
    """

    session_timeout_ms: int
    balance_seconds: int | None
    settings: Settings
    authorizer: AuthorizerSettings = NO_AUTHORIZER
    open_metrics: bool = True
    """Whether `/metrics` needs no permission."""


def read_controller_config(properties: Properties) -> ControllerConfig:
    """Read the configuration of the controller. Raises ConfigError."""
    authorizer = AuthorizerSettings(
        enabled=properties.get(controller.AUTHORIZER_CLASS) is not None,
        super_users=properties.get(controller.SUPER_USERS),
        allow_if_no_acl_found=properties.get(controller.ALLOW_EVERYONE),
    )
    return ControllerConfig(
        authorizer=authorizer,
        open_metrics=properties.get(controller.OPEN_METRICS),
        session_timeout_ms=properties.get(controller.SESSION_TIMEOUT),
        balance_seconds=_balance_seconds(properties),
        settings=Settings(
            max_metadata_age_ms=properties.get(controller.METADATA_MAX_AGE),
            default_replication_factor=properties.get(controller.DEFAULT_REPLICATION_FACTOR),
            num_partitions=properties.get(controller.NUM_PARTITIONS),
            max_moving_partitions=properties.get(controller.MAX_REASSIGNMENTS),
            has_authorizer=authorizer.enabled,
            static_configs=_static_configs(properties),
        ),
    )


def _balance_seconds(properties: Properties) -> int | None:
    seconds = properties.get(controller.REBALANCE_SECONDS)
    return seconds if properties.get(controller.REBALANCE) else None


def _static_configs(properties: Properties) -> dict[str, str]:
    """Defaults of topic configs, and limits and defaults of group configs, under the brokers' names."""
    found: dict[str, str] = {}
    for name, key in controller.TOPIC_DEFAULTS.items():
        value = properties.get(key)
        if value is not None:
            found[name] = value
    for name, limit in group_limits.GROUP_LIMITS.items():
        if properties.has(limit):
            found[name] = str(properties.get(limit))
    fault = group_configs_fault({}, found)
    if fault is not None:
        raise ConfigError(f"a group without configs of its own would be invalid: {fault}")
    return found
