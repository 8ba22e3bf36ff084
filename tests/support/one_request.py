"""One Kafka-protocol request on a connection of its own, and the answer."""

import socket
import ssl

from quorum_node.protocol.api import Api
from quorum_node.protocol.frames import (
    decode_response,
    encode_request,
    read_frame,
)
from quorum_node.schema.schema import Message

_MAX_ANSWER_BYTES = 64 << 20


def ask(
    address: tuple[str, int],
    api: Api,
    version: int,
    body: Message,
    timeout_seconds: float = 5.0,
    tls: ssl.SSLContext | None = None,
) -> Message:
    """The decoded answer; `tls`: over TLS. Raises OSError, or MalformedMessage."""
    with opened(address, timeout_seconds, tls) as connection:
        connection.sendall(encode_request(api, version, 1, "one-request", body))
        return decode_response(api, version, read_frame(connection.recv, _MAX_ANSWER_BYTES))


def opened(
    address: tuple[str, int], timeout_seconds: float = 5.0, tls: ssl.SSLContext | None = None
) -> socket.socket:
    """A connection. Raises OSError."""
    connection = socket.create_connection(address, timeout_seconds)
    if tls is None:
        return connection
    try:
        return tls.wrap_socket(connection, server_hostname=address[0])
    except OSError:
        connection.close()
        raise
