"""Reads every replica of a partition back: over the wire as a consumer does, from leader and followers alike, and from its files.

Owns the rules by which a consumer passes over aborted transactions. Source: KIP-98, KIP-392.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from uuid import UUID

from quorum_node.protocol.broker_apis import DATA_FETCH
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchTopic,
)
from quorum_node.protocol.list_offsets import EARLIEST_TIMESTAMP
from quorum_node.records.batches import TRANSACTIONAL_FLAG, Batch, split_batches
from quorum_node.storage.broker.stored_records import decoded_records
from support.random_faults.cluster import Cluster
from support.random_faults.histories import Content, Entry, PartitionName
from support.random_faults.partition_requests import ANY_REPLICA, list_offsets

_PRODUCER = Struct(">43xq")
_ABORT_KEY = b"\0\0\0\0"
_BATCH_BYTES = 1 << 20


class NotReadable(Exception):
    """A replica answers with an error, or not at all."""


def start_offset(cluster: Cluster, broker_id: int, name: PartitionName) -> int:
    """Of a replica's log. Raises NotReadable, or one of NO_ANSWER."""
    answers = list_offsets(cluster, broker_id, {name: -1}, EARLIEST_TIMESTAMP, 0, ANY_REPLICA)
    if answers[name].error_code:
        raise NotReadable(f"start of the log: {ErrorCode(answers[name].error_code).name}")
    return answers[name].offset


def content_of(
    cluster: Cluster, broker_id: int, topic_id: UUID, partition: int, start: int
) -> Content:
    """What a replica serves now, from `start` on, the start of its own log or of the leader's, whichever is later. Raises NotReadable, or one of NO_ANSWER."""
    first = _fetched(cluster, broker_id, topic_id, partition, start, isolation=0)
    batches: list[Batch] = []
    offset, end = start, first.high_watermark
    while offset < end:
        found = _fetched(cluster, broker_id, topic_id, partition, offset, isolation=0)
        more = _whole(found)
        if not more:
            raise NotReadable(f"nothing at {offset}, below the high watermark {end}")
        batches += more
        offset, end = more[-1].header.end_offset, found.high_watermark
    everything = [
        entry for each in batches if not each.header.is_control for entry in _entries(each)
    ]
    return Content(
        first.log_start_offset,
        end,
        tuple((each.header.end_offset, bytes(each.data)) for each in batches),
        tuple(each for each in everything if each[0] >= start),
        tuple(each for each in _committed(cluster, broker_id, topic_id, partition, start) if each[0] >= start),
    )  # fmt: skip


def _committed(
    cluster: Cluster, broker_id: int, topic_id: UUID, partition: int, start: int
) -> Iterator[Entry]:
    """As a read_committed consumer gets it."""
    offset = start
    while True:
        found = _fetched(cluster, broker_id, topic_id, partition, offset, isolation=1)
        batches = _whole(found)
        if not batches:
            return
        yield from visible(batches, found.aborted_transactions or ())
        offset = batches[-1].header.end_offset


def visible(batches: Iterable[Batch], aborted: Iterable[AbortedTransaction]) -> Iterator[Entry]:
    """The records of one answer without those of aborted transactions."""
    waiting = sorted(aborted, key=lambda each: each.first_offset)
    aborting: set[int] = set()
    for batch in batches:
        while waiting and waiting[0].first_offset < batch.header.end_offset:
            aborting.add(waiting.pop(0).producer_id)
        (producer_id,) = _PRODUCER.unpack_from(batch.data)
        if batch.header.is_control:
            if any(each.key == _ABORT_KEY for each in decoded_records(bytes(batch.data))):
                aborting.discard(producer_id)
        elif not (batch.header.attributes & TRANSACTIONAL_FLAG and producer_id in aborting):
            yield from _entries(batch)


def _entries(batch: Batch) -> Iterator[Entry]:
    for each in decoded_records(bytes(batch.data)):
        yield each.offset, each.value or b""


def _whole(found: FetchResponsePartition) -> list[Batch]:
    """The whole batches of an answer: a stock broker may send a part of one at the end."""
    batches, _ = split_batches(found.records or b"")
    return batches


def _fetched(
    cluster: Cluster, broker_id: int, topic_id: UUID, partition: int, offset: int, isolation: int
) -> FetchResponsePartition:
    asked = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=_BATCH_BYTES
    )
    body = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        isolation_level=isolation,
        topics=(FetchTopic(topic_id=topic_id, partitions=(asked,)),),
    )
    answer = cluster.request(broker_id, DATA_FETCH, body)
    assert isinstance(answer, FetchResponse)
    if answer.error_code:
        raise NotReadable(ErrorCode(answer.error_code).name)
    (found,) = answer.responses[0].partitions
    if found.error_code:
        raise NotReadable(f"offset {offset}: {ErrorCode(found.error_code).name}")
    return found


def differences_on_disk(folder: Path, content: Content) -> list[str]:
    """Between the segments in a replica's folder, one after the other, and what it served."""
    stored: dict[int, bytes] = {}
    for path in sorted(folder.glob("*.log")):
        batches, left = split_batches(path.read_bytes())
        if left:
            return [f"{path.name} ends with {left} bytes that are no batch"]
        stored.update((each.header.end_offset, bytes(each.data)) for each in batches)
    served = dict(content.batches)
    kept = {end: data for end, data in stored.items() if content.start_offset < end}
    unequal = [end for end in sorted({*served, *kept}) if served.get(end) != kept.get(end)]
    if unequal:
        return [f"its files differ from what it serves in batches that end at {unequal[:5]}"]
    return []
