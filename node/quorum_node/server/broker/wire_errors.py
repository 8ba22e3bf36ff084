"""Kafka's codes for the outcomes of the data path: they have the same names."""

from quorum_node.broker.errors import BrokerError
from quorum_node.protocol.errors import ErrorCode

_CODES = {error: ErrorCode[error.name] for error in BrokerError}


def code_of(error: BrokerError) -> ErrorCode:
    """As it stands in an answer."""
    return _CODES[error]
