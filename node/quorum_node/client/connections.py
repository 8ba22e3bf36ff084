"""Connections of the admin client: one request at a time, one connection per server.

Owns sockets. Must not know the content of requests. Any error closes the connection and is an OSError.
"""

import socket
from typing import TypeVar

from quorum_node.client.login import log_in
from quorum_node.client_sasl import ClientSasl
from quorum_node.client_tls import ClientTls
from quorum_node.host_port import HostPort
from quorum_node.protocol.api import Api
from quorum_node.protocol.frames import (
    decode_response,
    encode_request,
    read_frame,
    response_correlation_id,
)
from quorum_node.schema.schema import MalformedMessage, Message

Address = tuple[str, int]
M = TypeVar("M", bound=Message)

_MAX_ANSWER_BYTES = 16 << 20


def shown(address: Address) -> str:
    """The address in a message, an IPv6 one in brackets."""
    return str(HostPort(*address))


class Connections:
    """To be closed by the caller.

    `tls`: every connection starts with a handshake. `sasl`: followed by a login; then calls raise
    AuthenticationFailed as well.
    """

    def __init__(
        self, client_id: str, tls: ClientTls | None = None, sasl: ClientSasl | None = None
    ) -> None:
        self._sasl = sasl
        self._client_id = client_id
        self._tls = tls
        self._open: dict[Address, socket.socket] = {}
        self._correlation_id = 0
        self.sent = 0
        """How many requests may have reached a server. Those without a connection or before a login did not."""

    def close(self) -> None:
        """Close all connections."""
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
        *,
        resend: bool = True,
    ) -> M:
        """The response of a server. Raises OSError.

        `resend`: send it again if a connection from earlier breaks, as servers close connections that are idle for long. Not for a
        change: its first sending may have been carried out.
        """
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
            if not (kept and resend):
                raise
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
            if self._sasl is not None:
                self._log_in(address, self._sasl, timeout_seconds)
        self.sent += 1
        message = self._asked(address, connection, frame, api, version, timeout_seconds)
        assert isinstance(message, answer)
        return message

    def _log_in(self, address: Address, sasl: ClientSasl, timeout_seconds: float) -> None:
        connection, asked = self._open[address], self._correlation_id

        def ask(api: Api, version: int, body: Message) -> Message:
            frame = encode_request(api, version, self._correlation_id, self._client_id, body)
            return self._asked(address, connection, frame, api, version, timeout_seconds)

        try:
            log_in(sasl, ask)
        except BaseException:
            self._drop(address)
            raise
        assert self._correlation_id == asked, "the request that waits has this id"

    def _asked(
        self,
        address: Address,
        connection: socket.socket,
        frame: bytes,
        api: Api,
        version: int,
        timeout_seconds: float,
    ) -> Message:
        connection.settimeout(timeout_seconds)
        connection.sendall(frame)
        try:
            response = read_frame(connection.recv, _MAX_ANSWER_BYTES)
            if response_correlation_id(response) != self._correlation_id:
                raise MalformedMessage("a response to another request")
            return decode_response(api, version, response)
        except MalformedMessage as error:
            self._drop(address)
            raise ConnectionError(
                f"{shown(address)} is not a server of the expected protocol: {error}"
            ) from error

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
