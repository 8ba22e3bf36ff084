"""The distribution of a job's records over tasks and executors, for the last line of a command. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol


class TaskRead(Protocol):
    """How many records one task has read, and on which executor."""

    @property
    def executor(self) -> str: ...

    @property
    def records(self) -> int: ...


def distribution(place: str, reads: Sequence[TaskRead]) -> str:
    """Return the distribution as one line. `place`: where the job ran."""
    records = [each.records for each in reads]
    executors = Counter[str]()
    for each in reads:
        executors[each.executor] += each.records
    return (
        f"{place}: {sum(records):,} records in {len(records):,} tasks, {max(records, default=0):,} at most in one"
        f" and {max(executors.values(), default=0):,} on one of {len(executors):,} executors"
    )
