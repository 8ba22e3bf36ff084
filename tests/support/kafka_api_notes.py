"""Why stock controllers and ours answer differently, a sentence each; `kafka_apis.py` checks them against the facts."""

from collections.abc import Mapping

_NO_ELR = "We keep no eligible leader replicas: `eligible.leader.replicas.version` stays 0 (docs/explanation/controller.md)."
_MIN_ISR = (
    "The value is the same. A stock controller writes `min.insync.replicas` down for all brokers when it "
    "finalizes `eligible.leader.replicas.version`, which we leave at 0."
)
CALLS: Mapping[str, str] = {
    "describeFeatures": _NO_ELR,
    "to controllers: describeFeatures": _NO_ELR,
    "describeConfigs, topic's default": _MIN_ISR,
    "to controllers: describeConfigs, topic's default": _MIN_ISR,
    "to controllers: describeConfigs, controller": (
        "Our nodes tell what is set in the log, not what is in a node's own configuration."
    ),
}
"""By the call's name in the table."""

KEYS: Mapping[int, str] = {}
"""By API key: none is missing, and the versions are the same."""
