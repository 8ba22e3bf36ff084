"""One Kafka-protocol request on a connection of its own, and the answer."""

import socket

from quorum_node.protocol.api import Api
from quorum_node.protocol.frames import SIZE_BYTES, decode_response, encode_request, read_size
from quorum_node.schema.schema import Message

_MAX_ANSWER_BYTES = 64 << 20


def ask(
    address: tuple[str, int], api: Api, version: int, body: Message, timeout_seconds: float = 5.0
) -> Message:
    """The decoded answer. Raises OSError, or MalformedMessage."""
    with socket.create_connection(address, timeout_seconds) as connection:
        connection.sendall(encode_request(api, version, 1, "one-request", body))
        size = read_size(_receive(connection, SIZE_BYTES), _MAX_ANSWER_BYTES)
        return decode_response(api, version, _receive(connection, size))


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError("closed in the middle of an answer")
        data += more
    return data
