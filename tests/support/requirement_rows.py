"""The rows of docs/requirements.toml: what is required, in clauses, and which tests show each clause.

Owns the form of that file. Must not know results or pytest.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_CLAUSE_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class WrongRows(ValueError):
    """docs/requirements.toml has an error; the message says where."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One observable behaviour that a row requires.

    A test is named by its pytest node id. Without a parameter it stands for all its parameters,
    with one (`test_x[figure-8]`) for that parameter alone.
    """

    id: str  # unique in its row
    text: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    text: str
    clauses: tuple[Clause, ...]

    def tests(self) -> tuple[str, ...]:
        """Each test once, in the order of the clauses."""
        return tuple(dict.fromkeys(test for clause in self.clauses for test in clause.tests))


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    rows: tuple[Row, ...]


def load_sections(path: Path) -> tuple[Section, ...]:
    """Raises `WrongRows` for unknown keys, ids that stand twice, and rows without a clause."""
    data = tomllib.loads(path.read_text())
    sections = tuple(
        Section(part["title"], tuple(_row(path, entry) for entry in part["row"]))
        for part in data["section"]
    )
    ids = [row.id for section in sections for row in section.rows]
    _refuse_doubles(f"{path}: row ids", ids)
    return sections


def _row(path: Path, entry: Mapping[str, object]) -> Row:
    place = f"{path}: {entry.get('id')}"
    _refuse_other_keys(place, entry, {"id", "text", "clause"})
    listed = entry.get("clause", [])
    if not isinstance(listed, list) or not listed:
        raise WrongRows(f"{place} has no [[section.row.clause]]")
    clauses = tuple(_clause(place, each) for each in listed)
    _refuse_doubles(f"{place}: clause ids", [clause.id for clause in clauses])
    return Row(str(entry["id"]), str(entry["text"]), clauses)


def _clause(place: str, entry: Mapping[str, object]) -> Clause:
    _refuse_other_keys(f"{place}, clause {entry.get('id')}", entry, {"id", "text", "tests"})
    identifier, text, tests = str(entry["id"]), str(entry["text"]), entry["tests"]
    if not _CLAUSE_ID.fullmatch(identifier):
        raise WrongRows(f"{place}: {identifier!r} is not made of small letters and hyphens")
    if not isinstance(tests, list) or not all("::" in str(test) for test in tests):
        raise WrongRows(f"{place}, clause {identifier}: tests is a list of pytest node ids")
    _refuse_doubles(f"{place}, clause {identifier}: tests", tests)
    return Clause(identifier, text, tuple(tests))


def _refuse_doubles(what: str, names: Sequence[str]) -> None:
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise WrongRows(f"{what} that stand twice: {', '.join(doubled)}")


def _refuse_other_keys(place: str, entry: Mapping[str, object], known: set[str]) -> None:
    if entry.keys() - known:
        raise WrongRows(f"{place}: unknown keys {', '.join(sorted(entry.keys() - known))}")


def rows_of(sections: Sequence[Section]) -> Iterator[Row]:
    for section in sections:
        yield from section.rows


def rows_by_test(sections: Sequence[Section]) -> dict[str, set[str]]:
    """Name of a test → ids of the rows whose clauses name it."""
    named: dict[str, set[str]] = {}
    for row in rows_of(sections):
        for test in row.tests():
            named.setdefault(test, set()).add(row.id)
    return named


def without_parameter(test: str) -> str:
    """`a.py::C::test_x[p]` → `a.py::C::test_x`. A parameter may hold brackets itself."""
    path, _, inside = test.partition("::")
    return f"{path}::{inside.partition('[')[0]}"
