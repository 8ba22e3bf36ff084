"""Configs of client metrics subscriptions: which values are accepted, and the codes of the errors."""

import time

import pytest

from quorum_node.controller.client_metrics_config import MATCHED, client_metrics_problem
from quorum_node.controller.configs import incremental_alter_configs
from quorum_node.controller.java_pattern_syntax import MAX_DEPTH, java_pattern_fault
from quorum_node.image.resource_types import CLIENT_METRICS
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.schema.decoder import MAX_STRING_BYTES
from support.controlled_cluster import ControlledCluster

OK, CONFIG, REQUEST = ErrorCode.NONE, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST


def code(name: str, value: str) -> ErrorCode:
    problem = client_metrics_problem({name: value})
    return OK if problem is None else problem.code


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("nope", "1", REQUEST),
        ("interval.ms", "100", OK),
        ("interval.ms", " 3600000 ", OK),
        ("interval.ms", "99", REQUEST),
        ("interval.ms", "3600001", REQUEST),
        ("interval.ms", "-1", REQUEST),
        ("interval.ms", "x", CONFIG),
        ("interval.ms", "", CONFIG),
        ("interval.ms", "3000000000", CONFIG),
        ("metrics", "", OK),
        ("metrics", "*", OK),
        ("metrics", "org.apache.kafka.producer., org.apache.kafka.consumer.", OK),
        ("metrics", "a,a", OK),
        ("metrics", "a,,b", CONFIG),
        ("metrics", ",", CONFIG),
        ("match", "", OK),
        ("match", ",".join(f"{each} = a.*" for each in MATCHED), OK),
        ("match", "client_id=a=", OK),
        ("match", "client_id=a, ", CONFIG),
        ("match", "client_id", CONFIG),
        ("match", "client_id=", CONFIG),
        ("match", "=a", CONFIG),
        ("match", "Client_id=a", CONFIG),
        ("match", "client_id=a=b", CONFIG),
        ("match", "client_id==a", CONFIG),
        ("match", "client_source_port=80,client_id=(", CONFIG),
    ],
)
def test_values_of_a_subscription_are_checked(name: str, value: str, expected: ErrorCode) -> None:
    assert code(name, value) is expected


def test_change_of_a_subscription_is_checked() -> None:
    cluster = ControlledCluster([1])
    cluster.decided.clear()
    for value, expected in (("99", REQUEST), ("x", CONFIG), ("100", OK)):
        config = AlterableConfig(
            name="interval.ms", config_operation=ConfigOperation.SET, value=value
        )
        resource = AlterConfigsResource(
            resource_type=CLIENT_METRICS, resource_name="m", configs=(config,)
        )
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        answer = cluster.ask(incremental_alter_configs, request, IncrementalAlterConfigsResponse)
        assert answer.responses[0].error_code == expected
    assert dict(cluster.image.configs.of(CLIENT_METRICS, "m")) == {"interval.ms": "100"}


VALID_IN_JAVA = (
    "", ".*", "a|", "^*", "a{2}", "a{2,}?", "a{2,3}+", "{2}", "a++", "a??", "}", "]", "(a)\\1",
    "(?<n>a)\\k<n>", "(?i)a", "(?i-s:a)", "(?=a)", "(?!a)b", "(?<!a)b", "(?>a)", "\\p{Alpha}", "\\PL",
    "[a-z&&[^b]]", "[]a]", "[^]a]", "[\\]\\-]", "[a-]", "\\Q[(\\E*", "\\Q[", "a\\Q\\E*", "\\x41", "\\x{1F600}",
    "\\u00e9", "\\07", "\\h\\R\\X\\G", "\\N{DIGIT ONE}", "\\é", "(?x) # (", "\\c\\Q(",
)  # fmt: skip
INVALID_IN_JAVA = (
    "(", ")", "(a))", "[", "[]", "[^]", "[a", "[z-a]", "[[a]", "[\\y]", "[\\b]", "*", "a**", "a{2}**",
    "(*a)", "(?i)*", "a|+", "a{", "a{2", "a{,2}", "a{x}", "a{2,1}", "a{2147483648}", "a{99999999999}",
    "\\", "a\\", "\\y", "\\E", "\\x4", "\\u004", "\\0", "\\08", "\\p{Alpha", "\\k", "\\kn", "(?", "(?P<n>a)",
    "(?<1>a)", "(?<n)", "(?y)", "(?<a",
)  # fmt: skip


@pytest.mark.parametrize("pattern", VALID_IN_JAVA)
def test_pattern_of_java_is_accepted(pattern: str) -> None:
    assert java_pattern_fault(pattern) is None


@pytest.mark.parametrize("pattern", INVALID_IN_JAVA)
def test_text_that_is_no_pattern_of_java_is_refused(pattern: str) -> None:
    assert java_pattern_fault(pattern) is not None


def test_deeply_nested_patterns_are_refused() -> None:
    for opening, closing in (("(", ")"), ("[a", "]")):
        for depth, is_valid in ((MAX_DEPTH, True), (MAX_DEPTH + 1, False)):
            pattern = opening * depth + closing * depth
            assert (java_pattern_fault(pattern) is None) is is_valid


@pytest.mark.parametrize(
    "part", ["a", "(", "[", "\\Q", "\\Qa\\E", "[a]", "{", "a{1,2}", "(?", "\\", "[a&&", "a,"]
)
def test_longest_pattern_is_checked_at_once(part: str) -> None:
    """A value that is read in quadratic time would hold the controller up for longer than an election takes."""
    value = f"client_id={part * MAX_STRING_BYTES}"[:MAX_STRING_BYTES]
    began = time.process_time()
    client_metrics_problem({"match": value})
    assert time.process_time() - began < 1
