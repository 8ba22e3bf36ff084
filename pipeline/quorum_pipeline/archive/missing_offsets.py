"""Finds records that are missing from a range of an archive, or in it twice. PURE.

A range may have ten million records: their offsets are arrays, as a Python number takes several times as much memory.
"""

import numpy as np
import numpy.typing as npt

from quorum_pipeline.archive.layout import OffsetRange


def unexplained(wanted: OffsetRange, kept: npt.ArrayLike, quarantined: npt.ArrayLike) -> int | None:
    """Return the first missing or duplicated offset, except those after a quarantined record. `kept`, `quarantined`: offsets of
    the rows.

    Unreadable data is one row in quarantine and may stand for any number of records: for none if it has the offset of
    the record that follows.
    """
    found = np.sort(np.asarray(kept, np.int64))
    apart = np.unique(np.asarray(quarantined, np.int64))
    places = np.searchsorted(found, apart)
    is_lost = np.searchsorted(found, apart, side="right") == places
    lost = apart[is_lost]
    offsets = np.insert(found, places[is_lost], lost)
    del found
    explains = np.zeros(len(offsets) + 1, np.bool_)
    """Whether records may be missing before the offset at an index: after the one before it."""
    explains[np.searchsorted(offsets, lost) + 1] = True
    steps = np.diff(offsets, prepend=wanted.start - 1)
    wrong = np.flatnonzero((steps < 1) | ((steps > 1) & ~explains[:-1]))
    if len(wrong):
        offset = int(offsets[wrong[0]])
        return min(offset, offset - int(steps[wrong[0]]) + 1)
    expected = int(offsets[-1]) + 1 if len(offsets) else wanted.start
    is_complete = expected == wanted.end or (expected < wanted.end and bool(explains[-1]))
    return None if is_complete else expected
