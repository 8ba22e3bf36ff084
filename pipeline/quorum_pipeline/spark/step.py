"""The step at which a job is: what it does, how much of it is done, how fast, and what is left. Threads may use it.

Owns the text. What tasks will read is known before only of logs, and of running quorums the number of records.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

from quorum_pipeline.files.log_directory import LogSpan
from quorum_pipeline.redaction import redacted

_MB = 1_000_000
_FEW_MB = 10
_MAX_RECORDS = 1 << 60
"""More is no number of records, but an end that stands for all of them."""


class Load(NamedTuple):
    """What a task reads. `records`: None where it is not known before."""

    size_bytes: int = 0
    records: int | None = 0


_NOTHING = Load()


class Step:
    """By default of a job that is between two steps."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._text = ""
        self._tasks = self._done = 0
        self._planned, self._read = _NOTHING, _NOTHING
        self._began = monotonic()

    def describe(self, text: str) -> None:
        """Begin a step. The text is shown without credentials."""
        with self._lock:
            self._text = redacted(text)
            self._start(0, _NOTHING)

    def begin(self, tasks: int, planned: Load = _NOTHING) -> None:
        """Begin a part of the step."""
        with self._lock:
            self._start(tasks, planned)

    def end_task(self, read: Load = _NOTHING) -> None:
        """Count a task, and what it has read."""
        with self._lock:
            self._done += 1
            self._read = _sum((self._read, read))

    def progress(self, tasks: int | None = None, done: int = 0) -> str | None:
        """Describe the step; by default with its own counts, else in proportion to the tasks that are done. None if no task is
        running.
        """
        with self._lock:
            read = self._read
            if tasks is None:
                tasks, done = self._tasks, self._done
            else:
                read = _part(self._planned, done, tasks)
            seconds = monotonic() - self._began
            if not self._text or done >= tasks:
                return None
            parts = [f"{self._text}: {done:,} of {tasks:,} tasks"]
            if self._planned.records and read.records is not None:
                parts.append(f"{read.records:,} of {self._planned.records:,} records")
            if self._planned.size_bytes:
                parts.append(
                    f"{megabytes(read.size_bytes)} of {megabytes(self._planned.size_bytes)}"
                )
                if read.size_bytes and seconds > 0:
                    parts.append(f"{megabytes(int(read.size_bytes / seconds))} a second")
            if done:
                parts.append(f"about {seconds * (tasks - done) / done:,.0f} s left")
            return ", ".join(parts)

    def _start(self, tasks: int, planned: Load) -> None:
        self._tasks, self._done = tasks, 0
        self._planned, self._read = planned, _NOTHING
        self._began = monotonic()


def load_of(items: Iterable[Any]) -> Load:
    """Return what tasks read together. An item is a task, or a tuple with one."""
    return _sum(map(load, items))


def load(item: Any) -> Load:
    """Return what one task reads."""
    parts = item if isinstance(item, tuple) else (item,)
    return _sum(map(_load, parts))


def megabytes(size_bytes: int) -> str:
    """Return a size as a text."""
    digits = 1 if size_bytes < _FEW_MB * _MB else 0
    return f"{size_bytes / _MB:,.{digits}f} MB"


def _load(task: Any) -> Load:
    span = getattr(task, "span", None)
    if not isinstance(span, LogSpan):
        span = None
    size_bytes = getattr(task, "size_bytes", None)
    if size_bytes is None:
        size_bytes = 0 if span is None else span.end_position - span.position
    begins = [getattr(task, name, None) for name in ("start_offset", "start")]
    ends = [getattr(task, name, None) for name in ("end_offset", "end")]
    if span is not None:
        begins.append(span.base_offset)
        ends.append(span.end_offset)
    begin = max((each for each in begins if each is not None), default=None)
    end = min((each for each in ends if each is not None), default=None)
    if begin is None and end is None:
        return Load(size_bytes)  # no span of a log
    if begin is None or end is None or end > _MAX_RECORDS:
        return Load(size_bytes, None)
    return Load(size_bytes, max(end - begin, 0))


def _sum(loads: Iterable[Load]) -> Load:
    size_bytes, records = 0, 0
    is_known = True
    for each in loads:
        size_bytes += each.size_bytes
        is_known = is_known and each.records is not None
        records += each.records or 0
    return Load(size_bytes, records if is_known else None)


def _part(load: Load, done: int, tasks: int) -> Load:
    if not tasks:
        return _NOTHING
    records = None if load.records is None else load.records * done // tasks
    return Load(load.size_bytes * done // tasks, records)
