"""What holds for a topic: its own config, else the controller's as a broker, else all brokers', else what the controller was started with, else the default. PURE.

Owns that order and the checks that look at several configs of a topic at once. Must not know requests.
Source: KIP-226; the types and names are in `topic_config_types.py`.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from quorum_node.controller.topic_config_types import INTERNAL, TOPIC_CONFIGS
from quorum_node.controller.view import View
from quorum_node.image.configs import ConfigsImage
from quorum_node.image.resource_types import BROKER, TOPIC

ALL_BROKERS = ""
"""Name of the broker resource whose configs hold for every broker."""
MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"

SOURCE_TOPIC = 1
SOURCE_BROKER = 2
SOURCE_ALL_BROKERS = 3
SOURCE_STATIC = 4
SOURCE_DEFAULT = 5


class Setting(NamedTuple):
    """An effective value, and Kafka's number of where it comes from."""

    name: str
    value: str | None
    source: int


class Layer(NamedTuple):
    """Configs of brokers from one source, by the brokers' names."""

    values: Mapping[str, str]
    source: int


def broker_layers(
    configs: ConfigsImage, node_id: int, static: Mapping[str, str]
) -> tuple[Layer, ...]:
    """What is said for the brokers of this node, the highest priority first; `static`: at its start."""
    return (
        Layer(configs.of(BROKER, str(node_id)), SOURCE_BROKER),
        Layer(configs.of(BROKER, ALL_BROKERS), SOURCE_ALL_BROKERS),
        Layer(static, SOURCE_STATIC),
    )


def layers_of(view: View) -> tuple[Layer, ...]:
    """The same as a command sees it."""
    return broker_layers(view.image.configs, view.node_id, view.settings.static_configs)


def effective(layers: tuple[Layer, ...], name: str, own: Mapping[str, str]) -> Setting:
    """What holds for a topic with these configs of its own."""
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
    """A broker's value in the topic's unit; what is no number (nobody checked it here) as it is."""
    if factor == 1:
        return value
    try:
        return str(int(value) * factor)
    except ValueError:
        return value


def all_effective(layers: tuple[Layer, ...], own: Mapping[str, str]) -> Iterator[Setting]:
    """Every config of a topic, sorted by name."""
    for name in told_names(own):
        yield effective(layers, name, own)


def told_names(own: Mapping[str, str]) -> list[str]:
    """What is told of a topic: internal configs only where they are set."""
    return sorted(name for name in TOPIC_CONFIGS if name not in INTERNAL or name in own)


def may_lose_data(view: View, topic: str) -> bool:
    """Whether a replica outside the ISR may lead if nobody in it can."""
    own = view.image.configs.of(TOPIC, topic)
    value = effective(layers_of(view), UNCLEAN_LEADER_ELECTION, own).value
    return value is not None and value.strip().lower() == "true"


def min_insync_replicas(view: View, topic: str) -> int:
    """How many replicas have to be in sync before a message is acknowledged with acks=all; 1 where that is no number."""
    own = view.image.configs.of(TOPIC, topic)
    value = effective(layers_of(view), MIN_INSYNC_REPLICAS, own).value
    try:
        return int(value or 1)
    except ValueError:
        return 1


def topic_configs_fault(configs: Mapping[str, str], was: Mapping[str, str]) -> str | None:
    """What is wrong with the configs that a topic shall have; `was`: those that it has."""
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
