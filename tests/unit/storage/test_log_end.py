"""Where a log ends: what is known decides; where nothing is known, a guess that never takes one flipped bit for a cut."""

import random
import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.records.batches import encode_values
from quorum_node.records.metadata import ConfigRecord, encode_metadata
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.log_end import KnownSynced, Verdict
from quorum_node.storage.one_flipped_bit import is_crc_of_one_flipped_bit
from quorum_node.storage.recovery import scan_segment

PAGE = 4096


def batch(offset: int, value: bytes, epoch: int = 1) -> bytes:
    return encode_values(base_offset=offset, leader_epoch=epoch, timestamp_ms=1, values=[value])


def end_of(content: bytes, synced: KnownSynced | None = None) -> int | None:
    """Where the log ends; None: it is damaged."""
    try:
        known = (
            (content, 0, -1, "segment") if synced is None else (content, 0, -1, "segment", synced)
        )
        return scan_segment(*known).end_offset  # type: ignore[arg-type]
    except StorageFailure:
        return None


# -- what is known


@pytest.mark.parametrize(
    ("known", "offset", "epoch", "verdict"),
    [
        (KnownSynced(), 0, -1, Verdict.UNKNOWN),
        (KnownSynced(proven_offset=5), 4, 1, Verdict.DAMAGE),
        (KnownSynced(proven_offset=5), 5, 1, Verdict.UNKNOWN),
        (KnownSynced(recorded_offset=5, recorded_epoch=1), 4, 1, Verdict.DAMAGE),
        (KnownSynced(recorded_offset=5, recorded_epoch=1), 5, 1, Verdict.NEVER_SYNCED),
        (KnownSynced(recorded_offset=5, recorded_epoch=1), 4, 2, Verdict.UNKNOWN),
        (KnownSynced(recorded_offset=5, recorded_epoch=1), 5, 2, Verdict.NEVER_SYNCED),
        (KnownSynced(7, recorded_offset=5, recorded_epoch=1), 6, 1, Verdict.DAMAGE),
    ],
)
def test_classification_of_the_log_end(
    known: KnownSynced, offset: int, epoch: int, verdict: Verdict
) -> None:
    assert known.verdict(offset, epoch) is verdict


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_log_ends_at_damage_beyond_the_synced_end_and_damage_below_it_is_a_failure(
    data: st.DataObject,
) -> None:
    values = data.draw(st.lists(st.binary(max_size=300), min_size=2, max_size=6))
    batches = [batch(offset, value) for offset, value in enumerate(values)]
    content = b"".join(batches)
    synced = data.draw(st.integers(0, len(batches)))
    synced_bytes = sum(map(len, batches[:synced]))
    known = KnownSynced(recorded_offset=synced, recorded_epoch=1)
    tail = data.draw(st.binary(max_size=len(content) - synced_bytes))
    assert end_of(content[:synced_bytes] + tail, known) == synced
    if synced_bytes:
        at = data.draw(st.integers(0, synced_bytes - 1))
        # The epoch is under no checksum: leader-epoch-checkpoint finds a damaged one.
        flipped = bytearray(content)
        flipped[at] ^= data.draw(st.integers(1, 255))
        ended = end_of(bytes(flipped), known)
        assert ended is None or only_epochs_differ(content, bytes(flipped))


def only_epochs_differ(left: bytes, right: bytes) -> bool:
    position, masked = 0, [bytearray(left), bytearray(right)]
    while position < len(left):
        for content in masked:
            content[position + 12 : position + 16] = bytes(4)
        position += 12 + int(struct.unpack_from(">i", left, position + 8)[0])
    return masked[0] == masked[1]


# -- what is guessed


def values_to_flip() -> list[bytes]:
    record = ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1000")
    return [b"x" * 100 + bytes(2000), bytes(3000), b"", encode_metadata(record), b"v" * 700]


@pytest.mark.requirement("K595-02")
@pytest.mark.parametrize("value", values_to_flip(), ids=len)
@pytest.mark.parametrize("before", [0, 400, 435, 451, 1000])
def test_flipped_bit_of_the_last_batch_is_never_treated_as_a_torn_write(
    value: bytes, before: int
) -> None:
    """Although the file may end in zeros, from a sector's beginning on."""
    first, last = batch(0, b"x" * before), batch(1, value)
    rng = random.Random(before)
    places = [*range(8, 61), *(rng.randrange(61, len(last)) for _ in range(60))]
    for at in places:
        if 12 <= at < 16:
            continue  # the epoch: found by leader-epoch-checkpoint
        content = bytearray(first + last)
        content[len(first) + at] ^= 1 << rng.randrange(8)
        assert end_of(bytes(content)) is None, f"byte {at}"


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize(
    "first", [0, PAGE, 2 * PAGE], ids=["shared page", "next page", "a later one"]
)
@pytest.mark.parametrize("size", [3000, 3900, 4500])
def test_unwritten_pages_are_recognized_as_torn_writes(first: int, size: int) -> None:
    synced = batch(0, b"a" * size)
    content = bytearray(synced + batch(1, b"b" * 9000) + batch(2, b"c" * 3000))
    begin = max(len(synced), len(synced) // PAGE * PAGE + first)
    end = begin // PAGE * PAGE + PAGE
    content[begin:end] = bytes(end - begin)
    assert end_of(bytes(content)) == 1


def test_unwritten_page_far_before_the_end_is_damage() -> None:
    """So much is never unsynced: a sector that reads as zeros, with megabytes of records behind it."""
    batches = [batch(offset, b"v" * (1 << 20)) for offset in range(20)]
    content = bytearray(b"".join(batches))
    hole = len(batches[0]) + 200_000
    content[hole : hole + 2 * PAGE] = bytes(2 * PAGE)
    assert end_of(bytes(content)) is None
    assert end_of(bytes(content[: 9 << 20])) == 1


# -- one flipped bit


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=1, max_size=200), st.integers(0), st.integers(0))
def test_flipped_bit_is_located_by_the_checksum(data: bytes, first: int, second: int) -> None:
    right, bits = crc32c(data), len(data) * 8

    def flipped(*places: int) -> int:
        damaged = bytearray(data)
        for place in places:
            damaged[place // 8] ^= 1 << place % 8
        return crc32c(bytes(damaged)) ^ right

    first, second = first % bits, second % bits
    assert is_crc_of_one_flipped_bit(flipped(first), len(data))
    if first != second:
        assert not is_crc_of_one_flipped_bit(flipped(first, second), len(data))
