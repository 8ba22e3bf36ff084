"""A JSON document with a long list, in pieces: joining and sending many MiB at once would block the loop for several milliseconds.

Owns the pieces and how they are sent, one in a turn of the loop. Must not know what the entries are.
"""

import asyncio
from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse
from pydantic import BaseModel

PIECE_BYTES = 64 << 10


class PiecedDocument:
    """The document `{"LIST":[entries], rest}`."""

    def __init__(self, list_name: str) -> None:
        self._list_name = list_name
        self._pieces: list[bytes] = []
        self._parts: list[bytes] = [b'{"', list_name.encode(), b'":[']
        self._part_bytes = sum(map(len, self._parts))
        self._size_bytes = 0
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
        headers = {"content-length": str(self._size_bytes)}
        return StreamingResponse(self._sent(), media_type="application/json", headers=headers)

    def _take(self, part: bytes) -> None:
        self._parts.append(part)
        self._part_bytes += len(part)
        if self._part_bytes >= PIECE_BYTES:
            self._join()

    def _join(self) -> None:
        self._pieces.append(b"".join(self._parts))
        self._size_bytes += self._part_bytes
        self._parts, self._part_bytes = [], 0

    async def _sent(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
            await asyncio.sleep(0)
