"""Pages of evidence that are written by hand: every test that they name exists. Each row of the page of known defects names tests."""

import re

import pytest

from support import requirement_marks as marks
from support.source_tree import ROOT

EVIDENCE = ROOT / "docs" / "evidence"
PAGE = EVIDENCE / "known-defects.md"
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


def test_tests_named_for_the_pipeline_exist() -> None:
    named = set(TEST.findall((EVIDENCE / "pipeline.md").read_text()))
    assert len(named) > 30
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
