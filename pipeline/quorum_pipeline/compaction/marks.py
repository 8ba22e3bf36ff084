"""Marks of combined changes that passed ClearElr records: what they set before and after each of these. PURE, compiled.

A ClearElr record increments the epoch of a partition only if that has eligible leader replicas, or last known ones. The
topic of its name may be unknown in the span, so this can't be decided there. Records between two ClearElr records are a
stretch, counted from the first combined change. A mark says for one stretch which of the two kinds were set last there,
and whether to any brokers; the arrays themselves are needed only once, as only the last ones can remain. A stretch
without such a change has no mark. Owns marks, their encoding, and clearing a partition whose later changes have already
been applied. Source: KIP-966, "ClearElrRecord".
"""

from quorum_pipeline.compaction import columns as c
from quorum_pipeline.compaction.values import ABSENT, array_count, put_uvarint, uvarint
from quorum_pipeline.compiled import Bytes, Numbers, Table, inner
from quorum_pipeline.plain_form import Unusual, int64

ELR_SET, ELR_ANY, LAST_KNOWN_SET, LAST_KNOWN_ANY = 1, 2, 4, 8
"""Bits of a mark: each of the kinds was set, and to at least one broker."""
_ANY, _SET, _BITS = ELR_ANY | LAST_KNOWN_ANY, ELR_SET | LAST_KNOWN_SET, 4
MOST_MARKS = 0xFF
"""Maximum number of marks of a sum, which is encoded in a byte."""
STRETCH, MARK, NEXT_MARK, MARK_COLUMNS = 0, 1, 2, 3
"""Columns of the table of marks: number of the stretch, bits, and the next mark of the same sum or NONE."""


@inner
def mark_of(data: Bytes, elr: int, last_known: int) -> int:
    """Return the mark of a change with these arrays; 0 if it sets neither. Negative: not set."""
    mark = 0
    if elr >= 0:
        mark |= ELR_SET
        if array_count(data, elr) > 0:
            mark |= ELR_ANY
    if last_known >= 0:
        mark |= LAST_KNOWN_SET
        if array_count(data, last_known) > 0:
            mark |= LAST_KNOWN_ANY
    return mark


@inner
def _later(mark: int, then: int) -> int:
    """Return what is known after both."""
    replaced = (then & _SET) * 3
    return mark & ~replaced | then


@inner
def add_mark(marks: Table, last: int, stretch: int, mark: int) -> int:
    """Add a mark behind the mark `last` of the same sum, which may be NONE; return the row of the last one. Raises Unusual."""
    rows = marks.rows
    if last != c.NONE and rows[last, STRETCH] == stretch:
        rows[last, MARK] = _later(rows[last, MARK], mark)
        return last
    row = int64(rows[0, 0]) + 1
    if row >= len(rows):
        raise Unusual
    rows[0, 0] = row
    rows[row, STRETCH], rows[row, MARK], rows[row, NEXT_MARK] = stretch, mark, c.NONE
    if last != c.NONE:
        rows[last, NEXT_MARK] = row
    return row


@inner
def next_mark(data: Bytes, at: int) -> tuple[int, int, int]:
    """Read an encoded mark: the number of stretches since the one before, its bits, and its end."""
    step, at = uvarint(data, at, len(data))
    return step, int64(data[at]), at + 1


@inner
def marks_bytes(marks: Table, row: int) -> int:
    """Maximum number of bytes of a list of marks."""
    size = 0
    before = int64(0)
    while row != c.NONE:
        step = marks.rows[row, STRETCH] - before
        before += step
        size += 2
        while step >= 0x80:
            step >>= 7
            size += 1
        row = marks.rows[row, NEXT_MARK]
    return size


@inner
def write_marks(marks: Table, row: int, to: Bytes, at: int) -> int:
    """Write a list of marks; return its end."""
    before = int64(0)
    while row != c.NONE:
        at = put_uvarint(to, at, marks.rows[row, STRETCH] - before)
        before = marks.rows[row, STRETCH]
        to[at] = marks.rows[row, MARK]
        at += 1
        row = marks.rows[row, NEXT_MARK]
    return at


@inner
def take_marks(data: Bytes, at: int, count: int, clears: int, fields: Numbers) -> None:
    """Note the marks at a position for a partition, before its eligible leader replicas are replaced by the last ones.

    `clears`: number of ClearElr records until here.
    """
    known = 0
    if fields[c.ELR] >= 0:
        known |= ELR_ANY
    if fields[c.LAST_KNOWN_ELR] >= 0:
        known |= LAST_KNOWN_ANY
    fields[c.MARKS_AT], fields[c.MARKS_FROM], fields[c.KNOWN] = at, clears, known
    stretch = int64(0)
    for _ in range(count):
        step, _, at = next_mark(data, at)
        stretch += step
    fields[c.MARKS_UNTIL] = clears + stretch


@inner
def clear_marked(data: Bytes, clears: int, fields: Numbers) -> bool:
    """Clear what the partition had here, not what is set later; return whether it had any. `clears`: number of earlier
    ClearElr records, less than in MARKS_UNTIL.
    """
    at, here = fields[c.MARKS_AT], clears - fields[c.MARKS_FROM]
    last = fields[c.MARKS_UNTIL] - fields[c.MARKS_FROM]
    begin, known = fields[c.KNOWN] >> _BITS, fields[c.KNOWN]
    stretch, later = int64(0), int64(0)
    while stretch < last:
        step, mark, at = next_mark(data, at)
        stretch += step
        if stretch > here:
            later |= mark
        elif stretch >= begin:
            known = _later(known, mark)
    fields[c.KNOWN] = (here + 1) << _BITS
    if not later & ELR_SET:
        fields[c.ELR] = ABSENT
    if not later & LAST_KNOWN_SET:
        fields[c.LAST_KNOWN_ELR] = ABSENT
    return bool(known & _ANY)
