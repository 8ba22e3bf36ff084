"""The form of docs/requirements.toml: what is refused, and which named tests are missing."""

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


def test_clauses_are_read(tmp_path: Path) -> None:
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
def test_an_error_is_refused(tmp_path: Path, clauses: list[str], what: str) -> None:
    with pytest.raises(rows.WrongRows, match=what):
        sections(tmp_path, *clauses)


@pytest.mark.parametrize(
    ("named", "missing"),
    [
        ("tests/test_a.py::test_here", False),
        ("tests/test_a.py::test_here[any-parameter::1]", False),
        ("tests/test_a.py::TestClass::test_inside", False),
        ("tests/test_a.py::test_inside", True),
        ("tests/test_a.py::TestOther::test_inside", True),
        ("tests/test_a.py::test_gone", True),
        ("tests/test_b.py::test_here", True),
    ],
)
def test_a_test_that_does_not_exist_is_named(tmp_path: Path, named: str, missing: bool) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text(
        "def test_here(): ...\nclass TestClass:\n    async def test_inside(self): ...\n"
    )
    listed = sections(tmp_path, CLAUSE.format(id="one", tests=f'["{named}"]'))
    assert rows.missing_tests(tmp_path, listed) == ([f"{named} (R-01)"] if missing else [])


@pytest.mark.parametrize(
    ("marks", "unnamed"),
    [
        ("", []),
        ('@pytest.mark.requirement("R-01")', []),
        ('@pytest.mark.requirement("R-01", "R-02")', ["R-02"]),
        ('@pytest.mark.slow\n@pytest.mark.requirement("R-02")', ["R-02"]),
    ],
)
@pytest.mark.parametrize("named", ["test_here", "test_here[one]"])
def test_a_mark_that_no_clause_names_is_found(
    tmp_path: Path, marks: str, unnamed: list[str], named: str
) -> None:
    path = tmp_path / "test_a.py"
    path.write_text(f"{marks}\ndef test_here(): ...\n")
    listed = sections(tmp_path, CLAUSE.format(id="one", tests=f'["test_a.py::{named}"]'))
    found = rows.unnamed_marks(tmp_path, [path], listed)
    assert found == [f"test_a.py::test_here ({row})" for row in unnamed]
