"""One HTTP/1.1 connection of the recording proxy: parses requests and writes responses.

Owns the framing (h11), and detects a caller that closes the connection while it waits for a response.
"""

import asyncio

import h11
import httpx

_READ_SIZE_BYTES = 65_536
HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"host", b"proxy-connection"}
)


class Connection:
    """The server's side of one accepted connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def request(self) -> tuple[h11.Request, bytes] | None:
        """The next request with its whole body; None after the caller has closed."""
        request: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_READ_SIZE_BYTES))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None
                return request, bytes(body)
            else:
                return None

    async def closed(self) -> None:
        """Return when the caller closes the connection; data that it sends meanwhile is kept for `request`."""
        while data := await self._reader.read(_READ_SIZE_BYTES):
            self._http.receive_data(data)

    async def begin(self, answer: httpx.Response, length_bytes: int | None) -> None:
        """Send status and headers; `length_bytes` if the size of the body is known."""
        headers = [(k, v) for k, v in answer.headers.raw if k.lower() not in HOP_BY_HOP]
        if length_bytes is not None:
            headers = [(k, v) for k, v in headers if k.lower() != b"content-length"]
            headers.append((b"content-length", str(length_bytes).encode()))
        response = h11.Response(status_code=answer.status_code, headers=headers)
        await self._send(self._http.send(response))

    async def data(self, content: bytes) -> None:
        await self._send(self._http.send(h11.Data(data=content)))

    async def end(self) -> None:
        await self._send(self._http.send(h11.EndOfMessage()))

    def next_cycle(self) -> bool:
        """Prepare for another request on the same connection; False if the connection has to be closed."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _send(self, data: bytes | None) -> None:
        if data:
            self._writer.write(data)
            await self._writer.drain()
