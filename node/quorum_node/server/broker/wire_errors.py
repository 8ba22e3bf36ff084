"""Kafka's error codes for the outcomes of the data path, which have the same names."""

from quorum_node.broker.errors import BrokerError
from quorum_node.protocol.errors import ErrorCode

_CODES = {error: ErrorCode[error.name] for error in BrokerError}


def code_of(error: BrokerError) -> ErrorCode:
    """The code on the wire."""
    return _CODES[error]
