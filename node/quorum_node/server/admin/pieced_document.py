"""Long answers in pieces: joining and sending many MiB at once would block the loop for several milliseconds.

Owns the pieces and how they are sent, one in a turn of the loop. Must not know what they contain, except for a JSON document with a
long list.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping

from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from quorum_node.server.listener.port import UNREAD

PIECE_BYTES = 64 << 10


def _ignore(size_bytes: int) -> None:
    """The callback without a connection, such as in a test of the app: nothing counts the bytes."""


class Pieces:
    """The body of an answer, in the order in which it is sent."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._pieces: deque[bytes] = deque()
        self._report_unsent: Callable[[int], None] = _ignore

    def add(self, piece: bytes) -> None:
        """Append a piece."""
        self._pieces.append(piece)
        self.size_bytes += len(piece)

    def response(self, media_type: str, headers: Mapping[str, str]) -> StreamingResponse:
        """The complete answer. `headers`: further ones."""
        return _Response(self, media_type, headers)

    def report_unsent(self, report: Callable[[int], None]) -> None:
        """`report` is called with the number of bytes that are not sent yet, before each piece."""
        self._report_unsent = report

    async def sent(self) -> AsyncIterator[bytes]:
        """The pieces; each is dropped when the next one is asked for."""
        left_bytes = self.size_bytes
        while self._pieces:
            self._report_unsent(left_bytes)
            piece = self._pieces.popleft()
            left_bytes -= len(piece)
            yield piece
            await asyncio.sleep(0)


class PiecedDocument:
    """The document `{"LIST":[entries], rest}`."""

    def __init__(self, list_name: str) -> None:
        self._list_name = list_name
        self._pieces = Pieces()
        self._parts: list[bytes] = [b'{"', list_name.encode(), b'":[']
        self._part_bytes = sum(map(len, self._parts))
        self._is_empty = True

    def add(self, entry: bytes) -> None:
        """Append an entry, in JSON."""
        if not self._is_empty:
            self._take(b",")
        self._is_empty = False
        self._take(entry)

    def response(self, rest: BaseModel) -> StreamingResponse:
        """The complete document. `rest`: a model with all other fields; its own list is ignored."""
        fields = rest.model_dump_json(by_alias=True, exclude={self._list_name}).encode()
        self._take(b"]," + fields[1:])
        self._join()
        return self._pieces.response("application/json", {})

    def _take(self, part: bytes) -> None:
        self._parts.append(part)
        self._part_bytes += len(part)
        if self._part_bytes >= PIECE_BYTES:
            self._join()

    def _join(self) -> None:
        self._pieces.add(b"".join(self._parts))
        self._parts, self._part_bytes = [], 0


class _Response(StreamingResponse):
    """Reports to its connection how many bytes of the answer wait for the client."""

    def __init__(self, pieces: Pieces, media_type: str, headers: Mapping[str, str]) -> None:
        with_length = {"content-length": str(pieces.size_bytes), **headers}
        super().__init__(pieces.sent(), media_type=media_type, headers=with_length)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        report: Callable[[int], None] = scope.get(UNREAD, _ignore)
        self._pieces.report_unsent(report)
        try:
            await super().__call__(scope, receive, send)
        finally:
            report(0)
