"""The list of what is required, the table made from it, and the rules of `done`."""

import re

import pytest

from support import requirement_rows as rows
from support.source_tree import ROOT

SECTIONS = rows.load_sections(ROOT / "docs" / "requirements.toml")
IDS = [row.id for section in SECTIONS for row in section.rows]
LINE = re.compile(r"^\| (\S+) \| (done|open) \| (.*) ?\|$", re.MULTILINE)


def result(outcome: str, at: str = "2026-01-01T00:00:00+00:00") -> rows.Result:
    return rows.Result(outcome, at, "abc")


def test_nothing_was_removed_from_the_list() -> None:
    counts = {"K595": 32, "K650": 3, "K853": 8, "K631": 13, "KV3": 11, "OP": 9, "SP": 8}
    for prefix, count in counts.items():
        numbers = [f"{prefix}-{number:02}" for number in range(1, count + 1)]
        assert [identifier for identifier in IDS if identifier.startswith(prefix)] == numbers
    assert all(row.text for section in SECTIONS for row in section.rows)


def test_table_has_one_line_per_row_and_names_tests_that_exist() -> None:
    table = (ROOT / "docs" / "requirements.md").read_text()
    lines = LINE.findall(table)
    assert [identifier for identifier, _, _ in lines] == IDS
    for identifier, state, tests in lines:
        named = re.findall(r"`([^`]+)`", tests)
        assert named or state == "open", f"{identifier} is done, and nothing shows it"
        for test in named:
            path, _, function = test.partition("::")
            name = function.split("::")[-1].split("[")[0]
            assert f"def {name}(" in (ROOT / path).read_text(), f"{identifier}: {test} is gone"


@pytest.mark.parametrize(
    ("outcomes", "done"),
    [
        ({}, False),
        ({"a": "passed"}, True),
        ({"a": "passed", "b": "failed"}, False),
        ({"a": "failed"}, False),
        ({"b": "passed"}, True),
        ({"c": "passed"}, False),
    ],
)
def test_done_needs_a_pass_and_no_failure(outcomes: dict[str, str], done: bool) -> None:
    results = {test: result(outcome) for test, outcome in outcomes.items()}
    assert rows.is_done(["a", "b"], results) is done


def test_the_newest_result_counts() -> None:
    early, late = result("passed"), result("failed", "2026-01-02T00:00:00+00:00")
    assert rows.newest({"a": late}, {"a": early}) == {"a": late}
    assert rows.newest({"a": early}, {"a": late}) == {"a": late}
