"""A minimal request of every API, sent by a given node.

Owns making them from the declarations, so that a new API gets one as well. Must not know what a request means.
"""

from dataclasses import replace
from typing import Any

from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import ALTER_PARTITION
from quorum_node.schema.schema import (
    ANY_UUID,
    BOOL,
    FLOAT64,
    STRING,
    UUID_TYPE,
    Array,
    Fixed,
    Message,
    WireType,
)
from quorum_node.schema.source import wire_fields

_KNOWN = {
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "timeout_ms": 1000,
}
"""Of an access control entry of a topic, without which a stock controller closes the connection; configs are those of a topic, too."""
SENDERS = frozenset({"broker_id", "controller_id", "leader_id", "replica_id", "voter_id"})


def body_of(api: Api, node_id: int) -> Message:
    """Every field that may contain the sender has this node's id."""
    return _message(api.request, node_id)


def request_of(api: Api, node_id: int = 1) -> Message:
    """The smallest request that the newest version can encode."""
    body: Any = body_of(api, node_id)
    found: Message = body
    if api is ALTER_PARTITION:  # the newest version has replaced this field
        (topic,) = body.topics
        partition = replace(topic.partitions[0], new_isr=())
        found = replace(body, topics=(replace(topic, partitions=(partition,)),))
    return found


def _message(cls: type[Message], node_id: int) -> Message:
    values: dict[str, Any] = {}
    for name, spec in wire_fields(cls):
        values[name] = node_id if name in SENDERS else _KNOWN.get(name)
        if values[name] is None:
            values[name] = _value(spec.type, node_id)
    return cls(**values)


def _value(kind: WireType, node_id: int) -> Any:
    if kind is BOOL:
        return False
    if kind is FLOAT64:
        return 0.0
    if kind in (UUID_TYPE, ANY_UUID):
        return None
    if kind is STRING:
        return "x"
    if isinstance(kind, Fixed):
        return 0
    if isinstance(kind, Array):
        return (_value(kind.element, node_id),)
    if isinstance(kind, type):
        return _message(kind, node_id)
    return b""
