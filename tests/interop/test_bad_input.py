"""Wrong requests: a stock controller and ours get the same bytes and answer with the same error codes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import FIRST_PRIVATE_KEY
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
)
from quorum_node.protocol.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.schema.schema import Message
from support.answered_codes import codes
from support.java_quorum import JavaQuorum
from support.local_quorum import LocalQuorum, wait_until
from support.wrong_group_configs import group_and_metrics_configs
from support.wrong_requests import (
    BROKER,
    TABLES,
    TOPIC,
    Controller,
    config,
    identities,
    passed_on,
    topic,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


ControllerPair = tuple[Controller, Controller]
OUR_ID = 101
"""No broker's, as a controller of ours would refuse a broker of its own id."""

STATIC = {
    "log_retention_hours": "48",
    "log_roll_ms": "3600000",
    "log_segment_bytes": "2097152",
    "log_cleanup_policy": "compact,delete",
    "message_max_bytes": "2000000",
    "unclean_leader_election_enable": "true",
}
"""Properties of both controllers: brokers' names of topic configs."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControllerPair]:
    """A stock controller and ours."""
    root = tmp_path_factory.mktemp("both")
    options = {"broker_session_timeout_ms": "600000", **STATIC}
    with (
        JavaQuorum(root / "stock", **options) as java,
        LocalQuorum(root / "ours", 1, first_id=OUR_ID, **options) as quorum,
    ):
        java.start()
        quorum.form()
        java.describe()
        yield (
            Controller(java.leader.port, java.cluster_id),
            Controller(quorum.leader.port, quorum.cluster_id),
        )


@pytest.mark.requirement("KV3-03", "KV3-04", "KV3-05")
def test_invalid_requests_get_the_same_error_codes_from_a_stock_controller(
    pair: ControllerPair,
) -> None:
    stock, ours = pair
    differences = []
    for table in TABLES:
        for theirs, mine in zip(table(stock), table(ours), strict=True):
            expected, got = codes(stock.ask(theirs)), codes(ours.ask(mine))
            if expected != got:
                differences.append(f"{theirs}\n  stock {expected}\n  ours  {got}")
    assert not differences, "\n".join(differences)


def test_configs_of_groups_and_client_metrics_get_the_same_error_codes(
    pair: ControllerPair,
) -> None:
    stock, ours = pair
    differences = []
    for request in group_and_metrics_configs():
        expected, got = codes(stock.ask(request)), codes(ours.ask(request))
        if expected != got:
            differences.append(f"{request}\n  stock {expected}\n  ours  {got}")
    assert not differences, "\n".join(differences)


def test_oversized_list_gets_the_same_error_codes(pair: ControllerPair) -> None:
    """Items are appended in requests that are each allowed."""
    key = "leader.replication.throttled.replicas"

    def alter(operation: int, first: int, count: int) -> list[list[int]]:
        value = ",".join(f"{number:04}:1" for number in range(first, first + count))
        change = AlterableConfig(name=key, config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=(change,))
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        return [[code for _, code in codes(each.ask(request))] for each in pair]

    set_, delete, append, subtract = range(4)
    assert alter(set_, 0, 4_000) == [[0], [0]]
    assert alter(append, 4_000, 680) == [[0], [0]]
    for _ in range(2):
        stock, ours = alter(append, 4_680, 1_000)
        assert ours == stock == [ErrorCode.INVALID_CONFIG]
    assert alter(subtract, 0, 1_000) == [[0], [0]]
    assert alter(append, 4_680, 1_000) == [[0], [0]]
    assert alter(delete, 0, 0) == [[0], [0]]


def test_both_controllers_announce_the_same_apis(pair: ControllerPair) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    stock, ours = [
        {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        for answer in (controller.ask(request) for controller in pair)
        if isinstance(answer, ApiVersionsResponse)
    ]
    assert {key: ours[key] for key in ours if key < FIRST_PRIVATE_KEY} == stock


def test_unauthenticated_clients_get_the_same_responses(pair: ControllerPair) -> None:
    """All fields of them, but for texts, and whole answers in Envelopes."""
    stock, ours = pair
    differences = []
    for table in (identities, passed_on):
        for theirs, mine in zip(table(stock), table(ours), strict=True):
            expected, got = unreported(stock.ask(theirs)), unreported(ours.ask(mine))
            if expected != got:
                differences.append(f"{theirs}\n  stock {expected}\n  ours  {got}")
    assert not differences, "\n".join(differences)


def unreported(message: Message) -> Message:
    """Without the text for people."""
    return replace(message, error_message=None) if hasattr(message, "error_message") else message


def test_configs_are_described_as_by_a_stock_controller(pair: ControllerPair) -> None:
    """Values, sources, synonyms and types, of a new topic and of those that there are."""
    own = config("retention.ms", "1000") + config("preallocate", "TRUE")
    made = CreateTopicsRequest(topics=(topic("described", (1, 2), configs=own),))
    answers = [controller.ask(made) for controller in pair]
    for answer in answers:
        assert isinstance(answer, CreateTopicsResponse)
    stock, ours = [configs_of(each.topics[0].configs) for each in answers]
    assert ours == stock
    for name, value in (("log.roll.hours", "5"), ("compression.type", "zstd")):
        set_for_all_brokers(pair, name, value)
    for kind, name in ((TOPIC, "described"), (TOPIC, "t"), (BROKER, "")):
        for synonyms in (True, False):
            requested = DescribeConfigsResource(resource_type=kind, resource_name=name)
            request = DescribeConfigsRequest(resources=(requested,), include_synonyms=synonyms)
            stock, ours = wait_until(lambda request=request: settled(pair, request), "described")
            assert ours == stock, f"{kind} {name}"


def set_for_all_brokers(pair: ControllerPair, name: str, value: str) -> None:
    change = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=(change,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    for controller in pair:
        assert [code for _, code in codes(controller.ask(request))] == [0]


def settled(pair: ControllerPair, request: DescribeConfigsRequest) -> list[dict[str, Any]] | None:
    """The configs of both controllers; None as long as stock Kafka has not applied the latest change."""
    found = []
    for controller in pair:
        answer = controller.ask(request)
        assert isinstance(answer, DescribeConfigsResponse)
        assert answer.results[0].error_code == 0, answer
        found.append(configs_of(answer.results[0].configs))
    behind = found[0] != found[1] and found[0].get("compression.type") != found[1].get(
        "compression.type"
    )
    return None if behind else found


def configs_of(described: Any) -> dict[str, Any]:
    """By name; the order of a stock controller is that of a hash map."""
    return {each.name: each for each in described}
