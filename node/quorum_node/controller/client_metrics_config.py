"""The configs of a client metrics subscription. PURE.

Owns their names, the checks of their values, and the errors: stock Kafka answers some faults with
INVALID_REQUEST and others with INVALID_CONFIG.
Source: KIP-714, as a stock 4.3 controller answers.
"""

import re
from collections.abc import Mapping

from quorum_node.controller.java_pattern_syntax import java_pattern_fault
from quorum_node.controller.problem import Problem
from quorum_node.controller.topic_config_types import ConfigType, TopicConfig
from quorum_node.protocol.errors import ErrorCode

INTERVAL_MS, METRICS, MATCH = "interval.ms", "metrics", "match"
MATCHED = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What a pattern of `match` can be about."""
_INTERVALS = range(100, 3_600_000 + 1)
"""Valid intervals in milliseconds."""
_INTEGER = TopicConfig(ConfigType.INT, None)
_JAVA_BLANKS = "".join(map(chr, range(33)))
_COMMA = re.compile(r"[ \t\n\v\f\r]*,[ \t\n\v\f\r]*")


def client_metrics_problem(configs: Mapping[str, str]) -> Problem | None:
    """What is wrong with all configs of a subscription together; None if they are valid."""
    for name in configs:
        if name not in (INTERVAL_MS, METRICS, MATCH):
            text = f"a client metrics subscription has no config {name}"
            return Problem(ErrorCode.INVALID_REQUEST, text)
    for name in (METRICS, MATCH):
        if "" in _items(configs.get(name, "")):
            text = f"{name}={configs[name]}: items of the list have to be not empty"
            return Problem(ErrorCode.INVALID_CONFIG, text)
    return _interval_problem(configs.get(INTERVAL_MS)) or _match_problem(configs.get(MATCH, ""))


def _interval_problem(value: str | None) -> Problem | None:
    if value is None:
        return None
    fault = _INTEGER.fault(value)
    if fault is not None:
        return Problem(ErrorCode.INVALID_CONFIG, f"{INTERVAL_MS}={value}: {fault}")
    if int(value) not in _INTERVALS:
        fault = f"it has to be from {_INTERVALS[0]} to {_INTERVALS[-1]}"
        return Problem(ErrorCode.INVALID_REQUEST, f"{INTERVAL_MS}={value}: {fault}")
    return None


def _match_problem(value: str) -> Problem | None:
    for item in _items(value):
        fault = _item_fault(item)
        if fault is not None:
            return Problem(ErrorCode.INVALID_CONFIG, f"{MATCH}: {item}: {fault}")
    return None


def _item_fault(item: str) -> str | None:
    # Equals signs at the end are ignored. There can't be one within the pattern.
    name, *patterns = (part.strip(_JAVA_BLANKS) for part in item.rstrip("=").split("="))
    if len(patterns) != 1 or name not in MATCHED:
        return f"it has to be key=pattern, and the key one of {', '.join(MATCHED)}"
    return java_pattern_fault(patterns[0])


def _items(value: str) -> list[str]:
    """Items of a list. The text of no item is empty."""
    value = value.strip(_JAVA_BLANKS)
    return _COMMA.split(value) if value else []
