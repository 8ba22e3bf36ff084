"""Effective configs of a topic. PURE.

Owns the precedence: the topic's own config, the controller's dynamic broker config, that of all
brokers, the controller's static configuration, the default. Also owns the checks of several configs
of a topic together. Must not know requests.
Source: KIP-226; the types and names are in `topic_config_types.py`.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from quorum_node.controller.topic_config_types import INTERNAL, TOPIC_CONFIGS
from quorum_node.controller.view import View
from quorum_node.image.configs import ConfigsImage
from quorum_node.image.resource_types import BROKER, TOPIC

ALL_BROKERS = ""
"""Name of the broker resource whose configs apply to all brokers."""
MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"

SOURCE_TOPIC = 1
SOURCE_BROKER = 2
SOURCE_ALL_BROKERS = 3
SOURCE_STATIC = 4
SOURCE_DEFAULT = 5


class Setting(NamedTuple):
    """An effective value, and Kafka's code of its source."""

    name: str
    value: str | None
    source: int


class Layer(NamedTuple):
    """Broker configs of one source, by broker names."""

    values: Mapping[str, str]
    source: int


def broker_layers(
    configs: ConfigsImage, node_id: int, static: Mapping[str, str]
) -> tuple[Layer, ...]:
    """Broker configs that apply to this node, the highest priority first; `static`: its
    configuration file.
    """
    return (
        Layer(configs.of(BROKER, str(node_id)), SOURCE_BROKER),
        Layer(configs.of(BROKER, ALL_BROKERS), SOURCE_ALL_BROKERS),
        Layer(static, SOURCE_STATIC),
    )


def layers_of(view: View) -> tuple[Layer, ...]:
    """The same for a command's view."""
    return broker_layers(view.image.configs, view.node_id, view.settings.static_configs)


def effective(layers: tuple[Layer, ...], name: str, own: Mapping[str, str]) -> Setting:
    """Effective value for a topic with these own configs."""
    if name in own:
        return Setting(name, own[name], SOURCE_TOPIC)
    config = TOPIC_CONFIGS[name]
    for values, source in layers:
        for broker_name, factor in config.broker_names if values else ():
            value = values.get(broker_name)
            if value is not None:
                return Setting(name, scaled(value, factor), source)
    return Setting(name, config.default, SOURCE_DEFAULT)


def scaled(value: str, factor: int) -> str:
    """A broker's value in the topic's unit.

    An invalid number is returned unchanged (it is not checked here).
    """
    if factor == 1:
        return value
    try:
        return str(int(value) * factor)
    except ValueError:
        return value


def all_effective(layers: tuple[Layer, ...], own: Mapping[str, str]) -> Iterator[Setting]:
    """Every config of a topic, sorted by name."""
    for name in listed_names(own):
        yield effective(layers, name, own)


def listed_names(own: Mapping[str, str]) -> list[str]:
    """Configs that are returned for a topic; internal ones only if they are set."""
    return sorted(name for name in TOPIC_CONFIGS if name not in INTERNAL or name in own)


def may_lose_data(view: View, topic: str) -> bool:
    """Whether a replica outside the ISR can become leader if no member of the ISR can."""
    own = view.image.configs.of(TOPIC, topic)
    value = effective(layers_of(view), UNCLEAN_LEADER_ELECTION, own).value
    return value is not None and value.strip().lower() == "true"


def min_insync_replicas(view: View, topic: str) -> int:
    """Number of in-sync replicas that acks=all requires; 1 if the value is not a number."""
    own = view.image.configs.of(TOPIC, topic)
    value = effective(layers_of(view), MIN_INSYNC_REPLICAS, own).value
    try:
        return int(value or 1)
    except ValueError:
        return 1


def topic_configs_fault(configs: Mapping[str, str], was: Mapping[str, str]) -> str | None:
    """Why the new configs of a topic are invalid, or None; `was`: its present configs."""
    for name, value in configs.items():
        config = TOPIC_CONFIGS.get(name)
        if config is None:
            return f"a topic has no config {name}"
        fault = config.fault(value)
        if fault is not None:
            return f"{name}={value}: {fault}"
    least = int(configs.get("min.compaction.lag.ms", "0"))
    most = configs.get("max.compaction.lag.ms")
    if most is not None and least > int(most):
        return f"min.compaction.lag.ms={least} is more than max.compaction.lag.ms={most}"
    return _tiered_fault(configs, was)


def _tiered_fault(configs: Mapping[str, str], was: Mapping[str, str]) -> str | None:
    if _is_true(configs, "remote.storage.enable"):
        return "remote.storage.enable=true: this controller does not manage tiered storage"
    if _is_true(was, "remote.storage.enable") and not _is_true(
        configs, "remote.log.delete.on.disable"
    ):
        return (
            "remote.storage.enable can be turned off only together with remote.log.delete.on.disable=true, "
            "because the remote data is deleted"
        )
    return None


def _is_true(configs: Mapping[str, str], name: str) -> bool:
    return configs.get(name, "false").strip().lower() == "true"
