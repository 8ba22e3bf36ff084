"""Topics that the members of a consumer group are subscribed to. PURE.

The only part of the members' metadata that a coordinator reads. Source: KIP-429, "ConsumerProtocolSubscription": an
INT16 version, then an array of topics; later versions only add fields.
"""

from struct import Struct

from quorum_node.coordinator.group import ClassicGroup, GroupState

CONSUMER = "consumer"
"""Protocol type of consumers; other types (Connect) have no topics."""
_VERSION_AND_COUNT = Struct(">hi")
_LENGTH = Struct(">h")


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """The topics; None if unknown: the group is rebalancing, or its members are not consumers."""
    if group.state is GroupState.EMPTY:
        return frozenset()
    if group.protocol_type != CONSUMER or group.protocol is None:
        return None
    found: set[str] = set()
    for member in group.members.values():
        topics = _topics(member.metadata(group.protocol))
        if topics is None:
            return None
        found |= topics
    return frozenset(found)


def _topics(metadata: bytes) -> set[str] | None:
    if len(metadata) < _VERSION_AND_COUNT.size:
        return None
    _, count = _VERSION_AND_COUNT.unpack_from(metadata)
    at, found = _VERSION_AND_COUNT.size, set()
    for _ in range(max(count, 0)):
        if at + _LENGTH.size > len(metadata):
            return None
        (size,) = _LENGTH.unpack_from(metadata, at)
        at += _LENGTH.size
        if size < 0 or at + size > len(metadata):
            return None
        try:
            found.add(metadata[at : at + size].decode())
        except UnicodeDecodeError:
            return None
        at += size
    return found
