"""What differs between two states, row by row. PURE. Owns the comparison; the tables are in `tables.py`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quorum_pipeline.state.tables import STATE_TABLES, Row, StateTable, Tables


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that is there before only, after only, or in both with other values (`fields`: which)."""

    table: str
    key: tuple[object, ...]
    before: Row | None
    after: Row | None

    @property
    def kind(self) -> str:
        """In one word."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    @property
    def fields(self) -> tuple[str, ...]:
        """Columns with another value."""
        before, after = self.before, self.after
        if before is None or after is None:
            return ()
        return tuple(name for name in before if before[name] != after[name])


def differences(before: Tables, after: Tables) -> Iterator[Difference]:
    """Everything, table by table, what is gone last."""
    for table in STATE_TABLES:
        yield from differences_of(table, before.rows(table), after.rows(table))


def differences_of(
    table: StateTable, before: Iterable[Row], after: Iterable[Row]
) -> Iterator[Difference]:
    """Of one table, or of the same part of it: what is gone comes last."""
    was = {tuple(row[name] for name in table.key): row for row in before}
    for row in after:
        key = tuple(row[name] for name in table.key)
        old = was.pop(key, None)
        if old != row:
            yield Difference(table.name, key, old, row)
    for key, row in was.items():
        yield Difference(table.name, key, row, None)
