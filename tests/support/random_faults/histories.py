"""What clients observed in a round, and what must hold for it. Pure.

A history has what was sent and acknowledged, what each replica contains at the end, and what a consumer received meanwhile.
Values are unique in a round: `producer|number|padding`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

PartitionName = tuple[str, int]
"""Topic and partition."""
Entry = tuple[int, bytes]
"""Offset and value."""
_SHOWN = 5


@dataclass(slots=True)
class Sent:
    """Records that one producer sent to one partition. `acknowledged`: by offset. `in_order`: by an idempotent producer."""

    producer: str
    partition: PartitionName
    sent: list[bytes] = field(default_factory=list)
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    unplaced: list[bytes] = field(default_factory=list)
    """Acknowledged, without an offset."""
    in_order: bool = True


@dataclass(slots=True)
class Transaction:
    """`committed`: None if its end is unknown. `is_ending`: its producer asked for the commit."""

    committed: bool | None = None
    is_ending: bool = False
    sent: list[tuple[PartitionName, bytes]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Content:
    """What a replica has between the start of its log and its high watermark. `committed`: as a read_committed consumer sees it."""

    start_offset: int
    end_offset: int
    batches: tuple[tuple[int, bytes], ...]
    """End offset and bytes of each batch."""
    everything: tuple[Entry, ...]
    committed: tuple[Entry, ...]


@dataclass(slots=True)
class Round:
    """Everything about one round. `received`: by a stock consumer, in its order; a read_committed one if there are transactions."""

    sent: list[Sent] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    received: dict[PartitionName, list[Entry]] = field(default_factory=dict)
    replicas: dict[PartitionName, dict[int, Content]] = field(default_factory=dict)


def number_of(value: bytes) -> int:
    """The number that a producer gave this record."""
    return int(value.split(b"|")[1])


def problems(history: Round) -> list[str]:
    """All that must not be, in words."""
    found: list[str] = []
    for name, replicas in history.replicas.items():
        found += [f"{_told(name)}: {each}" for each in _differences(replicas)]
    for sent in history.sent:
        for broker_id, content in history.replicas.get(sent.partition, {}).items():
            place = f"{_told(sent.partition)} of {broker_id}, producer {sent.producer}"
            found += [f"{place}: {each}" for each in _of_producer(sent, content)]
    found += _of_transactions(history)
    for name, received in history.received.items():
        for broker_id, content in history.replicas.get(name, {}).items():
            place = f"{_told(name)}, consumer against broker {broker_id}"
            found += [f"{place}: {each}" for each in _of_consumer(received, content)]
    return found


def _told(name: PartitionName) -> str:
    return f"{name[0]}-{name[1]}"


def _differences(replicas: Mapping[int, Content]) -> Iterable[str]:
    """Byte for byte, over the offsets that all replicas have."""
    ends = {broker_id: each.end_offset for broker_id, each in replicas.items()}
    if len(set(ends.values())) > 1:
        yield f"high watermarks differ: {ends}"
    start = max((each.start_offset for each in replicas.values()), default=0)
    first: tuple[int, dict[int, bytes]] | None = None
    for broker_id, content in replicas.items():
        batches = {end: data for end, data in content.batches if end > start}
        if first is None:
            first = broker_id, batches
            continue
        unequal = [
            end for end in sorted({*batches, *first[1]}) if batches.get(end) != first[1].get(end)
        ]
        if unequal:
            yield (
                f"brokers {first[0]} and {broker_id} differ in batches that end at {unequal[:_SHOWN]}"
                f" ({len(unequal)} of {len(batches)})"
            )
        committed = [each for each in replicas[first[0]].committed if each[0] >= start]
        if committed != [each for each in content.committed if each[0] >= start]:
            yield f"brokers {first[0]} and {broker_id} differ in what a read_committed consumer sees"


def _of_producer(sent: Sent, content: Content) -> Iterable[str]:
    log = dict(content.everything)
    lost = [
        offset
        for offset, value in sorted(sent.acknowledged.items())
        if offset >= content.start_offset and log.get(offset) != value
    ]
    if lost:
        yield f"acknowledged records are missing: {len(lost)}, at {lost[:_SHOWN]}"
    prefix = f"{sent.producer}|".encode()
    own = [value for _, value in content.everything if value.startswith(prefix)]
    if not sent.in_order:
        return
    repeated = [value[:40] for value, count in Counter(own).items() if count > 1]
    if repeated:
        yield f"records are there more than once: {len(repeated)}, such as {repeated[:_SHOWN]}"
    numbers = [number_of(each) for each in own]
    if numbers != sorted(numbers):
        at = next(i for i in range(1, len(numbers)) if numbers[i] < numbers[i - 1])
        yield f"records are out of order: {numbers[max(0, at - 2) : at + 2]}"
    # What was deleted is older than everything that is left.
    gone = [
        each
        for each in sent.unplaced
        if numbers and number_of(each) > numbers[0] and each not in own
    ]
    if gone:
        yield f"acknowledged records are missing: {len(gone)}, such as {gone[0][:40]!r}"
    unknown = set(own) - set(sent.sent)
    if unknown:
        yield f"records that nobody sent: {sorted(unknown)[:_SHOWN]}"


def _of_transactions(history: Round) -> Iterable[str]:
    """Each is visible as a whole or not at all, on every replica; what was aborted is not."""
    seen = _visible(history)
    received = {(name, value) for name, entries in history.received.items() for _, value in entries}
    for number, transaction in enumerate(history.transactions):
        brokers = {each for replicas in history.replicas.values() for each in replicas}
        for broker_id in sorted(brokers):
            places = [seen.get((broker_id, *each)) for each in transaction.sent]
            # Without a place: it was never written, or deleted since.
            visible = [each for each in places if each is not None]
            if (
                not transaction.committed
                and True in visible
                and (transaction.committed is False or False in visible)
            ):
                kind = "aborted" if transaction.committed is False else "half of an unfinished"
                yield f"transaction {number}: broker {broker_id} shows {kind} one: {transaction.sent[0]}"
            if transaction.committed and False in visible:
                yield f"transaction {number}: broker {broker_id} hides a committed one: {transaction.sent[0]}"
        if transaction.committed is False and received & set(transaction.sent):
            yield f"transaction {number}: the consumer received an aborted one: {transaction.sent[0]}"


def _visible(history: Round) -> dict[tuple[int, PartitionName, bytes], bool]:
    """Whether a record in a log is visible, by broker, partition and value."""
    seen: dict[tuple[int, PartitionName, bytes], bool] = {}
    for name, replicas in history.replicas.items():
        for broker_id, content in replicas.items():
            committed = set(content.committed)
            for entry in content.everything:
                seen[broker_id, name, entry[1]] = entry in committed
    return seen


def _of_consumer(received: Sequence[Entry], content: Content) -> Iterable[str]:
    """It received in order, once, what is still there; it may have skipped only what was deleted since."""
    offsets = [offset for offset, _ in received]
    back = [(one, other) for one, other in pairwise(offsets) if other <= one]
    if back:
        yield f"the position went back: {back[:_SHOWN]}"
    committed = dict(content.committed)
    kept = {offset: value for offset, value in received if offset >= content.start_offset}
    other = [offset for offset, value in kept.items() if committed.get(offset) != value]
    if other:
        yield f"received records that are not in the log: {len(other)}, at {other[:_SHOWN]}"
    missed = [
        offset
        for offset, _ in content.committed
        if offset >= content.start_offset and offset not in kept
    ]
    if missed:
        yield f"did not receive: {len(missed)} records, at {missed[:_SHOWN]}"
