"""Checks of IncrementalAlterConfigs and AlterConfigs that a broker makes before it forwards them to the active controller.

A controller, ours and a stock one, does not check the values of brokers' configs: it relies on the broker that got the request.
Unknown names are allowed, as plugins have configs of their own.
Source: KIP-226; the rules of a stock broker (`ConfigAdminManager.preprocess`, `DynamicBrokerConfig.validateConfigs`), with its list of
configs that can be changed while a broker runs.
"""

from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any, cast

from quorum_node.controller.configs import result_of
from quorum_node.controller.problem import Problem
from quorum_node.controller.topic_config_types import BROKER_CONFIGS, ConfigType, TopicConfig
from quorum_node.image.resource_types import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from quorum_node.protocol.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    ReplacedResource,
)
from quorum_node.protocol.configs import (
    AlterConfigsResource,
    AlterConfigsResult,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.schema.schema import Message

Request = IncrementalAlterConfigsRequest | AlterConfigsRequest
Refused = dict[int, Problem]
"""By the index of the resource in the request."""
_Change = tuple[str, int, str | None]
"""Name, operation and value."""

_NO_RESULT = Problem(ErrorCode.UNKNOWN_SERVER_ERROR, "the active controller gave no result")
_OF_CONTROLLERS = (TOPIC, CLIENT_METRICS, GROUP)
_READ_ONLY = frozenset(
    [
        "allow.everyone.if.no.acl.found",
        "authorizer.class.name",
        "auto.create.topics.enable",
        "auto.leader.rebalance.enable",
        "broker.heartbeat.interval.ms",
        "broker.id",
        "broker.rack",
        "broker.session.timeout.ms",
        "controlled.shutdown.enable",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "default.replication.factor",
        "delete.topic.enable",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "initial.broker.registration.timeout.ms",
        "inter.broker.listener.name",
        "log.dir",
        "log.dir.failure.timeout.ms",
        "log.dirs",
        "log.retention.check.interval.ms",
        "metadata.log.dir",
        "node.id",
        "num.partitions",
        "offset.metadata.max.bytes",
        "offsets.commit.timeout.ms",
        "offsets.retention.check.interval.ms",
        "offsets.retention.minutes",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        "process.roles",
        "replica.fetch.max.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.lag.time.max.ms",
        "replica.selector.class",
        "security.inter.broker.protocol",
        "socket.request.max.bytes",
        "super.users",
        "transaction.state.log.min.isr",
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
    ]
)
_ONLY_OF_ONE = frozenset(("advertised.listeners", "listener.security.protocol.map", "listeners"))
_LISTENER_PREFIX = "listener.name."
_ONLY_OF_A_LISTENER = frozenset(
    f"ssl.{name}"
    for name in (
        "key.password", "keystore.certificate.chain", "keystore.key", "keystore.location", "keystore.password", "keystore.type",
        "truststore.certificates", "truststore.location", "truststore.password", "truststore.type",
    )
)  # fmt: skip


def _integer(least: int | None = None, kind: ConfigType = ConfigType.INT) -> TopicConfig:
    return TopicConfig(kind, None, least)


_TYPES = {
    **{name: config for name, (config, _) in BROKER_CONFIGS.items()},
    **dict.fromkeys(
        ("background.threads", "log.cleaner.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir",
         "num.replica.fetchers"),
        _integer(1),
    ),
    **dict.fromkeys(
        ("max.connection.creation.rate", "max.connections", "max.connections.per.ip", "log.cleaner.io.buffer.size"), _integer(0)
    ),
    **dict.fromkeys(
        ("follower.replication.throttled.rate", "leader.replication.throttled.rate", "log.cleaner.backoff.ms",
         "replica.alter.log.dirs.io.max.bytes.per.second"),
        _integer(0, ConfigType.LONG),
    ),
    "log.cleaner.dedupe.buffer.size": _integer(None, ConfigType.LONG),
    "log.cleaner.io.max.bytes.per.second": TopicConfig(ConfigType.DOUBLE, None),
    "log.cleaner.io.buffer.load.factor": TopicConfig(ConfigType.DOUBLE, None),
    "producer.id.expiration.ms": _integer(1),
}  # fmt: skip
"""Of configs that can be changed while a broker runs."""
_NOT_FIRST = frozenset(
    name for name, (config, _) in BROKER_CONFIGS.items() if name != config.broker_names[0][0]
)
"""Further names of a setting, such as `log.retention.hours`: they count only in the file."""


def _resources(body: Request) -> tuple[AlterConfigsResource | ReplacedResource, ...]:
    return body.resources


def refusals(broker_id: int, body: Request) -> Generator[None, None, Refused]:
    """The resources of the request that are not forwarded, and why. In pieces: a request can have a million of configs."""
    counts: Counter[tuple[int, str]] = Counter()
    for resource in _resources(body):
        counts[resource.resource_type, resource.resource_name] += 1
        yield
    refused: Refused = {}
    for index, resource in enumerate(_resources(body)):
        kind, name = resource.resource_type, resource.resource_name
        if counts[kind, name] > 1:
            why: str | None = "each resource may be in a request only once"
        else:
            changes: list[_Change] = []
            for each in resource.configs:
                operation = getattr(each, "config_operation", ConfigOperation.SET)
                changes.append((each.name, operation, each.value))
                yield
            why = yield from _fault(broker_id, kind, name, changes)
        if why is not None:
            refused[index] = Problem(ErrorCode.INVALID_REQUEST, why)
    return refused


def without(body: Request, refused: Refused) -> Request:
    """The request with the other resources."""
    left = tuple(each for index, each in enumerate(_resources(body)) if index not in refused)
    return replace(body, resources=cast(Any, left))


def joined(body: Request, refused: Refused, answer: Message | None) -> Message:
    """The answer for all resources. `answer`: that of the active controller for the others; None if it was not asked."""
    by_resource: dict[tuple[int, str], AlterConfigsResult] = {}
    if isinstance(answer, IncrementalAlterConfigsResponse | AlterConfigsResponse):
        by_resource = {(each.resource_type, each.resource_name): each for each in answer.responses}
    results = []
    for index, resource in enumerate(_resources(body)):
        key = resource.resource_type, resource.resource_name
        if index not in refused and key in by_resource:
            results.append(by_resource[key])
        else:
            results.append(result_of(*key, refused.get(index, _NO_RESULT)))
    if isinstance(body, AlterConfigsRequest):
        return AlterConfigsResponse(responses=tuple(results))
    return IncrementalAlterConfigsResponse(responses=tuple(results))


def _fault(
    broker_id: int, kind: int, name: str, changes: list[_Change]
) -> Generator[None, None, str | None]:
    if len({each for each, _, _ in changes}) < len(changes):
        return "each config may be in a resource only once"
    without_value = _first(
        each
        for each, operation, value in changes
        if operation != ConfigOperation.DELETE and value is None
    )
    if without_value is not None:
        return f"{without_value}: a value is required unless it is deleted"
    if kind in _OF_CONTROLLERS:
        return None
    if kind == BROKER_LOGGER:
        return "a Python broker has no loggers with levels of their own"
    if kind != BROKER:
        return f"{kind} is not a resource type that has configs"
    if name and name != str(broker_id):
        return f"this is broker {broker_id}: send the configs of {name!r} to that broker"
    for change in changes:
        why = _value_fault(*change, is_for_all=not name)
        if why is not None:
            return f"{change[0]}: {why}"
        yield
    return None


def _value_fault(name: str, operation: int, value: str | None, *, is_for_all: bool) -> str | None:
    if operation == ConfigOperation.DELETE:
        return None
    if name in _READ_ONLY or name in _NOT_FIRST:
        return "it can't be changed while a broker runs: set it in the broker's file"
    if name in _ONLY_OF_A_LISTENER:
        return f"it can be changed only for one listener, as {_LISTENER_PREFIX}<listener>.{name}"
    if is_for_all and (name in _ONLY_OF_ONE or name.startswith(_LISTENER_PREFIX)):
        return "it can't be set for all brokers"
    config = _TYPES.get(name)
    if operation != ConfigOperation.SET or config is None or value is None:
        return None
    return config.fault(value)


def _first(found: Iterable[str]) -> str | None:
    return next(iter(found), None)
