"""The replica's own committed log as Kafka's record batches.

Only the leader answers Fetch (KIP-595). A reader that is no replica gets the same bytes here from any replica, so many readers need not all
ask the leader. The batches are not decoded, and their checksums are left to the reader. Must not know the route.
"""

from time import perf_counter

from quorum_node.raft.description import ReplicaDescription
from quorum_node.records.batches import PREFIX_BYTES, SPAN
from quorum_node.server.admin.log_reader import ReadableLog
from quorum_node.server.admin.paced import Pace
from quorum_node.server.admin.pieced_document import PIECE_BYTES, Pieces

MEDIA_TYPE = "application/octet-stream"
MAX_BYTES = 1 << 20
MAX_SECONDS = 1.0


async def committed_pieces(
    log: ReadableLog, from_offset: int, high_watermark: int, max_bytes: int, pace: Pace
) -> Pieces:
    """Whole batches from the one that contains `from_offset`, each ending by `high_watermark`; at least one, if there is any.

    Ends with the batch that reaches `max_bytes`, or after MAX_SECONDS. Raises StorageFailure.
    """
    pieces = Pieces()
    offset = from_offset
    began = perf_counter()
    # A snapshot may replace the next records during a pause.
    while log.start_offset <= offset < high_watermark and pieces.size_bytes < max_bytes:
        piece_bytes = min(PIECE_BYTES, max_bytes - pieces.size_bytes)
        piece = log.read(offset, piece_bytes, high_watermark)
        if not piece:
            break
        pieces.add(piece)
        offset = _end_offset(piece)
        if perf_counter() - began >= MAX_SECONDS:
            break
        await pace.rest()
    return pieces


def headers(description: ReplicaDescription, log_start_offset: int) -> dict[str, str]:
    """Whose batches they are, and which offsets it has: as fields of LogPage, but as headers."""
    return {
        "quorum-node-id": str(description.key.id),
        "quorum-high-watermark": str(max(description.high_watermark, 0)),
        "quorum-log-start-offset": str(log_start_offset),
    }


def _end_offset(batches: bytes) -> int:
    """The offset after the last one of whole batches, of which there is at least one."""
    position = end_offset = 0
    while position < len(batches):
        base_offset, length, last_delta = SPAN.unpack_from(batches, position)
        end_offset = base_offset + last_delta + 1
        position += PREFIX_BYTES + length
    return end_offset
