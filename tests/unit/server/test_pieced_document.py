"""A document with a long list is complete, and is sent in pieces, one in a turn of the loop."""

import asyncio
import json

import pytest
from pydantic import BaseModel, Field

from quorum_node.server.admin.pieced_document import PIECE_BYTES, PiecedDocument


class Listed(BaseModel):
    entries: list[str]
    end_offset: int = Field(alias="endOffset")


async def sent(document: PiecedDocument) -> tuple[dict[str, str], list[bytes], int]:
    """Headers, pieces, and the turns of the loop between them."""
    response = document.response(Listed(entries=[], endOffset=7))
    pieces, turns = [], 0

    def count() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(count)

    asyncio.get_running_loop().call_soon(count)
    async for piece in response.body_iterator:
        assert isinstance(piece, bytes)
        pieces.append(piece)
    return dict(response.headers), pieces, turns


@pytest.mark.parametrize("count", [0, 1, 5000])
async def test_document_is_complete_whatever_its_number_of_pieces(count: int) -> None:
    document = PiecedDocument("entries")
    entries = [f"{number:050}" for number in range(count)]
    for each in entries:
        document.add(json.dumps(each).encode())
    headers, pieces, turns = await sent(document)
    whole = b"".join(pieces)
    assert json.loads(whole) == {"entries": entries, "endOffset": 7}
    assert int(headers["content-length"]) == len(whole)
    assert headers["content-type"] == "application/json"
    assert max(map(len, pieces)) < PIECE_BYTES + 100
    assert turns >= len(pieces) - 1
