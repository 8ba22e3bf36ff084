"""Updates of eligible leader replicas (ELR) by combined changes on both sides of ClearElr records. PURE, compiled.

A ClearElr record increments the epoch of a partition only if that has eligible leader replicas, or last known ones. The
topic of its name may be unknown in the span, so this can't be decided there. Records between two ClearElr records are an
interval, counted from the first combined change. An ELR update has flags for one interval: which of the two kinds were set last
there, and whether to any brokers; the arrays themselves are needed only once, as only the last ones can remain. An interval
without such a change has no update. Owns the updates, their encoding, and clearing a partition whose later changes have already
been applied. Source: KIP-966, "ClearElrRecord".
"""

from quorum_pipeline.canonical_encoding import Unsupported, int64
from quorum_pipeline.compaction import columns as c
from quorum_pipeline.compaction.values import ABSENT, array_count, put_uvarint, uvarint
from quorum_pipeline.compiled import Bytes, Numbers, Table, inner

ELR_SET, ELR_ANY, LAST_KNOWN_SET, LAST_KNOWN_ANY = 1, 2, 4, 8
"""Flags of an update: each of the kinds was set, and to at least one broker."""
_ANY, _SET, _FLAG_BITS = ELR_ANY | LAST_KNOWN_ANY, ELR_SET | LAST_KNOWN_SET, 4
MAX_ELR_UPDATES = 0xFF
"""Maximum number of updates of a combined change, which is encoded in a byte."""
INTERVAL, FLAGS, NEXT_ELR_UPDATE, ELR_UPDATE_COLUMNS = 0, 1, 2, 3
"""Columns of the table of updates: number of the interval, flags, and the next update of the same combined change or NONE."""


@inner
def elr_flags(data: Bytes, elr: int, last_known: int) -> int:
    """Return the flags of a change with these arrays; 0 if it sets neither. Negative: not set."""
    flags = 0
    if elr >= 0:
        flags |= ELR_SET
        if array_count(data, elr) > 0:
            flags |= ELR_ANY
    if last_known >= 0:
        flags |= LAST_KNOWN_SET
        if array_count(data, last_known) > 0:
            flags |= LAST_KNOWN_ANY
    return flags


@inner
def _combined_flags(flags: int, then: int) -> int:
    """Return what is known after both."""
    replaced = (then & _SET) * 3
    return flags & ~replaced | then


@inner
def add_elr_update(elr_updates: Table, last: int, interval: int, flags: int) -> int:
    """Add an update after the update `last` of the same combined change, which may be NONE; return the row of the last one. Raises Unsupported."""
    rows = elr_updates.rows
    if last != c.NONE and rows[last, INTERVAL] == interval:
        rows[last, FLAGS] = _combined_flags(rows[last, FLAGS], flags)
        return last
    row = int64(rows[0, 0]) + 1
    if row >= len(rows):
        raise Unsupported
    rows[0, 0] = row
    rows[row, INTERVAL], rows[row, FLAGS], rows[row, NEXT_ELR_UPDATE] = interval, flags, c.NONE
    if last != c.NONE:
        rows[last, NEXT_ELR_UPDATE] = row
    return row


@inner
def next_elr_update(data: Bytes, at: int) -> tuple[int, int, int]:
    """Read an encoded update: the number of intervals since the one before, its flags, and its end."""
    step, at = uvarint(data, at, len(data))
    return step, int64(data[at]), at + 1


@inner
def elr_updates_bytes(elr_updates: Table, row: int) -> int:
    """Maximum number of bytes of a list of updates."""
    size = 0
    before = int64(0)
    while row != c.NONE:
        step = elr_updates.rows[row, INTERVAL] - before
        before += step
        size += 2
        while step >= 0x80:
            step >>= 7
            size += 1
        row = elr_updates.rows[row, NEXT_ELR_UPDATE]
    return size


@inner
def write_elr_updates(elr_updates: Table, row: int, to: Bytes, at: int) -> int:
    """Write a list of updates; return its end."""
    before = int64(0)
    while row != c.NONE:
        at = put_uvarint(to, at, elr_updates.rows[row, INTERVAL] - before)
        before = elr_updates.rows[row, INTERVAL]
        to[at] = elr_updates.rows[row, FLAGS]
        at += 1
        row = elr_updates.rows[row, NEXT_ELR_UPDATE]
    return at


@inner
def set_elr_updates(data: Bytes, at: int, count: int, clears: int, fields: Numbers) -> None:
    """Set the position of the updates of a partition, before its eligible leader replicas are replaced by the last ones.

    `clears`: number of ClearElr records until here.
    """
    known = 0
    if fields[c.ELR] >= 0:
        known |= ELR_ANY
    if fields[c.LAST_KNOWN_ELR] >= 0:
        known |= LAST_KNOWN_ANY
    fields[c.ELR_UPDATES_AT], fields[c.ELR_UPDATES_FROM], fields[c.ELR_STATE] = at, clears, known
    interval = int64(0)
    for _ in range(count):
        step, _, at = next_elr_update(data, at)
        interval += step
    fields[c.ELR_UPDATES_UNTIL] = clears + interval


@inner
def clear_earlier_elr(data: Bytes, clears: int, fields: Numbers) -> bool:
    """Clear what the partition had here, not what is set later; return whether it had any. `clears`: number of earlier
    ClearElr records, less than in ELR_UPDATES_UNTIL.
    """
    at, here = fields[c.ELR_UPDATES_AT], clears - fields[c.ELR_UPDATES_FROM]
    last = fields[c.ELR_UPDATES_UNTIL] - fields[c.ELR_UPDATES_FROM]
    begin, known = fields[c.ELR_STATE] >> _FLAG_BITS, fields[c.ELR_STATE]
    interval, later = int64(0), int64(0)
    while interval < last:
        step, flags, at = next_elr_update(data, at)
        interval += step
        if interval > here:
            later |= flags
        elif interval >= begin:
            known = _combined_flags(known, flags)
    fields[c.ELR_STATE] = (here + 1) << _FLAG_BITS
    if not later & ELR_SET:
        fields[c.ELR] = ABSENT
    if not later & LAST_KNOWN_SET:
        fields[c.LAST_KNOWN_ELR] = ABSENT
    return bool(known & _ANY)
