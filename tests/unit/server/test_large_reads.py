"""Large incomplete requests are read in turns, at a bounded rate."""

import asyncio
import struct

import pytest

from quorum_node.server.listener.kafka_listener import KafkaListener
from quorum_node.server.listener.large_reads import (
    BURST_BYTES,
    BYTES_PER_SECOND,
    ENCRYPTED_COST,
    LargeReads,
)
from quorum_node.server.observing.metrics import Metrics
from support.driven_loop import DrivenLoop
from support.listener_settings import listener_settings
from support.ports import free_ports

PIECE_BYTES = 256 << 10


class TimedLoop(DrivenLoop):
    """A turn of the loop takes a millisecond."""

    def turn(self) -> None:
        self.now += 0.001
        self.run_due()


class Flood:
    """A connection that always has another piece."""

    def __init__(self, reads: LargeReads, *, is_encrypted: bool) -> None:
        self._reads = reads
        self._is_encrypted = is_encrypted
        self.pieces = 0
        self.is_read = True

    def stop_reading(self) -> None:
        self.is_read = False

    def read_on(self) -> None:
        self.is_read = True
        self.pieces += 1
        self.has_read()

    def has_read(self) -> None:
        self._reads.has_read(self, PIECE_BYTES, is_encrypted=self._is_encrypted)


def flooded(
    connections: int, turns: int, *, is_encrypted: bool = False
) -> tuple[list[Flood], list[int]]:
    """The connections after so many turns of the loop, and how many pieces were read in each."""
    loop = TimedLoop()
    reads = LargeReads(loop, clock=loop.clock)
    floods = [Flood(reads, is_encrypted=is_encrypted) for _ in range(connections)]
    for each in floods:
        each.has_read()
    counts, before = [], 0
    for _ in range(turns):
        loop.turn()
        read = sum(each.pieces for each in floods)
        counts.append(read - before)
        before = read
    return floods, counts


def test_one_chunk_is_read_per_turn_and_every_connection_is_served() -> None:
    floods, counts = flooded(connections=40, turns=2000)
    assert max(counts) == 1
    pieces = [each.pieces for each in floods]
    assert max(pieces) - min(pieces) <= 1
    assert not any(each.is_read for each in floods), "between two places nothing is read"


@pytest.mark.parametrize("connections", [1, 40])
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_read_rate_is_limited_after_a_burst(connections: int, is_encrypted: bool) -> None:
    seconds = 4
    floods, _ = flooded(connections, turns=seconds * 1000, is_encrypted=is_encrypted)
    read = (connections + sum(each.pieces for each in floods)) * PIECE_BYTES
    allowed = (BURST_BYTES + seconds * BYTES_PER_SECOND) / (ENCRYPTED_COST if is_encrypted else 1)
    assert 0.8 * allowed < read < 1.05 * allowed


def test_single_large_request_is_read_without_delay() -> None:
    pieces = (8 << 20) // PIECE_BYTES
    _, counts = flooded(connections=1, turns=pieces)
    assert counts == [1] * pieces


def test_many_large_requests_do_not_block_the_loop() -> None:
    """A real listener: what it takes from sixty connections in one turn of the loop is one piece, once they are large."""

    async def play() -> tuple[int, int]:
        (port,) = free_ports(1)
        settings = listener_settings(port=port, max_request_bytes=8 << 20)
        listener = KafkaListener(
            settings, lambda inbound: None, Metrics(), lambda why, detail, peer: None
        )
        await listener.start()
        writers = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(PEERS)]
        for writer in writers:
            writer.write(struct.pack(">i", 8 << 20) + bytes(FRAME_BYTES))
        grown, before = [], 0
        while before < PEERS * FRAME_BYTES:
            await asyncio.sleep(0)
            grown.append(listener.book.unfinished_bytes - before)
            before += grown[-1]
        for writer in writers:
            writer.close()
        await listener.close(1)
        return max(grown[first_large(grown) :]), len(grown)

    largest, turns = asyncio.run(asyncio.wait_for(play(), 30))
    assert largest <= 2 * PIECE_BYTES, turns


PEERS = 7
FRAME_BYTES = 7 << 20


def first_large(grown: list[int]) -> int:
    """After the turns in which each connection gave its first piece."""
    total = 0
    for number, size in enumerate(grown):
        total += size
        if total >= PEERS * PIECE_BYTES:
            return number + 1
    raise AssertionError(grown)
