"""Large answers over TLS: one slice in a turn of the loop, all of it, in order, and before the connection closes."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from quorum_node.server.transport.sliced_transport import SLICE_BYTES, SlicedTransport, in_slices
from support.tls_folder import tls_files
from support.tls_quorum import certificate_of, new_authority


class Wire(asyncio.Transport):
    """Keeps what is written, and in which turn of the loop."""

    def __init__(self, *, encrypted: bool = True) -> None:
        super().__init__({"ssl_object": object() if encrypted else None})
        self.written = b""
        self.sizes: list[int] = []
        self.ends: list[str] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.ends, "written after the end"
        self.written += bytes(data)
        self.sizes.append(len(data))

    def close(self) -> None:
        self.ends.append("close")

    def abort(self) -> None:
        self.ends.append("abort")

    def is_closing(self) -> bool:
        return bool(self.ends)

    def get_write_buffer_size(self) -> int:
        return 0


LARGE = bytes(range(256)) * (5 * SLICE_BYTES // 512)


def play(env: Callable[[Wire, SlicedTransport], Awaitable[None]]) -> None:
    async def run() -> None:
        wire = Wire()
        transport = in_slices(wire, asyncio.get_running_loop())
        assert isinstance(transport, SlicedTransport)
        await env(wire, transport)

    asyncio.run(run())


async def test_clear_text_connection_uses_no_slicing_transport() -> None:
    wire = Wire(encrypted=False)
    assert in_slices(wire, asyncio.get_running_loop()) is wire


def test_small_writes_are_sent_immediately_and_large_ones_in_slices_per_turn_in_order() -> None:
    async def env(wire: Wire, transport: SlicedTransport) -> None:
        transport.write(b"first")
        assert wire.written == b"first"
        transport.write(LARGE)
        transport.write(b"last")
        assert wire.written == b"first"
        assert transport.get_write_buffer_size() == len(LARGE) + 4
        turns = 0
        while transport.get_write_buffer_size():
            before = sum(wire.sizes)
            await asyncio.sleep(0)
            assert sum(wire.sizes) - before <= SLICE_BYTES
            turns += 1
        assert turns >= len(LARGE) // SLICE_BYTES
        assert wire.written == b"first" + LARGE + b"last"

    play(env)


def test_parts_written_together_stay_in_order() -> None:
    async def env(wire: Wire, transport: SlicedTransport) -> None:
        transport.writelines([b"first", memoryview(LARGE), b"last"])
        assert wire.written == b"first"
        for _ in range(10):
            await asyncio.sleep(0)
        assert wire.written == b"first" + LARGE + b"last"

    play(env)


def test_connection_closes_after_all_data_is_written() -> None:
    async def env(wire: Wire, transport: SlicedTransport) -> None:
        transport.write(LARGE)
        transport.close()
        assert wire.ends == []
        for _ in range(10):
            await asyncio.sleep(0)
        assert (wire.written, wire.ends) == (LARGE, ["close"])

    play(env)


@pytest.mark.parametrize("by", ["this side", "the other side"])
def test_aborted_connection_writes_nothing_more(by: str) -> None:
    async def env(wire: Wire, transport: SlicedTransport) -> None:
        transport.write(LARGE)
        await asyncio.sleep(0)
        wire.abort() if by == "the other side" else transport.abort()
        for _ in range(10):
            await asyncio.sleep(0)
        assert wire.ends == ["abort"]
        assert transport.get_write_buffer_size() == 0
        assert len(wire.written) <= SLICE_BYTES

    play(env)


def test_all_bytes_arrive_over_a_real_connection(tmp_path: Path) -> None:
    async def run() -> None:
        ca = new_authority()
        files = tls_files(tmp_path, certificate_of("member", 1, ca), ca.certificate)
        loop = asyncio.get_running_loop()

        class Answering(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                out = in_slices(transport, loop)
                out.write(LARGE)
                out.write(b"last")
                out.close()

        server = await loop.create_server(Answering, "127.0.0.1", 0, ssl=files.server)
        port = server.sockets[0].getsockname()[1]
        client: ssl.SSLContext = files.client
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client, server_hostname="127.0.0.1"
        )
        assert await reader.read(-1) == LARGE + b"last"
        writer.close()
        server.close()

    uvloop.run(run())
