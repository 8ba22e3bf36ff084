"""Kafka's codes for the outcomes of a coordinator: they have the same names."""

from quorum_node.coordinator.errors import GroupError
from quorum_node.protocol.errors import ErrorCode

_CODES = {error: ErrorCode[error.name] for error in GroupError}


def group_code(error: GroupError) -> ErrorCode:
    """As it stands in an answer."""
    return _CODES[error]
