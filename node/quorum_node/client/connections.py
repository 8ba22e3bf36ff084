"""Connections of the admin client: one request at a time, one connection per server.

Owns sockets. Must not know what is asked. Any trouble on a connection ends it and is an OSError.
"""

import socket
from typing import TypeVar

from quorum_node.client_tls import ClientTls
from quorum_node.protocol.api import Api
from quorum_node.protocol.frames import (
    SIZE_BYTES,
    decode_response,
    encode_request,
    read_size,
    response_correlation_id,
)
from quorum_node.schema.schema import MalformedMessage, Message

Address = tuple[str, int]
M = TypeVar("M", bound=Message)

_MAX_ANSWER_BYTES = 16 << 20


class Connections:
    """To be closed by whoever made them. `tls`: with it every connection begins with a handshake."""

    def __init__(self, client_id: str, tls: ClientTls | None = None) -> None:
        self._client_id = client_id
        self._tls = tls
        self._open: dict[Address, socket.socket] = {}
        self._correlation_id = 0

    def close(self) -> None:
        """End all of them."""
        for address in list(self._open):
            self._drop(address)

    def ask(
        self,
        address: Address,
        api: Api,
        version: int,
        body: Message,
        answer: type[M],
        timeout_seconds: float,
    ) -> M:
        """The answer of a server. Raises OSError."""
        self._correlation_id += 1
        frame = encode_request(api, version, self._correlation_id, self._client_id, body)
        kept = address in self._open
        try:
            return self._exchange(address, frame, api, version, answer, timeout_seconds)
        except TimeoutError:
            self._drop(address)
            raise
        except OSError:
            self._drop(address)
            if not kept:
                raise
        # A server closes what is idle for long. Every request of this client may arrive twice.
        return self._exchange(address, frame, api, version, answer, timeout_seconds)

    def _exchange(
        self,
        address: Address,
        frame: bytes,
        api: Api,
        version: int,
        answer: type[M],
        timeout_seconds: float,
    ) -> M:
        connection = self._open.get(address)
        if connection is None:
            connection = self._connected(address, timeout_seconds)
            self._open[address] = connection
        connection.settimeout(timeout_seconds)
        connection.sendall(frame)
        try:
            size = read_size(_receive(connection, SIZE_BYTES), _MAX_ANSWER_BYTES)
            response = _receive(connection, size)
            if response_correlation_id(response) != self._correlation_id:
                raise MalformedMessage("an answer to another request")
            message = decode_response(api, version, response)
        except MalformedMessage as error:
            self._drop(address)
            raise ConnectionError(
                f"{address[0]}:{address[1]} is no such server: {error}"
            ) from error
        assert isinstance(message, answer)
        return message

    def _connected(self, address: Address, timeout_seconds: float) -> socket.socket:
        plain = socket.create_connection(address, timeout_seconds)
        if self._tls is None:
            return plain
        try:
            return self._tls.context().wrap_socket(plain, server_hostname=address[0])
        except BaseException:
            plain.close()
            raise

    def _drop(self, address: Address) -> None:
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close()


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError("closed in the middle of an answer")
        data += more
    return bytes(data)
