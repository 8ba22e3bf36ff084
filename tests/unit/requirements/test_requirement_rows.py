"""The form of docs/requirements.toml, and what is refused."""

from pathlib import Path

import pytest

from support import requirement_rows as rows

ROW = """
[[section]]
title = "S"
[[section.row]]
id = "R-01"
text = "Text."
"""
CLAUSE = """
[[section.row.clause]]
id = "{id}"
text = "Must hold."
tests = {tests}
"""


def sections(folder: Path, *clauses: str) -> tuple[rows.Section, ...]:
    path = folder / "requirements.toml"
    path.write_text(ROW + "".join(clauses))
    return rows.load_sections(path)


def test_clauses_are_parsed(tmp_path: Path) -> None:
    (section,) = sections(tmp_path, CLAUSE.format(id="one", tests='["a.py::b", "a.py::c[1]"]'))
    assert section.rows[0].clauses == (rows.Clause("one", "Must hold.", ("a.py::b", "a.py::c[1]")),)
    assert rows.rows_by_test((section,)) == {"a.py::b": {"R-01"}, "a.py::c[1]": {"R-01"}}


@pytest.mark.parametrize(
    ("clauses", "what"),
    [
        ([], "has no"),
        ([CLAUSE.format(id="one", tests="[]")] * 2, "twice: one"),
        ([CLAUSE.format(id="Not So", tests="[]")], "hyphens"),
        ([CLAUSE.format(id="one", tests='["a.py"]')], "node ids"),
        ([CLAUSE.format(id="one", tests='"a.py::b"')], "node ids"),
        ([CLAUSE.format(id="one", tests='["a.py::b", "a.py::b"]')], "twice: a.py::b"),
        ([CLAUSE.format(id="one", tests="[]") + "test = []"], "unknown keys test"),
    ],
)
def test_invalid_row_is_rejected(tmp_path: Path, clauses: list[str], what: str) -> None:
    with pytest.raises(rows.WrongRows, match=what):
        sections(tmp_path, *clauses)
