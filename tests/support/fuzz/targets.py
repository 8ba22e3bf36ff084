"""Fuzz targets: each takes any bytes, and either accepts them or refuses them with an expected exception.

Owns the expected exceptions, and the checks of accepted bytes. Everything else is a finding. Must not know the origin of
the bytes.
"""

import struct
from collections.abc import Callable

from crc32c import crc32c

from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import APIS
from quorum_node.protocol.frames import decode_request, decode_response, read_size
from quorum_node.records.batches import (
    PREFIX_BYTES,
    CorruptBatch,
    decode_records,
    split_batches,
)
from quorum_node.records.control import decode_control, encode_control
from quorum_node.records.metadata import decode_metadata
from quorum_node.records.snapshot_format import CorruptSnapshot, SnapshotReader
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.schema.codec import decode, encode
from quorum_node.schema.primitives import MalformedRecord
from quorum_node.schema.schema import MalformedMessage
from quorum_node.server.transport.frame_cutter import FrameCutter
from quorum_node.server.wire.rpcs import from_wire
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.recovery import scan_segment
from support.fuzz.security_entries import security

MAX_REQUEST_BYTES = 8 << 20
SNAPSHOT = SnapshotId(70, 3)
SERVED: tuple[tuple[Api, int], ...] = tuple(
    (api, version)
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
)
"""Every decoder: the first two bytes of an input choose one."""
REPAIR = 1
"""Flag of the log and snapshot targets: make the checksums right, or the fuzzer gets no further."""

_CRC_AT, _CRC_FROM = 17, 21
_CRC = struct.Struct(">I")


def requests(data: bytes) -> None:
    """Bytes from a client, as a frame: header and body of every API and version."""
    api, version, body = _chosen(data)
    frame = struct.pack(">hhih", api.key, version, 7, -1) + body
    read_size(struct.pack(">i", len(frame)), MAX_REQUEST_BYTES)
    try:
        request = decode_request(frame)
    except MalformedMessage:
        return
    if request.body is not None:
        again = encode(request.body, version)
        assert decode(api.request, version, again) == request.body


def raw_requests(data: bytes) -> None:
    """The same without help: the header is the fuzzer's as well."""
    try:
        decode_request(data)
    except MalformedMessage:
        pass


def stream(data: bytes) -> None:
    """A connection: sizes and frames in pieces, as the first byte says."""
    piece, content = 1 + (data[0] if data else 0), data[1:]
    cutter = FrameCutter(MAX_REQUEST_BYTES)
    taken = 0
    try:
        for start in range(0, len(content), piece):
            cutter.feed(content[start : start + piece])
            while (frame := cutter.next()) is not None:
                taken += 4 + len(frame)
                decode_request(frame)
    except MalformedMessage:
        pass
    assert taken <= len(content)


def responses(data: bytes) -> None:
    """Bytes from a peer: its answer, and the message for the core."""
    api, version, body = _chosen(data)
    head = struct.pack(">i", 7)
    try:
        answer = decode_response(api, version, head + body)
        from_wire(answer, [0, 1])
    except MalformedMessage:
        pass


def log(data: bytes) -> None:
    """Any bytes as a segment on a disk: opened, and every record of it read."""
    content = _content(data)
    try:
        scan = scan_segment(content, 0, 0, "a segment")
    except StorageFailure:
        scan = None
    if scan is not None:
        assert 0 <= scan.valid_bytes <= len(content)
        assert scan.valid_bytes + scan.torn_bytes == len(content)
        _read(content[: scan.valid_bytes])
    _read(content)  # as in a fetch response: not validated yet


def snapshot(data: bytes) -> None:
    """Any bytes as a snapshot on a disk or from a leader, in pieces."""
    content = _content(data)
    reader = SnapshotReader(SNAPSHOT)
    try:
        for start in range(0, len(content), 1000):
            for batch in reader.feed(content[start : start + 1000]):
                if not batch.header.is_control:
                    for record in decode_records(batch):
                        _metadata(record.value)
        bounds = reader.finish()
    except (CorruptSnapshot, CorruptBatch, MalformedRecord):
        return
    assert reader.checked_bytes == len(content)
    if bounds.voters is not None:
        encode_control(bounds.voters)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "requests": requests,
    "raw-requests": raw_requests,
    "stream": stream,
    "responses": responses,
    "log": log,
    "snapshot": snapshot,
    "security": security,
}


def any_target(data: bytes) -> None:
    """All of them in one process: the first byte of an input chooses."""
    names = tuple(TARGETS)
    TARGETS[names[(data[0] if data else 0) % len(names)]](data[1:])


ANY = "any"
RUNNABLE = TARGETS | {ANY: any_target}


def chooser(api: Api, version: int) -> bytes:
    """The first bytes of an input for that decoder."""
    return struct.pack(">H", SERVED.index((api, version)))


def repaired(content: bytes) -> bytes:
    """The same batches with the checksums that their bytes have."""
    fixed = bytearray(content)
    position = 0
    while position + _CRC_FROM <= len(fixed):
        size = PREFIX_BYTES + max(int.from_bytes(fixed[position + 8 : position + 12], "big"), 0)
        end = min(position + size, len(fixed))
        checksum = crc32c(bytes(fixed[position + _CRC_FROM : end]))
        _CRC.pack_into(fixed, position + _CRC_AT, checksum)
        position += size
    return bytes(fixed)


def _chosen(data: bytes) -> tuple[Api, int, bytes]:
    number = int.from_bytes(data[:2], "big")
    api, version = SERVED[number % len(SERVED)]
    return api, version, data[2:]


def _content(data: bytes) -> bytes:
    if data[:1] and data[0] & REPAIR:
        return repaired(data[1:])
    return data[1:]


def _read(content: bytes) -> None:
    try:
        batches, rest_bytes = split_batches(content)
        assert 0 <= rest_bytes <= len(content)
        for batch in batches:
            for record in decode_records(batch):
                if batch.header.is_control:
                    decode_control(record)
                else:
                    _metadata(record.value)
    except (CorruptBatch, MalformedRecord):
        pass


def _metadata(value: bytes | None) -> None:
    if value is not None:
        try:
            decode_metadata(value)
        except MalformedRecord:
            pass
