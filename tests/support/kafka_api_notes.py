"""The reasons why answers of stock controllers and ours differ, one sentence each; `kafka_apis.py` compares them with the facts."""

from collections.abc import Mapping

CALLS: Mapping[str, str] = {
    "to controllers: describeConfigs, controller": (
        "Our nodes report what is set in the log, not what is in a node's own configuration."
    ),
}
"""By the call's name in the table."""

KEYS: Mapping[int, str] = {}
"""By API key: none is missing, and the versions are the same."""
