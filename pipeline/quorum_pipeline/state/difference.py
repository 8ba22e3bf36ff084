"""The differences between two states, row by row. PURE. Owns the comparison; the tables are in `tables.py`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quorum_pipeline.state.tables import STATE_TABLES, Row, StateTable, Tables


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that only one of two states contains, or both with different values (in the columns `fields`)."""

    table: str
    key: tuple[object, ...]
    before: Row | None
    after: Row | None

    @property
    def kind(self) -> str:
        """Kind of the difference: added, removed or changed."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    @property
    def fields(self) -> tuple[str, ...]:
        """Columns with different values; empty if only one state contains the row."""
        before, after = self.before, self.after
        if before is None or after is None:
            return ()
        return tuple(name for name in before if before[name] != after[name])


def differences(before: Tables, after: Tables) -> Iterator[Difference]:
    """Yield all differences, table by table; removed rows come last in each."""
    for table in STATE_TABLES:
        yield from differences_of(table, before.rows(table), after.rows(table))


def differences_of(
    table: StateTable, before: Iterable[Row], after: Iterable[Row]
) -> Iterator[Difference]:
    """Yield the differences of one table, or of the same part of it; removed rows come last."""
    was = {tuple(row[name] for name in table.key): row for row in before}
    for row in after:
        key = tuple(row[name] for name in table.key)
        old = was.pop(key, None)
        if old != row:
            yield Difference(table.name, key, old, row)
    for key, row in was.items():
        yield Difference(table.name, key, row, None)
