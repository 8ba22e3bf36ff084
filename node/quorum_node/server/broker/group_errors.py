"""Kafka's error codes for the outcomes of a coordinator, which have the same names."""

from quorum_node.coordinator.errors import GroupError
from quorum_node.protocol.errors import ErrorCode

_CODES = {error: ErrorCode[error.name] for error in GroupError}


def group_code(error: GroupError) -> ErrorCode:
    """The code on the wire."""
    return _CODES[error]
