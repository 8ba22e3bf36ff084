"""Why stock controllers and ours answer differently, a sentence each; `kafka_apis.py` checks them against the facts."""

from collections.abc import Mapping

_NO_ELR = "We keep no eligible leader replicas: `eligible.leader.replicas.version` stays 0 (docs/controller.md)."
_MIN_ISR = (
    "The value is the same. A stock controller writes `min.insync.replicas` down for all brokers when it "
    "finalizes `eligible.leader.replicas.version`, which we leave at 0."
)
_NOT_PLAIN = "Nodes have no SASL listener; who may reach the port is for the network to say."
_TOKENS = (
    "Not served; a broker that has spoken to our controllers doesn't announce it to clients either. "
    "Stock Kafka refuses it, too, where no secret key for tokens is set."
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

KEYS: Mapping[int, str] = {
    17: _NOT_PLAIN,
    36: _NOT_PLAIN,
    38: _TOKENS,
    39: _TOKENS,
    40: _TOKENS,
    41: _TOKENS,
}
"""By API key."""
