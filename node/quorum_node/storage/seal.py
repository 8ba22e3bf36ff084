"""Seals: metadata of a closed, synced segment, so that it does not have to be read again at open.

Owns the `%020d.seal` files. Must not know segments that are being written.

A seal is written only after its segment, and the name of the next one, were synced. Therefore a seal proves two
things after a crash: the segment was durable as the seal describes it, and another segment follows. The seal is
removed, durably, before its segment is truncated. Without a valid, matching seal the segment is scanned. (The
equivalent of Kafka's recovery point, one per segment.)

    {"endOffset":..., "sizeBytes":..., "crc32c":..., "epochStarts":[...], "controlSpans":[...]}\n
    offsets and positions of the sparse index, 8 bytes each, big-endian
    CRC-32C of all of that, 4 bytes
"""

import json
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from quorum_node.json_text import read_json
from quorum_node.storage.atomic_file import read_file, replace_file
from quorum_node.storage.file_system import POSIX, FileSystem

SEAL_SUFFIX = ".seal"
_VERSION = 1
_CRC_BYTES = 4
_ENTRY_BYTES = 8
_JSON = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Seal:
    """Metadata of a closed segment.

    `crc` covers all its bytes, `epoch_starts` begins with its first batch.
    """

    end_offset: int
    size_bytes: int
    crc: int
    epoch_starts: tuple[tuple[int, int], ...]
    control_spans: tuple[tuple[int, int], ...]
    """(position, size in bytes) of every control batch."""
    index_offsets: "array[int]"
    index_positions: "array[int]"


def seal_path(segment_path: Path) -> Path:
    """Path of a segment's seal."""
    return segment_path.with_suffix(SEAL_SUFFIX)


def write_seal(segment_path: Path, seal: Seal, files: FileSystem = POSIX) -> None:
    """Write a seal; it is durable when this returns. Raises StorageFailure or DiskFull."""
    document = {
        "version": _VERSION,
        "endOffset": seal.end_offset,
        "sizeBytes": seal.size_bytes,
        "crc32c": seal.crc,
        "epochStarts": seal.epoch_starts,
        "controlSpans": seal.control_spans,
        "indexEntries": len(seal.index_offsets),
    }
    head = _JSON(document).encode() + b"\n"
    content = head + _big_endian(seal.index_offsets) + _big_endian(seal.index_positions)
    crc = crc32c(content).to_bytes(_CRC_BYTES, "big")
    replace_file(seal_path(segment_path), content + crc, files)


def read_seal(segment_path: Path, files: FileSystem = POSIX) -> Seal | None:
    """The seal of a segment; None if there is no valid one. Raises StorageFailure."""
    content = read_file(seal_path(segment_path), files)
    if content is None or len(content) < _CRC_BYTES:
        return None
    body = content[:-_CRC_BYTES]
    if crc32c(body) != int.from_bytes(content[-_CRC_BYTES:], "big"):
        return None
    head, _, entries = body.partition(b"\n")
    try:
        document = read_json(head)
        count = int(document["indexEntries"])
        if document["version"] != _VERSION or len(entries) != 2 * count * _ENTRY_BYTES:
            return None
        return Seal(
            end_offset=int(document["endOffset"]),
            size_bytes=int(document["sizeBytes"]),
            crc=int(document["crc32c"]),
            epoch_starts=tuple((int(e), int(o)) for e, o in document["epochStarts"]),
            control_spans=tuple((int(p), int(s)) for p, s in document["controlSpans"]),
            index_offsets=_from_big_endian(entries[: count * _ENTRY_BYTES]),
            index_positions=_from_big_endian(entries[count * _ENTRY_BYTES :]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _big_endian(numbers: "array[int]") -> bytes:
    ordered = array("q", numbers)
    if sys.byteorder == "little":
        ordered.byteswap()
    return ordered.tobytes()


def _from_big_endian(data: bytes) -> "array[int]":
    numbers = array("q")
    numbers.frombytes(data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
