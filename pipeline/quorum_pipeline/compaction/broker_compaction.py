"""Removes superseded records about brokers and blocks of producer ids. PURE, compiled.

Keeps everything uncertain. It goes from the last record to the first, so superseding records are known without the
state before. A registration supersedes everything earlier about that broker; a change is superseded by later ones of
the same epoch with the same fields. Source: KIP-631, "Broker records", as a stock 4.x controller replays them.
"""

import numpy as np

from quorum_node.records import metadata as md
from quorum_pipeline.canonical_encoding import Unsupported, int32, int64
from quorum_pipeline.compaction import tags
from quorum_pipeline.compaction.columns import UUID_BYTES
from quorum_pipeline.compaction.frames import HEAD_BYTES
from quorum_pipeline.compaction.values import (
    INT8_BYTES,
    INT32_BYTES,
    INT64_BYTES,
    MAX_BYTES,
    array_end,
    check_tags,
    required_array_end,
    tag,
    text_end,
    uvarint,
    word,
)
from quorum_pipeline.compiled import Bytes, Numbers, compiled, inner

_REGISTER = md.RegisterBrokerRecord.RECORD_TYPE
_UNREGISTER = md.UnregisterBrokerRecord.RECORD_TYPE
_CHANGE = md.BrokerRegistrationChangeRecord.RECORD_TYPE
_PRODUCER_IDS = md.ProducerIdsRecord.RECORD_TYPE
_NO_OP = md.NoOpRecord.RECORD_TYPE
_ID_AND_EPOCH_BYTES, _PRODUCER_IDS_BYTES = 12, 20
_BROKERS = 1 << 16
"""Limit of broker ids; records of brokers with greater ids are kept."""
_REGISTERED, _EPOCH, _FIELDS = 0, 1, 2
"""Later records of a broker: whether it was registered or unregistered, and a bit for each field changed in this
epoch.
"""


@inner
def _check_listed(data: Bytes, at: int, end: int, texts: int) -> int:
    """Return the end of an array whose elements are `texts` strings, two numbers of two bytes, and tagged fields."""
    count, at = uvarint(data, at, end)
    if count == 0:
        raise Unsupported
    for _ in range(count - 1):
        for _ in range(texts):
            at = text_end(data, at, end, False)
        tags, at = uvarint(data, at + 4, end)
        last = -1
        for _ in range(tags):
            last, _, at = tag(data, at, end, last)
    return at


@inner
def _check_registration(data: Bytes, at: int, end: int) -> None:
    version = int64(data[at - 1])
    at += INT32_BYTES + (version >= tags.BROKER_MIGRATING_SINCE) + UUID_BYTES + INT64_BYTES
    at = _check_listed(data, at, end, 2)
    at = _check_listed(data, at, end, 1)
    at = text_end(data, at, end, True) + 1 + (version >= tags.BROKER_SHUTDOWN_SINCE)
    check_tags(data, at, end)
    count, at = uvarint(data, at, end)
    last = -1
    for _ in range(count):
        last, at, stop = tag(data, at, end, last)
        has_dirs = last == tags.BROKER_LOG_DIRS and version >= tags.BROKER_LOG_DIRS_SINCE
        if has_dirs and required_array_end(data, at, stop, UUID_BYTES) != stop:
            raise Unsupported
        has_cordoned = (
            last == tags.BROKER_CORDONED_LOG_DIRS and version >= tags.BROKER_CORDONED_SINCE
        )
        if has_cordoned and array_end(data, at, stop, UUID_BYTES) != stop:
            raise Unsupported
        at = stop


@inner
def _fields_set(data: Bytes, at: int, end: int) -> int:
    """Return the fields that a change sets, one bit each."""
    version = int64(data[at - 1])
    count, at = uvarint(data, at + _ID_AND_EPOCH_BYTES, end)
    last, fields = -1, 0
    for _ in range(count):
        last, at, stop = tag(data, at, end, last)
        if last > version or last > tags.BROKER_CHANGE_CORDONED_LOG_DIRS:
            raise Unsupported  # has a field of a newer version
        if last <= tags.BROKER_CHANGE_SHUTDOWN:
            if stop != at + INT8_BYTES:
                raise Unsupported
            is_set = data[at] != 0
        else:
            # The length of a compact array is encoded as one more; 0 is null, which only the second field may be.
            is_required = last == tags.BROKER_CHANGE_LOG_DIRS
            if array_end(data, at, stop, UUID_BYTES) != stop or (is_required and data[at] == 0):
                raise Unsupported
            is_set = data[at] > (1 if is_required else 0)
        if is_set:
            fields |= 1 << last
        at = stop
    if at != end:
        raise Unsupported
    return fields


@inner
def _is_superseded(data: Bytes, at: int, end: int, kind: int, later: Numbers) -> bool:
    """Whether the record of one broker is superseded; updates `later`."""
    superseded = bool(later[_REGISTERED] != 0)
    if kind == _CHANGE:
        fields, epoch = _fields_set(data, at, end), word(data, at + 4)
        if later[_EPOCH] != epoch:
            later[_EPOCH], later[_FIELDS] = epoch, 0
        superseded = superseded or bool(fields & ~later[_FIELDS] == 0)
        later[_FIELDS] |= fields
        return superseded
    if kind == _REGISTER:
        _check_registration(data, at, end)
    else:
        check_tags(data, at + _ID_AND_EPOCH_BYTES, end)
        if data[at + _ID_AND_EPOCH_BYTES]:
            raise Unsupported
    later[_REGISTERED] = 1
    return superseded


@compiled
def compact_broker_records(
    data: Bytes, begins: Numbers, ends: Numbers, kinds: Bytes, kept: Bytes
) -> None:
    """Set `kept` to 0 for records that are superseded or without effect. Raises Unsupported."""
    brokers = np.zeros((_BROKERS, 3), np.int64)
    has_block = False
    for index in range(len(begins) - 1, -1, -1):
        kind, at, end = int64(kinds[index]), begins[index] + HEAD_BYTES, ends[index]
        if end - at > MAX_BYTES:
            continue  # kept, and decoded later
        if kind == _NO_OP:
            check_tags(data, at, end)
            kept[index] = 0
        elif kind == _PRODUCER_IDS:
            if end != at + _PRODUCER_IDS_BYTES + 1 or data[end - 1]:
                raise Unsupported
            kept[index] = not has_block
            has_block = True
        elif kind in (_REGISTER, _UNREGISTER, _CHANGE):
            if end <= at + _ID_AND_EPOCH_BYTES:
                raise Unsupported
            broker = int32(data, at)
            if 0 <= broker < _BROKERS:
                kept[index] = not _is_superseded(data, at, end, kind, brokers[broker])
