"""The page of known defects: each row names tests, and every test that it names exists."""

import re

import pytest

from support import requirement_marks as marks
from support.source_tree import ROOT

PAGE = ROOT / "docs" / "evidence" / "known-defects.md"
TEST = re.compile(r"`(tests/[\w/]+\.py::\w+)`")
ROWS = [
    line
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| defect |")
]


def test_named_tests_exist() -> None:
    named = {test for row in ROWS for test in TEST.findall(row)}
    assert len(named) > len(ROWS)
    assert [each for each in sorted(named) if not marks.has_test(ROOT, each)] == []


def test_renamed_test_would_be_noticed() -> None:
    assert not marks.has_test(ROOT, "tests/tidy/test_known_defects.py::test_that_was_renamed")
    assert not marks.has_test(ROOT, "tests/tidy/test_removed.py::test_named_tests_exist")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split(" | ")[0][2:40])
def test_row_has_a_defect_a_rule_and_only_test_ids(row: str) -> None:
    defect, rule, tests = row.strip("| ").split(" | ")
    assert defect
    assert rule
    assert all(TEST.fullmatch(each) for each in tests.split("<br>")), tests
