"""A client of TLS that sends many small records at once: few of them are read in a turn of the loop, and all of them in the end."""

import asyncio
import socket
import ssl
import threading
from pathlib import Path

import pytest
import uvloop

from quorum_node.server.listener.large_reads import LargeReads
from quorum_node.server.transport.bounded_handshake import RECORDS_AT_ONCE
from quorum_node.server.transport.sliced_transport import in_slices
from support.tls_folder import tls_files
from support.tls_quorum import certificate_of, new_authority

RECORDS = 3000
"""More than the loop reads from a socket at once are not needed: 23 bytes each."""


class Received(asyncio.Protocol):
    """A connection of a server. `pauses`: it stops reading after each piece, until `go_on`."""

    def __init__(self, reads: LargeReads, *, pauses: bool) -> None:
        self._reads, self._pauses = reads, pauses
        self.pieces: list[bytes] = []
        self.more = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = in_slices(transport, asyncio.get_running_loop(), self._reads)

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        self.more.set()
        if self._pauses:
            self.transport.pause_reading()
            asyncio.get_running_loop().call_soon(self.transport.resume_reading)


def send(port: int, client: ssl.SSLContext, parts: list[bytes]) -> None:
    """Each part in a record of its own, all of them in one write."""
    there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = client.wrap_bio(there, here, server_hostname="127.0.0.1")
    with socket.create_connection(("127.0.0.1", port)) as plain:
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(here.read())
                there.write(plain.recv(1 << 16))
        for each in parts:
            session.write(each)
        plain.sendall(here.read())
        plain.recv(1)  # until the server has closed the connection


def play(tmp_path: Path, parts: list[bytes], *, pauses: bool = False) -> list[bytes]:
    """What the server gets at a time."""

    async def run() -> list[bytes]:
        ca = new_authority()
        files = tls_files(tmp_path, certificate_of("member", 1, ca), ca.certificate)
        loop = asyncio.get_running_loop()
        received = Received(LargeReads(loop), pauses=pauses)
        server = await loop.create_server(lambda: received, "127.0.0.1", 0, ssl=files.server)
        port = server.sockets[0].getsockname()[1]
        sender = threading.Thread(target=send, args=(port, files.client, parts), daemon=True)
        sender.start()
        wanted = sum(map(len, parts))
        async with asyncio.timeout(60):
            while sum(map(len, received.pieces)) < wanted:
                received.more.clear()
                await received.more.wait()
        received.transport.close()
        await asyncio.to_thread(sender.join)
        server.close()
        return received.pieces

    return uvloop.run(run())


@pytest.mark.parametrize("pauses", [False, True])
def test_few_small_records_are_read_in_a_turn(pauses: bool, tmp_path: Path) -> None:
    parts = [bytes([number % 256]) for number in range(RECORDS)]
    pieces = play(tmp_path, parts, pauses=pauses)
    assert b"".join(pieces) == b"".join(parts)
    assert max(map(len, pieces)) <= RECORDS_AT_ONCE


def test_large_records_are_read_as_they_arrive(tmp_path: Path) -> None:
    parts = [bytes([number]) * (16 << 10) for number in range(200)]
    pieces = play(tmp_path, parts)
    assert b"".join(pieces) == b"".join(parts)
    assert max(map(len, pieces)) > 16 << 10


def test_clients_take_turns(tmp_path: Path) -> None:
    """One connection is read on in a turn of the loop, whatever their number."""
    turns: list[list[int]] = []

    async def run() -> None:
        ca = new_authority()
        files = tls_files(tmp_path, certificate_of("member", 1, ca), ca.certificate)
        loop = asyncio.get_running_loop()
        reads = LargeReads(loop)
        done = asyncio.Event()
        left = 3 * RECORDS

        class Counted(Received):
            def data_received(self, data: bytes) -> None:
                nonlocal left
                super().data_received(data)
                turns[-1].append(len(data))
                left -= len(data)
                if not left:
                    done.set()

        def turn() -> None:
            turns.append([])
            loop.call_soon(turn)

        turn()
        made: list[Counted] = []

        def make() -> Counted:
            made.append(Counted(reads, pauses=False))
            return made[-1]

        server = await loop.create_server(make, "127.0.0.1", 0, ssl=files.server)
        port = server.sockets[0].getsockname()[1]
        parts = [b"x"] * RECORDS
        senders = [
            threading.Thread(target=send, args=(port, files.client, parts), daemon=True)
            for _ in range(3)
        ]
        for sender in senders:
            sender.start()
        async with asyncio.timeout(60):
            await done.wait()
        for each in made:
            each.transport.close()
        for sender in senders:
            await asyncio.to_thread(sender.join)
        server.close()

    uvloop.run(run())
    # In the first turns each of them may be read at once.
    assert sum(len(each) > 2 for each in turns) <= 3
    assert max(map(sum, turns)) <= 3 * RECORDS_AT_ONCE
