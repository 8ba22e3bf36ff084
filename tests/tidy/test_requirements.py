"""The list of what is required, and the page that is made from it."""

import re

from support import requirement_marks as marks
from support import requirement_rows as rows
from support.source_tree import ROOT, modules

SECTIONS = rows.load_sections(ROOT / "docs" / "requirements.toml")
IDS = [row.id for row in rows.rows_of(SECTIONS)]
LINE = re.compile(r"^\| ([A-Z0-9]+-\d\d) \| (done|open) \| (.*) ?\|$", re.MULTILINE)


def test_no_row_was_removed_from_the_list() -> None:
    counts = {"K595": 32, "K650": 3, "K853": 8, "K631": 13, "KV3": 11, "OP": 11, "SP": 8}
    for prefix, count in counts.items():
        numbers = [f"{prefix}-{number:02}" for number in range(1, count + 1)]
        assert [identifier for identifier in IDS if identifier.startswith(prefix)] == numbers
    assert all(row.text for row in rows.rows_of(SECTIONS))


def test_every_clause_is_one_line() -> None:
    texts = [clause.text for row in rows.rows_of(SECTIONS) for clause in row.clauses]
    assert [text for text in texts if not text.endswith(".") or "\n" in text] == []


def test_named_tests_exist() -> None:
    assert marks.missing_tests(ROOT, SECTIONS) == []


def test_marked_test_is_named_by_a_clause() -> None:
    """Name it in docs/requirements.toml, in the clause that it shows; or drop the mark."""
    tests = [path for path in modules("tests") if path.name.startswith("test_")]
    assert marks.unnamed_marks(ROOT, tests, SECTIONS) == []


def test_named_test_is_marked() -> None:
    """With the row whose clause names it."""
    assert marks.unmarked_tests(ROOT, SECTIONS) == []


def test_page_has_one_line_per_row() -> None:
    """`make requirements` writes it."""
    lines = LINE.findall((ROOT / "docs" / "evidence" / "requirements.md").read_text())
    assert [identifier for identifier, _, _ in lines] == IDS
    for identifier, state, tests in lines:
        assert tests.strip() or state == "open", f"{identifier} is done, but has no test"
