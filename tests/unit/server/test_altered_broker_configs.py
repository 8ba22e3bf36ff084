"""Changes of configs that a broker refuses before it asks a controller, which does not check brokers' configs; as a stock broker does."""

from pathlib import Path
from typing import Any

import pytest

from quorum_node.protocol.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    ReplacedConfig,
    ReplacedResource,
)
from quorum_node.protocol.configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.server.broker.config_checks import joined, refusals, without
from support.coordinating_broker import CoordinatingBroker
from support.finished_search import finished
from support.hosted_replicas import ME

SET, DELETE, APPEND = 0, 1, 2
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def change(
    kind: int, name: str, *changes: tuple[str, str | None], operation: int = SET
) -> AlterConfigsResource:
    configs = tuple(
        AlterableConfig(name=key, config_operation=operation, value=value) for key, value in changes
    )
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def refused(body: Any) -> set[int]:
    found = finished(refusals(ME, body))
    assert all(each.code == ErrorCode.INVALID_REQUEST for each in found.values())
    return set(found)


def is_refused(resource: AlterConfigsResource) -> bool:
    return bool(refused(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)))


@pytest.mark.parametrize(
    "resource",
    [
        change(BROKER, str(ME + 1), ("log.retention.ms", "1")),
        change(BROKER, "x", ("log.retention.ms", "1")),
        change(BROKER, "", ("log.retention.ms", "soon")),
        change(BROKER, str(ME), ("log.segment.bytes", "1")),
        change(BROKER, str(ME), ("log.cleanup.policy", "shred")),
        change(BROKER, str(ME), ("leader.replication.throttled.rate", "-1")),
        change(BROKER, "", ("num.io.threads", "0")),
        change(BROKER, str(ME), ("node.id", "7")),
        change(BROKER, "", ("log.retention.hours", "7")),
        change(BROKER, str(ME), ("ssl.keystore.location", "/a")),
        change(BROKER, "", ("listeners", "PLAINTEXT://:9092")),
        change(BROKER, "", ("listener.name.x.ssl.keystore.location", "/a")),
        change(BROKER, str(ME), ("log.retention.ms", None)),
        change(TOPIC, "t", ("retention.ms", None)),
        change(TOPIC, "t", ("retention.ms", "1"), ("retention.ms", "2")),
        change(LOGGER, str(ME), ("root", "INFO")),
        change(77, "", ("a", "1")),
    ],
)
def test_invalid_changes_are_not_forwarded(resource: AlterConfigsResource) -> None:
    assert is_refused(resource)


@pytest.mark.parametrize(
    "resource",
    [
        change(BROKER, str(ME), ("log.retention.ms", "-1")),
        change(BROKER, "", ("log.retention.ms", " 1000 ")),
        change(BROKER, str(ME), ("leader.replication.throttled.rate", "1000000")),
        change(BROKER, str(ME), ("a.plugin.has.it", "x")),
        change(BROKER, str(ME), ("listeners", "PLAINTEXT://:9092")),
        change(BROKER, str(ME), ("cordoned.log.dirs", "*")),
        change(BROKER, "", ("log.cleaner.enable", "false")),
        change(BROKER, str(ME), ("listener.name.x.ssl.keystore.location", "/a")),
        change(BROKER, str(ME), ("node.id", None), operation=DELETE),
        change(BROKER, "", ("log.cleanup.policy", "compact"), operation=APPEND),
        change(TOPIC, "t", ("retention.ms", "soon")),
        change(METRICS, "a", ("b", "1")),
        change(GROUP, "", ("b", "1")),
    ],
)
def test_other_changes_are_forwarded(resource: AlterConfigsResource) -> None:
    assert not is_refused(resource)


@pytest.mark.virtual_time
async def test_a_broker_answers_without_a_controller_if_nothing_is_left_to_forward(
    tmp_path: Path,
) -> None:
    resource = change(BROKER, "", ("log.retention.ms", "soon"))
    body = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    async with CoordinatingBroker(tmp_path) as broker:
        (result,) = broker.ask(INCREMENTAL_ALTER_CONFIGS, body).responses
    assert (result.error_code, result.resource_type) == (ErrorCode.INVALID_REQUEST, BROKER)
    assert result.error_message.startswith("log.retention.ms: ")


def test_a_resource_that_occurs_twice_is_not_changed_at_all() -> None:
    twice = change(BROKER, "", ("log.retention.ms", "1")), change(BROKER, "", ("a", "1"))
    body = IncrementalAlterConfigsRequest(
        resources=(*twice, change(TOPIC, "t", ("a", "1"))), validate_only=False
    )
    assert refused(body) == {0, 1}


def test_results_keep_the_order_of_the_request() -> None:
    wrong, right = change(BROKER, "7", ("a", "1")), change(TOPIC, "t", ("b", "1"))
    lost = change(GROUP, "g", ("c", "1"))
    body = IncrementalAlterConfigsRequest(resources=(wrong, right, lost), validate_only=True)
    problems = finished(refusals(ME, body))
    part = without(body, problems)
    assert (part.resources, part.validate_only) == ((right, lost), True)
    of_topic = AlterConfigsResult(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, resource_type=TOPIC, resource_name="t"
    )
    answer = joined(body, problems, IncrementalAlterConfigsResponse(responses=(of_topic,)))
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    assert [(each.resource_name, each.error_code) for each in answer.responses] == [
        ("7", ErrorCode.INVALID_REQUEST),
        ("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("g", ErrorCode.UNKNOWN_SERVER_ERROR),
    ]


def test_replaced_configs_are_checked_as_well() -> None:
    def replaced(name: str, value: str | None) -> ReplacedResource:
        configs = (ReplacedConfig(name=name, value=value),)
        return ReplacedResource(resource_type=BROKER, resource_name=str(ME), configs=configs)

    for name, value, is_wrong in (
        ("log.retention.ms", "soon", True),
        ("log.retention.ms", None, True),
        ("log.retention.ms", "1", False),
    ):
        body = AlterConfigsRequest(resources=(replaced(name, value),), validate_only=False)
        assert bool(refused(body)) == is_wrong
    logger = ReplacedResource(resource_type=LOGGER, resource_name=str(ME), configs=())
    body = AlterConfigsRequest(resources=(logger,), validate_only=False)
    assert refused(body) == {0}
    answer = joined(body, {}, None)
    assert isinstance(answer, AlterConfigsResponse)
