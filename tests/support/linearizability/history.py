"""Operations of clients and their results, as data: operations on groups of registers, and the faults meanwhile.

A group is a separate history: no operation concerns two groups. Times are nanoseconds of the monotonic clock of the recording process.
Knows no nodes.
"""

import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

REGISTERS = 2
"""Of each group; the checker knows up to four."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A write or a read of some registers of a group at once. A register never written reads "".

    `open`: a write whose outcome is unknown. It may take effect at any time after its call, or never.
    """

    client: int
    node: int
    write: dict[int, str]
    read: dict[int, str]
    call: int
    return_: int
    open: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, from its injection until it was removed."""

    name: str
    start: int
    end: int


@dataclass(slots=True)
class Group:
    """One history. `name` is the registers' resource as well."""

    name: str
    operations: list[Operation] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    values: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fresh_value(self) -> str:
        """A text that no write of this group ever had."""
        with self._lock:
            self.values += 1
            return f"v{self.values}"

    def add(self, operation: Operation) -> None:
        """Record; any thread."""
        with self._lock:
            self.operations.append(operation)

    def completed(self, *, after: int = 0, before: int | None = None) -> int:
        """Operations with a known outcome that are entirely in that time."""
        with self._lock:
            return sum(
                not each.open and each.call >= after and (before is None or each.return_ <= before)
                for each in self.operations
            )

    def continued_during_a_fault(self) -> bool:
        """Whether there is something before a fault and something after its begin."""
        return any(
            self.completed(before=fault.start) and self.completed(after=fault.start)
            for fault in self.faults
        )


def document(groups: Iterable[Group]) -> list[dict[str, Any]]:
    """The histories as the checker reads them, times counted from the first call of each."""
    found = []
    for group in groups:
        zero = min((each.call for each in group.operations), default=0)
        operations = []
        for each in group.operations:
            fields = {**asdict(each), "call": each.call - zero, "return": each.return_ - zero}
            del fields["return_"]
            operations.append(fields)
        faults = [
            {"name": fault.name, "start": fault.start - zero, "end": fault.end - zero}
            for fault in group.faults
        ]
        found.append({"name": group.name, "operations": operations, "faults": faults})
    return found
