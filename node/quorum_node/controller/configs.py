"""IncrementalAlterConfigs and AlterConfigs: dynamic configs of topics, brokers, groups and client
metrics. PURE.

Owns the checks and the resulting records. Must not know what a broker does with a config. A broker
validates its own configs before it forwards them, so only their names are checked here.
Source: KIP-339, KIP-133, KIP-226, KIP-714 (client metrics), KIP-848 (groups).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from quorum_node.controller.authorization import AclOperation
from quorum_node.controller.client_metrics_config import client_metrics_problem
from quorum_node.controller.config_rights import config_refused
from quorum_node.controller.decision import Decision
from quorum_node.controller.feature_levels import ELIGIBLE_LEADER_REPLICAS
from quorum_node.controller.group_config_types import group_configs_fault
from quorum_node.controller.problem import Problem
from quorum_node.controller.topic_config_types import MAX_INT, TOPIC_CONFIGS, ConfigType
from quorum_node.controller.topic_names import name_fault
from quorum_node.controller.topic_settings import MIN_INSYNC_REPLICAS, topic_configs_fault
from quorum_node.controller.topics import MAX_RECORDS
from quorum_node.controller.view import View
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.resource_types import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    resource_type_name,
)
from quorum_node.protocol.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResult,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import ClearElrRecord, ConfigRecord, MetadataMessage
from quorum_node.schema.decoder import MAX_STRING_BYTES

_BROKER_ID = re.compile("[0-9]{1,10}")
_BROKER_LISTS = frozenset(
    (
        "advertised.listeners",
        "cordoned.log.dirs",
        "group.consumer.assignors",
        "group.coordinator.rebalance.protocols",
        "group.share.assignors",
        "listeners",
        "log.cleanup.policy",
        "metric.reporters",
        "sasl.enabled.mechanisms",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.oauthbearer.expected.audience",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
    )
)
"""Broker configs of type list, whose items can be appended and subtracted."""


class _Resource(NamedTuple):
    type: int
    name: str

    def __str__(self) -> str:
        return f"{resource_type_name(self.type)} {self.name or 'default'}"


Values = dict[str, str | None]
"""New values of configs; None deletes one."""


def incremental_alter_configs(view: View, request: IncrementalAlterConfigsRequest) -> Decision:
    """Every resource gets its own result; all valid changes are made together."""
    resources = [_Resource(r.resource_type, r.resource_name) for r in request.resources]
    altering = _Altering(view, resources)
    for resource, altered in zip(resources, request.resources, strict=True):
        altering.resource(resource, altered.configs)
    answer = IncrementalAlterConfigsResponse(responses=altering.results())
    return (
        Decision(answer=answer) if request.validate_only else Decision(altering.decided(), answer)
    )


def alter_configs(view: View, request: AlterConfigsRequest) -> Decision:
    """As above, but configs of a resource that are not in the request are deleted."""
    resources = [_Resource(r.resource_type, r.resource_name) for r in request.resources]
    altering = _Altering(view, resources)
    for resource, replaced in zip(resources, request.resources, strict=True):
        set_to = {each.name: each.value for each in replaced.configs}
        gone = [name for name in view.image.configs.of(*resource) if name not in set_to]
        configs = [_operation(name, ConfigOperation.SET, value) for name, value in set_to.items()]
        configs += [_operation(name, ConfigOperation.DELETE, None) for name in sorted(gone)]
        altering.resource(resource, configs)
    answer = AlterConfigsResponse(responses=altering.results())
    return (
        Decision(answer=answer) if request.validate_only else Decision(altering.decided(), answer)
    )


def result_of(
    resource_type: int, resource_name: str, problem: Problem | None
) -> AlterConfigsResult:
    """The result of one resource; `problem`: None if it was changed."""
    return AlterConfigsResult(
        error_code=problem.code if problem is not None else ErrorCode.NONE,
        error_message=problem.text if problem is not None else None,
        resource_type=resource_type,
        resource_name=resource_name,
    )


def refuse_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, error: ErrorCode, text: str
) -> IncrementalAlterConfigsResponse:
    """The same answer for every resource."""
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            result_of(r.resource_type, r.resource_name, Problem(error, text))
            for r in request.resources
        )
    )


def refuse_alter_configs(
    request: AlterConfigsRequest, error: ErrorCode, text: str
) -> AlterConfigsResponse:
    """The same answer for every resource."""
    return AlterConfigsResponse(
        responses=tuple(
            result_of(r.resource_type, r.resource_name, Problem(error, text))
            for r in request.resources
        )
    )


def cleared_eligible_replicas(
    image: ClusterImage, changes: Iterable[ConfigRecord]
) -> Iterator[ClearElrRecord]:
    """Records that belong to config changes, whoever makes them.

    A changed `min.insync.replicas` clears eligible leader replicas: under the new value messages may be
    acknowledged without them.
    """
    if not image.features.level(ELIGIBLE_LEADER_REPLICAS):
        return
    for record in changes:
        if record.name == MIN_INSYNC_REPLICAS and record.resource_type in (BROKER, TOPIC):
            name = record.resource_name if record.resource_type == TOPIC else ""
            yield ClearElrRecord(topic_name=name)


class _Altering:
    """One request."""

    def __init__(self, view: View, resources: Sequence[_Resource]) -> None:
        self._view = view
        self._repeated = _repeated(resources)
        self._results: dict[_Resource, AlterConfigsResult] = {}
        self._records: list[ConfigRecord] = []

    def results(self) -> tuple[AlterConfigsResult, ...]:
        """One for each resource."""
        return tuple(self._results.values())

    def decided(self) -> tuple[MetadataMessage, ...]:
        """All changes, and their effects on eligible leader replicas."""
        return (*self._records, *cleared_eligible_replicas(self._view.image, self._records))

    def resource(self, resource: _Resource, configs: Sequence[AlterableConfig]) -> None:
        """Decide on one resource."""
        made = self._alter(resource, configs)
        if not isinstance(made, Problem):
            self._records.extend(made)
        problem = made if isinstance(made, Problem) else None
        self._results[resource] = result_of(resource.type, resource.name, problem)

    def _alter(
        self, resource: _Resource, configs: Sequence[AlterableConfig]
    ) -> list[ConfigRecord] | Problem:
        problem = (
            self._repeated_problem(resource)
            or _right_problem(self._view, resource)
            or _name_problem(resource)
        )
        if problem is not None:
            return problem
        now = self._view.image.configs.of(*resource)
        wanted = _wanted(resource, now, configs)
        if isinstance(wanted, Problem):
            return wanted
        problem = _min_insync_problem(self._view, resource, wanted)
        if problem is not None:
            return problem
        problem = _values_problem(self._view, resource, now, wanted)
        if problem is not None:
            return problem
        problem = _existence_problem(self._view, resource)
        if problem is not None:
            return problem
        if len(self._records) + len(wanted) > MAX_RECORDS:
            text = f"one request changes at most {MAX_RECORDS} configs: ask for fewer at once"
            return Problem(ErrorCode.POLICY_VIOLATION, text)
        return [
            ConfigRecord(
                resource_type=resource.type, resource_name=resource.name, name=name, value=value
            )
            for name, value in wanted.items()
            # An unchanged broker config makes the broker read its files again (KAFKA-14136).
            if resource.type == BROKER or now.get(name) != value
        ]

    def _repeated_problem(self, resource: _Resource) -> Problem | None:
        if resource not in self._repeated:
            return None
        return Problem(ErrorCode.INVALID_REQUEST, f"{resource} is in the request more than once")


def _repeated(resources: Sequence[_Resource]) -> frozenset[_Resource]:
    """Resources that occur more than once."""
    if len(set(resources)) == len(resources):
        return frozenset()
    return frozenset(each for each, times in Counter(resources).items() if times > 1)


def _wanted(
    resource: _Resource, now: Mapping[str, str], configs: Sequence[AlterableConfig]
) -> Values | Problem:
    wanted: Values = {}
    for config in configs:
        if not config.name and resource.type == BROKER:
            # Of the other types no config has this name.
            return Problem(ErrorCode.INVALID_REQUEST, "the name of a config can't be empty")
        if config.config_operation == ConfigOperation.DELETE:
            wanted[config.name] = None
        elif config.value is None:
            text = f"{config.name}: a value is required unless it is deleted"
            return Problem(ErrorCode.INVALID_CONFIG, text)
        elif config.config_operation == ConfigOperation.SET:
            wanted[config.name] = config.value
        elif config.config_operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            if not _is_list(resource, config.name):
                text = f"{config.name} is not a list: items can't be appended or subtracted"
                return Problem(ErrorCode.INVALID_CONFIG, text)
            items = _listed(resource, now.get(config.name), config)
            if len(items.encode()) > MAX_STRING_BYTES:
                text = f"{config.name}: the list would have more than {MAX_STRING_BYTES} bytes"
                return Problem(ErrorCode.INVALID_CONFIG, text)
            wanted[config.name] = items
        else:
            text = f"{config.name}: {config.config_operation} is not an operation"
            return Problem(ErrorCode.INVALID_REQUEST, text)
    return wanted


def _is_list(resource: _Resource, name: str) -> bool:
    if resource.type == TOPIC:
        config = TOPIC_CONFIGS.get(name)
        return config is not None and config.type is ConfigType.LIST
    return resource.type == BROKER and name in _BROKER_LISTS


def _listed(resource: _Resource, now: str | None, config: AlterableConfig) -> str:
    """Append or subtract items; an unset config counts as its default."""
    if now is None and resource.type == TOPIC:
        now = TOPIC_CONFIGS[config.name].default
    items = [item for item in (now or "").split(",") if item]
    given = (config.value or "").split(",")
    if config.config_operation == ConfigOperation.APPEND:
        known = set(items)
        return ",".join([*items, *(item for item in dict.fromkeys(given) if item not in known)])
    left = Counter(given)
    kept = []
    for item in items:
        # Of an item that occurs several times, as many are removed as are given.
        if left[item]:
            left[item] -= 1
        else:
            kept.append(item)
    return ",".join(kept)


def _right_problem(view: View, resource: _Resource) -> Problem | None:
    if resource.type in (TOPIC, GROUP, BROKER, CLIENT_METRICS):
        asked = AclOperation.ALTER_CONFIGS, resource.type, resource.name
        return config_refused(view.rights, view.caller, *asked)
    if resource.type == BROKER_LOGGER:
        text = "logger levels are not configs of the cluster: send the request to the broker itself"
        return Problem(ErrorCode.INVALID_REQUEST, text)
    text = f"{resource.type} is not a resource type that has configs"
    return Problem(ErrorCode.UNSUPPORTED_VERSION, text)


def _name_problem(resource: _Resource) -> Problem | None:
    """Rules for names that don't depend on what exists."""
    if resource.type == TOPIC:
        if not resource.name:
            return Problem(ErrorCode.INVALID_REQUEST, "configs for all topics don't exist")
        fault = name_fault(resource.name)
        return Problem(ErrorCode.INVALID_TOPIC_EXCEPTION, fault) if fault is not None else None
    if resource.type == BROKER and resource.name:
        if not _BROKER_ID.fullmatch(resource.name) or int(resource.name) > MAX_INT:
            text = f"a broker's name is its id or empty, not {resource.name!r}"
            return Problem(ErrorCode.INVALID_REQUEST, text)
    elif resource.type in (GROUP, CLIENT_METRICS) and not resource.name:
        text = f"configs for all of type {resource_type_name(resource.type)} don't exist"
        return Problem(ErrorCode.INVALID_REQUEST, text)
    return None


def _values_problem(
    view: View, resource: _Resource, now: Mapping[str, str], wanted: Values
) -> Problem | None:
    """Checks all configs of the resource together, those that are not altered included."""
    if resource.type == BROKER:
        # The broker has checked them, and there may be any number.
        return None
    after = {**now, **wanted}
    values = {name: value for name, value in after.items() if value is not None}
    if resource.type == CLIENT_METRICS:
        return client_metrics_problem(values)
    if resource.type == GROUP:
        fault = group_configs_fault(values, view.settings.static_configs)
    else:
        fault = topic_configs_fault(values, now)
    return None if fault is None else Problem(ErrorCode.INVALID_CONFIG, fault)


def _min_insync_problem(view: View, resource: _Resource, wanted: Values) -> Problem | None:
    """With eligible leader replicas `min.insync.replicas` has to be set for all brokers, and only for all."""
    if resource.type != BROKER or MIN_INSYNC_REPLICAS not in wanted:
        return None
    if not view.image.features.level(ELIGIBLE_LEADER_REPLICAS):
        return None
    if resource.name:
        text = f"{MIN_INSYNC_REPLICAS} of a single broker can't be altered while eligible leader replicas are kept"
        return Problem(ErrorCode.INVALID_CONFIG, text)
    if wanted[MIN_INSYNC_REPLICAS] is None:
        text = f"{MIN_INSYNC_REPLICAS} of all brokers can't be removed while eligible leader replicas are kept"
        return Problem(ErrorCode.INVALID_CONFIG, text)
    return None


def _existence_problem(view: View, resource: _Resource) -> Problem | None:
    if resource.type == TOPIC and view.image.topics.named(resource.name) is None:
        text = f"there is no topic {resource.name}"
        return Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if resource.type == BROKER and resource.name:
        node_id = int(resource.name)
        if view.image.brokers.get(node_id) is None and node_id not in view.voter_ids:
            text = f"{node_id} is neither a registered broker nor a controller"
            return Problem(ErrorCode.BROKER_ID_NOT_REGISTERED, text)
    return None


def _operation(name: str, operation: ConfigOperation, value: str | None) -> AlterableConfig:
    return AlterableConfig(name=name, config_operation=operation, value=value)
