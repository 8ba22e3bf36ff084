"""DescribeConfigs: all configs of a resource with value, source and synonyms. PURE.

Owns the response for one resource. Reads a committed image, so every replica can answer. Must not
know change requests (`configs.py`) nor the precedence of values (`topic_settings.py`).
Source: KIP-133, KIP-226 (synonyms), KIP-524 (types), as a stock 4.3 controller answers. There are
no documentation texts. For a topic that does not exist only configs that were set are returned.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from quorum_node.controller.problem import Problem
from quorum_node.controller.topic_config_types import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    ConfigType,
    TopicConfig,
)
from quorum_node.controller.topic_names import name_fault
from quorum_node.controller.topic_settings import (
    ALL_BROKERS,
    SOURCE_DEFAULT,
    SOURCE_TOPIC,
    Layer,
    broker_layers,
    listed_names,
    scaled,
)
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.resource_types import BROKER, CLIENT_METRICS, GROUP, TOPIC
from quorum_node.protocol.configs import ConfigSynonym, DescribedConfig
from quorum_node.protocol.errors import ErrorCode

_SOURCES = {CLIENT_METRICS: 7, GROUP: 8}
_UNKNOWN_TYPE = 0
_TYPES = {
    ConfigType.BOOLEAN: 1,
    ConfigType.STRING: 2,
    ConfigType.INT: 3,
    ConfigType.LONG: 5,
    ConfigType.DOUBLE: 6,
    ConfigType.LIST: 7,
}
_FIRST_NAMES = frozenset(
    config.broker_names[0][0] for config in TOPIC_CONFIGS.values() if config.broker_names
)
_SECRET_NAME = re.compile(
    r"(?:^|[._-])(?:password|secret|key|token|credentials?)(?:\.json)?$"
    r"|sasl\.jaas\.config$"
    r"|ssl\.keystore\.certificate\.chain$"
    r"|ssl\.truststore\.certificates$"
)
"""Kafka's configs of type PASSWORD, and what plugins of brokers call their credentials: stock Kafka hides every name that it does not know."""


class Asked(NamedTuple):
    """One resource; `keys` None or empty: all of its configs."""

    type: int
    name: str
    keys: Collection[str] | None = None
    synonyms: bool = False


def describe(
    image: ClusterImage, node_id: int, static: Mapping[str, str], asked: Asked
) -> tuple[DescribedConfig, ...] | Problem:
    """The configs of a resource, sorted by name. `static`: configs of brokers that this node was started with."""
    dynamic_and_static = broker_layers(image.configs, node_id, static)
    layers = (*map(_in_force, dynamic_and_static[:-1]), dynamic_and_static[-1])
    if asked.type == TOPIC:
        return _topic(image, layers, asked)
    if asked.type == BROKER:
        return _broker(layers, node_id, asked)
    if asked.type in _SOURCES:
        if not asked.name:
            return Problem(
                ErrorCode.INVALID_REQUEST, "the name of a group or a subscription can't be empty"
            )
        return _what_was_set(image.configs.of(asked.type, asked.name), _SOURCES[asked.type], asked)
    text = f"{asked.type} is not a resource type that a controller describes"
    return Problem(ErrorCode.INVALID_REQUEST, text)


def _topic(
    image: ClusterImage, layers: tuple[Layer, ...], asked: Asked
) -> tuple[DescribedConfig, ...] | Problem:
    fault = name_fault(asked.name)
    if fault is not None:
        return Problem(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    own = image.configs.of(TOPIC, asked.name)
    if image.topics.named(asked.name) is not None:
        names = _wanted(listed_names(own), asked)
        return tuple(_topic_config(layers, own, name, asked) for name in names)
    if own:
        return _what_was_set(own, SOURCE_TOPIC, asked)
    return Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.name}")


def _topic_config(
    layers: tuple[Layer, ...], own: Mapping[str, str], name: str, asked: Asked
) -> DescribedConfig:
    config = TOPIC_CONFIGS[name]
    value = canonical(config, own[name] if name in own else _of_brokers(layers, config))
    synonyms = _synonyms((*layers, _defaults(config)), [each for each, _ in config.broker_names])
    if name in own:
        synonyms.insert(0, ConfigSynonym(name=name, value=value, source=SOURCE_TOPIC))
    return DescribedConfig(
        name=name,
        value=value,
        read_only=False,
        config_source=synonyms[0].source if synonyms else SOURCE_DEFAULT,
        is_sensitive=False,
        synonyms=tuple(synonyms) if asked.synonyms else (),
        config_type=_TYPES[config.type],
    )


def _in_force(layer: Layer) -> Layer:
    """Dynamic broker configs that apply: of several names of one setting only the first one."""
    values = layer.values
    ignored = [name for name in values if name in BROKER_CONFIGS and name not in _FIRST_NAMES]
    if not ignored:
        return layer
    kept = {name: value for name, value in values.items() if name not in ignored}
    return Layer(kept, layer.source)


def _of_brokers(layers: tuple[Layer, ...], config: TopicConfig) -> str | None:
    """Broker configs in order of their names: log.roll.ms precedes log.roll.hours, whatever the sources."""
    for name, factor in config.broker_names:
        for values, _ in layers:
            if name in values:
                return scaled(values[name], factor)
    return config.default


def _synonyms(layers: Iterable[Layer], names: list[str]) -> list[ConfigSynonym]:
    """All synonyms by precedence. Those before the first name of the list are left out, as in Kafka."""
    found = [
        ConfigSynonym(name=name, value=values[name], source=source)
        for values, source in layers
        for name in names
        if name in values
    ]
    first = next((at for at, each in enumerate(found) if each.name == names[0]), len(found))
    return found[first:]


def _defaults(config: TopicConfig) -> Layer:
    """Of several names of a setting the last one has the default: log.retention.hours, not
    log.retention.ms.
    """
    if not config.broker_names or config.default is None:
        return Layer({}, SOURCE_DEFAULT)
    name, factor = config.broker_names[-1]
    value = config.default if factor == 1 else str(int(config.default) // factor)
    return Layer({name: value}, SOURCE_DEFAULT)


def _broker(
    layers: tuple[Layer, ...], node_id: int, asked: Asked
) -> tuple[DescribedConfig, ...] | Problem:
    """Configs of all brokers, or of this node."""
    if asked.name == ALL_BROKERS:
        layers = layers[1:2]
    elif asked.name != str(node_id):
        text = f"this is node {node_id}: it describes itself and the defaults of all brokers (an empty name)"
        return Problem(ErrorCode.INVALID_REQUEST, text)
    names = sorted({name for values, _ in layers for name in values})
    return tuple(_broker_config(layers, name, asked) for name in _wanted(names, asked))


def _broker_config(layers: tuple[Layer, ...], name: str, asked: Asked) -> DescribedConfig:
    synonyms = [_veiled(each) for each in _synonyms(layers, [name])]
    config, factor = BROKER_CONFIGS.get(name, (None, 0))
    return DescribedConfig(
        name=name,
        value=synonyms[0].value,
        read_only=False,
        config_source=synonyms[0].source,
        is_sensitive=is_secret(name),
        synonyms=tuple(synonyms) if asked.synonyms else (),
        config_type=_TYPES[config.type] if config is not None and factor == 1 else _UNKNOWN_TYPE,
    )


def is_secret(name: str) -> bool:
    """Whether the value of a broker's config is never returned. The name may have a listener prefix."""
    return _SECRET_NAME.search(name.lower()) is not None


def _veiled(synonym: ConfigSynonym) -> ConfigSynonym:
    if not is_secret(synonym.name):
        return synonym
    return ConfigSynonym(name=synonym.name, value=None, source=synonym.source)


def _what_was_set(
    values: Mapping[str, str], source: int, asked: Asked
) -> tuple[DescribedConfig, ...]:
    return tuple(
        DescribedConfig(
            name=name,
            value=values[name],
            read_only=False,
            config_source=source,
            is_sensitive=False,
        )
        for name in _wanted(sorted(values), asked)
    )


def _wanted(names: Iterable[str], asked: Asked) -> list[str]:
    return [name for name in names if not asked.keys or name in asked.keys]


def canonical(config: TopicConfig, value: str | None) -> str | None:
    """A value as Kafka writes it after reading it; one that it could not read as it is."""
    if value is None or config.fault(value) is not None:
        return value
    value = value.strip()
    match config.type:
        case ConfigType.BOOLEAN:
            return value.lower()
        case ConfigType.INT | ConfigType.LONG:
            return str(int(value))
        case ConfigType.DOUBLE:
            return str(float(value))
        case ConfigType.LIST:
            return ",".join(item.strip() for item in value.split(","))
        case _:
            return value
