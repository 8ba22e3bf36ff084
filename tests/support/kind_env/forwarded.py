"""TLS to a port of a pod through the API server's port forwarding, as `kubectl port-forward` does it.

Owns the frames of the forwarding and TLS inside of them. Without a thread, so that every wait has its timeout where the
caller is. Source: Kubernetes, `pods/portforward`, protocol v4.channel.k8s.io: the first byte of a frame is its channel,
0 for data and 1 for errors; the first frame of each channel names the port.
"""

import io
import ssl
from typing import Any

import websocket

from support.envtest.kube_api import Access

_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_CONNECT_TIMEOUT_S = 10.0


class NotConnected(OSError):
    """The pod can't be reached, or the connection was lost."""


class ForwardedTls:
    """One connection, with as much of a socket as http.client uses. Raises NotConnected, also when a wait is too long."""

    def __init__(self, access: Access, path: str, context: ssl.SSLContext, host: str) -> None:
        """`path`: of the pod's `portforward`, with the port; `host`: the name that the certificate has to have."""
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._named: set[int] = set()
        try:
            self._frames = websocket.create_connection(
                access.url.replace("http", "ws", 1) + path,
                timeout=_CONNECT_TIMEOUT_S,
                subprotocols=[_PROTOCOL],
                header=[f"{name}: {value}" for name, value in access.headers.items()],
                sslopt={"context": access.tls},
                suppress_origin=True,
            )
        except (OSError, websocket.WebSocketException) as error:
            raise NotConnected(f"{path}: {error!r}") from None
        self._tls = context.wrap_bio(self._received, self._to_send, server_hostname=host)
        try:
            self._done("do_handshake")
        except OSError as error:
            self.close()
            raise NotConnected(f"{path}: {error!r}") from None

    def settimeout(self, seconds: float) -> None:
        """Timeout of each wait for a frame."""
        self._frames.settimeout(seconds)

    def sendall(self, content: bytes) -> None:
        self._done("write", content)
        self._flush()

    def makefile(self, mode: str) -> io.BufferedReader:
        """A reader of the received data; closing it leaves the connection open."""
        return io.BufferedReader(_Reading(self))

    def received(self, largest: int) -> bytes:
        """At least one byte, or none at the end."""
        try:
            content: bytes = self._done("read", largest)
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        return content

    def close(self) -> None:
        self._frames.shutdown()  # type: ignore[no-untyped-call]

    def _done(self, name: str, *arguments: object) -> Any:
        """Calls a method of the TLS object until it needs nothing more from the other side."""
        while True:
            try:
                return getattr(self._tls, name)(*arguments)
            except ssl.SSLWantReadError:
                self._flush()
                self._receive()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                raise
            except ssl.SSLError as error:
                raise NotConnected(repr(error)) from None
            finally:
                self._flush()

    def _flush(self) -> None:
        while content := self._to_send.read():
            try:
                self._frames.send_binary(bytes([_DATA]) + content)
            except (OSError, websocket.WebSocketException) as error:
                raise NotConnected(repr(error)) from None

    def _receive(self) -> None:
        """Receive one frame. The end of the forwarding is the end of the TLS stream."""
        try:
            kind, frame = self._frames.recv_data()
        except (OSError, websocket.WebSocketException) as error:
            raise NotConnected(repr(error)) from None
        if kind == websocket.ABNF.OPCODE_CLOSE or not frame:
            self._received.write_eof()
            return
        channel, content = frame[0], frame[1:]
        if channel not in self._named:
            self._named.add(channel)
        elif channel == _ERROR:
            raise NotConnected(content.decode(errors="replace"))
        else:
            self._received.write(content)


class _Reading(io.RawIOBase):
    def __init__(self, connection: ForwardedTls) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._connection.received(len(buffer))
        buffer[: len(content)] = content
        return len(content)
