"""Requests of brokers, with what a test does not care about filled in."""

from typing import Any
from uuid import UUID

from quorum_node.controller.feature_levels import SUPPORTED
from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    RegisteredListener,
    SupportedFeatureRange,
)
from support.controller_env import CLUSTER_ID

FEATURES = tuple(
    SupportedFeatureRange(
        name=name, min_supported_version=each.min_level, max_supported_version=each.max_level
    )
    for name, each in SUPPORTED.items()
)


def registration(broker_id: int, incarnation: int = 1, **fields: Any) -> BrokerRegistrationRequest:
    """What a broker sends when it starts; `incarnation` is another one for every process."""
    given: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "incarnation_id": UUID(int=(abs(broker_id) << 64) + incarnation),
        "listeners": (
            RegisteredListener(name="PLAINTEXT", host="here", port=9092, security_protocol=0),
        ),
        "features": FEATURES,
        "rack": None,
        "log_dirs": (UUID(int=(abs(broker_id) << 64) + (1 << 32)),),
    }
    return BrokerRegistrationRequest(broker_id=broker_id, **{**given, **fields})


def heartbeat(broker_id: int, epoch: int, offset: int, **fields: Any) -> BrokerHeartbeatRequest:
    """A heartbeat that wants to be active; `offset` is the last record that the broker has."""
    given: dict[str, Any] = {"want_fence": False, "want_shut_down": False, **fields}
    return BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=offset, **given
    )
