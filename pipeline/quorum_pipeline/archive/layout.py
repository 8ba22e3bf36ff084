"""Directories of an archive and the offsets that they hold. PURE.

    records/offsets=START-END/     the records from START on and below END, once each, as Parquet
    records/_writing/              a range until it is complete; any reader of Parquet ignores this name
    records/_merged/               ranges that were merged into others, for readers that have begun with them
    deltas/offsets=START-END/      deltas of parts of these records; valid together with the records
    states/offset=END/             the full state before END; valid once it contains the marker
    quarantine/offsets=START-END/  records of the range that could not be decoded
    snapshots/                     the snapshot before the first record, if the log did not begin at 0

A directory is valid once it contains the marker. A range of records gets its name when all of its files are there, so that a plain
reader of Parquet sees no incomplete one; a store that renames by copying gets the marker afterwards. Rewriting a directory begins with deleting the marker. So a
job may be killed at any moment, and valid directories are complete. Of directories with the same start only the longest is valid: a
merged one replaces its parts when it gets its marker.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from quorum_node.json_text import read_json

MARKER = "_COMPLETE"
RECORDS, QUARANTINE, SNAPSHOTS = "records", "quarantine", "snapshots"
DELTAS, STATES = "deltas", "states"
WRITING, MERGED = "_writing", "_merged"
_DAY_MS = 24 * 60 * 60 * 1000
_CHECKSUM = "crc32"
_MORE = ("delta_rows", "merged", "written_ms")
"""Numbers that a marker contains only if they are not 0."""
_STATE_NAME = re.compile(r"offset=([0-9]{20})")
_NAME = re.compile(r"offsets=([0-9]{20})-([0-9]{20})")


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets from `start` on and below `end`."""

    start: int
    end: int

    @property
    def directory(self) -> str:
        """Directory name; sorts in the order of offsets."""
        return f"offsets={self.start:020d}-{self.end:020d}"

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Marker:
    """Content of a range's marker: numbers of rows in `records`, `quarantine` and `deltas`.

    `merged`: number of directories that were merged into this one, 0 if its records came from a log. `written_ms`: time of
    writing by the clock of the driver; 0 in markers of older versions.
    """

    rows: int
    quarantined: int
    delta_rows: int = 0
    merged: int = 0
    written_ms: int = 0

    def text(self) -> str:
        """Encode the marker as JSON."""
        content = {"rows": self.rows, "quarantined": self.quarantined}
        more = {name: getattr(self, name) for name in _MORE}
        return marker_text(content | {name: number for name, number in more.items() if number})


def parse_marker(text: str) -> Marker:
    """Decode a marker. Raises ValueError."""
    try:
        document = parsed_marker(text)
        more = {name: int(document.get(name, 0)) for name in _MORE}
        numbers = int(document["rows"]), int(document["quarantined"])
        if min(*numbers, *more.values()) < 0:
            raise ValueError(f"{text!r} has a negative number")
        return Marker(*numbers, **more)
    except (KeyError, TypeError):
        raise ValueError(f"{text!r} is not a marker") from None


def marker_text(content: Mapping[str, Any]) -> str:
    """Encode the content of a marker as JSON with a checksum, because readers rely on it."""
    return json.dumps({**content, _CHECKSUM: crc32(json.dumps(content).encode())})


def parsed_marker(text: str) -> dict[str, Any]:
    """Decode the content of a marker; markers of older archives have no checksum. Raises ValueError."""
    document = read_json(text, fraction=_no_fraction)
    if not isinstance(document, dict):
        raise ValueError(f"{text!r} is not a marker")
    checksum = document.pop(_CHECKSUM, None)
    if checksum is not None and checksum != crc32(json.dumps(document).encode()):
        raise ValueError(f"the checksum of {text!r} is wrong")
    return document


def _no_fraction(text: str) -> float:
    """Reject fractions: all numbers of a marker are integers, and 1e999 would be infinite."""
    raise ValueError(f"{text} is no number of a marker")


def parse_directory(name: str) -> OffsetRange | None:
    """The offset range in a directory name; None for any other name."""
    found = _NAME.fullmatch(name)
    if found is None or int(found[1]) >= int(found[2]):
        return None
    return OffsetRange(int(found[1]), int(found[2]))


def state_directory(offset: int) -> str:
    """Directory name; sorts in the order of offsets."""
    return f"offset={offset:020d}"


def parse_state(name: str) -> int | None:
    """The offset in the name of a state's directory; None for any other name."""
    found = _STATE_NAME.fullmatch(name)
    return int(found[1]) if found else None


def tiles(complete: Iterable[OffsetRange]) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """Return the valid ranges, contiguous from the first offset on, and the obsolete ones."""
    by_start: dict[int, OffsetRange] = {}
    every = list(complete)
    for each in every:
        known = by_start.get(each.start)
        if known is None or each.end > known.end:
            by_start[each.start] = each
    counting: list[OffsetRange] = []
    position = min(by_start, default=0)
    while position in by_start:
        counting.append(by_start[position])
        position = counting[-1].end
    counted = set(counting)
    return counting, [each for each in every if each not in counted]


def expired_states(states: Iterable[tuple[int, int]], keep_days: int) -> list[int]:
    """Return the offsets of states that are no longer kept, of states with their offset and the time of their last record (ms).

    All states of the last `keep_days` days up to the newest one are kept, of earlier ones the last of each day (UTC).
    """
    every = sorted(states)
    last = every[-1][1] - keep_days * _DAY_MS if every else 0
    of_day = {time_ms // _DAY_MS: offset for offset, time_ms in every}
    kept = set(of_day.values())
    return [offset for offset, time_ms in every if time_ms < last and offset not in kept]


def merges(counting: Iterable[OffsetRange], target_rows: int) -> list[list[OffsetRange]]:
    """Return groups of at least two adjacent ranges with at most `target_rows` rows together; large ranges are not merged."""
    groups: list[list[OffsetRange]] = []
    size = 0
    for each in counting:
        if groups and size + len(each) <= target_rows:
            groups[-1].append(each)
            size += len(each)
        else:
            groups.append([each])
            size = len(each)
    return [group for group in groups if len(group) > 1]
