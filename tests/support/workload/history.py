"""The records of writer and checker as JSON lines: data and encoding only, no checks.

Every write sets the same key to `<number>.<attempt>`: numbers grow by one after each
acknowledgement, a repeat of a write whose outcome is unknown keeps its number. Times are
milliseconds of the monotonic clock, which all processes of one machine share.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

RESOURCE_TYPE = "topic"
RESOURCE_NAME = "workload"
NAME = "number"


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A write that the quorum acknowledged at `offset` in `epoch`."""

    kind: ClassVar[str] = "acknowledged"
    number: int
    attempt: int
    offset: int
    epoch: int
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class Unknown:
    """A write that may have been committed, or may be committed later."""

    kind: ClassVar[str] = "unknown"
    number: int
    attempt: int
    start_ms: float
    end_ms: float
    error: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A write that was certainly not committed: no connection, or a definite refusal."""

    kind: ClassVar[str] = "refused"
    number: int
    attempt: int
    start_ms: float
    end_ms: float
    error: str


@dataclass(frozen=True, slots=True)
class Read:
    """A linearizable read; `end_offset`: exclusive end of the applied records.

    A key that does not exist is read as value None at end offset -1.
    """

    kind: ClassVar[str] = "read"
    value: str | None
    end_offset: int
    start_ms: float
    end_ms: float
    url: str


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """A read without an answer, or whose answer says that it can't be linearizable now."""

    kind: ClassVar[str] = "readFailed"
    start_ms: float
    end_ms: float
    url: str
    error: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The process ended by itself, so the file is complete."""

    kind: ClassVar[str] = "finished"
    end_ms: float


Event = Acknowledged | Unknown | Refused | Read | ReadFailed | Finished
Attempted = Acknowledged | Unknown | Refused

_KINDS: dict[str, type[Event]] = {
    each.kind: each for each in (Acknowledged, Unknown, Refused, Read, ReadFailed, Finished)
}


def encode_value(number: int, attempt: int) -> str:
    return f"{number}.{attempt}"


def decode_value(value: str) -> tuple[int, int]:
    """(number, attempt). Raises ValueError for a value of another origin."""
    number, attempt = value.split(".")
    return int(number), int(attempt)


def encode_event(event: Event) -> str:
    """One line, with its end."""
    return json.dumps({"kind": event.kind, **asdict(event)}) + "\n"


def decode_event(line: str) -> Event:
    document: dict[str, Any] = json.loads(line)
    return _KINDS[document.pop("kind")](**document)


def load(path: Path) -> list[Event]:
    """The whole file; an incomplete last line is ignored."""
    return list(_whole_lines(path.read_text().splitlines(keepends=True)))


def _whole_lines(lines: Iterable[str]) -> Iterator[Event]:
    for line in lines:
        if line.endswith("\n"):
            yield decode_event(line)


class Tail:
    """Follows a file that another process appends to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._cut = b""

    def new_events(self) -> list[Event]:
        """The events since the last call."""
        if not self._path.exists():
            return []
        with open(self._path, "rb") as file:
            file.seek(self._position)
            data = file.read()
        self._position += len(data)
        *lines, self._cut = (self._cut + data).split(b"\n")
        return [decode_event(line.decode()) for line in lines]
