"""When a clause is shown, stale or open, and what a row needs to be done."""

from pathlib import Path

import pytest

from support import requirement_page as page
from support import requirement_results as results
from support import requirement_rows as rows
from support.requirement_results import FAILED, PASSED, Result, ResultState, State

NOW, BEFORE = "hash-now", "hash-before"
EARLY, LATE = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"


def standing(outcome: str, inputs: str = NOW) -> ResultState:
    return ResultState(Result(outcome, EARLY, inputs), inputs == NOW)


def clause(*tests: str) -> rows.Clause:
    return rows.Clause("a-clause", "It holds.", tests)


@pytest.mark.parametrize(
    ("standings", "state"),
    [
        ({}, State.OPEN),
        ({"a": standing(PASSED)}, State.OPEN),
        ({"a": standing(PASSED), "b": standing(PASSED)}, State.SHOWN),
        ({"a": standing(PASSED), "b": standing(PASSED, BEFORE)}, State.STALE),
        ({"a": standing(PASSED), "b": standing(FAILED)}, State.OPEN),
        ({"a": standing(PASSED), "b": standing(FAILED, BEFORE)}, State.OPEN),
        ({"a": standing(PASSED, BEFORE), "b": results.NEVER_RAN}, State.OPEN),
        ({"c": standing(PASSED)}, State.OPEN),
    ],
)
def test_clause_state_is_that_of_its_worst_test(
    standings: dict[str, ResultState], state: State
) -> None:
    assert results.state_of_clause(clause("a", "b"), standings) is state


def test_clause_without_a_test_is_open() -> None:
    assert results.state_of_clause(clause(), {"a": standing(PASSED)}) is State.OPEN


def test_row_is_done_when_all_its_clauses_are_shown() -> None:
    row = rows.Row("R-01", "Text.", (clause("a"), rows.Clause("other", "Too.", ("b",))))
    standings = {"a": standing(PASSED), "b": standing(PASSED)}
    assert results.is_done(row, standings)
    assert not results.is_done(row, {**standings, "b": standing(PASSED, BEFORE)})
    assert not results.is_done(row, {"a": standing(PASSED)})


class TestParameters:
    def test_clause_is_shown_only_if_all_parameters_passed(self) -> None:
        one = {"t[1]": [Result(PASSED, EARLY, NOW)]}
        assert results.of_all_parameters(["t[1]", "t[2]"], one, NOW) is None
        both = {**one, "t[2]": [Result(PASSED, LATE, NOW)]}
        assert results.of_all_parameters(["t[1]", "t[2]"], both, NOW) == Result(PASSED, EARLY, NOW)

    def test_single_failed_parameter_opens_the_clause(self) -> None:
        mixed = {"t[1]": [Result(PASSED, LATE, NOW)], "t[2]": [Result(FAILED, EARLY, NOW)]}
        found = results.of_all_parameters(["t[1]", "t[2]", "t[3]"], mixed, NOW)
        assert found == Result(FAILED, EARLY, NOW)

    def test_single_older_result_makes_the_clause_stale(self) -> None:
        mixed = {"t[1]": [Result(PASSED, LATE, NOW)], "t[2]": [Result(PASSED, EARLY, BEFORE)]}
        found = results.of_all_parameters(["t[1]", "t[2]"], mixed, NOW)
        assert found is not None
        assert found.inputs == BEFORE

    def test_old_failure_of_a_removed_parameter_is_ignored(self) -> None:
        """`t[3]` is gone from the collection, and so is its failure."""
        every = {
            "t[1]": [Result(PASSED, LATE, NOW)],
            "t[2]": [Result(FAILED, EARLY, BEFORE), Result(PASSED, LATE, NOW)],
            "t[3]": [Result(FAILED, EARLY, BEFORE)],
        }
        found = results.of_all_parameters(["t[1]", "t[2]"], every, NOW)
        assert found == Result(PASSED, LATE, NOW)

    def test_failure_on_other_inputs_does_not_override_a_pass_on_the_present_ones(self) -> None:
        tried = {"t": [Result(PASSED, EARLY, NOW), Result(FAILED, LATE, "hash-of-broken")]}
        assert results.of_all_parameters(["t"], tried, NOW) == Result(PASSED, EARLY, NOW)
        changed = results.of_all_parameters(["t"], tried, "hash-of-later")
        assert changed == Result(FAILED, LATE, "hash-of-broken")


def test_result_on_present_inputs_takes_precedence_over_a_later_one() -> None:
    now, before = Result(PASSED, EARLY, NOW), Result(FAILED, LATE, BEFORE)
    assert results.better(now, before, NOW) == now
    assert results.better(before, now, NOW) == now


def test_later_result_on_the_same_inputs_takes_precedence() -> None:
    green, red = Result(PASSED, EARLY, NOW), Result(FAILED, LATE, NOW)
    assert results.better(green, red, NOW) == red
    at_once = Result(PASSED, LATE, NOW)
    assert results.better(red, at_once, NOW) == at_once
    assert results.better(None, green, NOW) == green
    assert results.better(None, None, NOW) is None


class TestKeptResults:
    def test_stored_results_are_read_back_and_replaced_for_the_same_inputs(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "folder" / "results.json"
        green, red = Result(PASSED, EARLY, NOW), Result(FAILED, LATE, NOW)
        results.add_results(path, {"a": green, "b": green})
        results.add_results(path, {"b": red})
        assert results.load_history(path) == {"a": (green,), "b": (red,)}
        other = Result(PASSED, LATE, "other inputs")
        results.add_results(path, {"a": other})
        assert results.load_history(path) == {"a": (green, other), "b": (red,)}

    def test_results_of_the_last_few_inputs_are_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "results.json"
        for number in range(9):
            results.add_results(path, {"a": Result(PASSED, EARLY, f"inputs {number}")})
        kept = [result.inputs for result in results.load_history(path)["a"]]
        assert kept == [f"inputs {number}" for number in range(5, 9)]

    def test_results_in_the_previous_format_are_old(self, tmp_path: Path) -> None:
        path = tmp_path / "results.json"
        path.write_text('{"a": {"outcome": "passed", "at": "2026-01-01", "commit": "abc"}}')
        (result,) = results.load_results(path).values()
        assert not result.inputs
        assert results.load_history(path) == {"a": (result,)}


SECTIONS = (
    rows.Section(
        "First",
        (
            rows.Row("R-01", "One.", (clause("x.py::a"),)),
            rows.Row("R-02", "Two.", (clause("x.py::b"), rows.Clause("none", "No test.", ()))),
        ),
    ),
    rows.Section("Second", (rows.Row("R-03", "Three.", (clause("x.py::c"),)),)),
)
STANDINGS = {
    "x.py::a": standing(PASSED),
    "x.py::b": standing(PASSED, BEFORE),
    "x.py::c": standing(FAILED),
}


def test_report_ends_with_the_counts() -> None:
    lines = page.render_listing(SECTIONS, STANDINGS).splitlines()
    assert lines[-1] == "1 clause shown, 1 stale, 2 open"
    assert "First: 1 clause shown, 1 stale, 1 open" in lines
    assert "Second: 0 clauses shown, 0 stale, 1 open" in lines
    listed = lines[lines.index("Stale or open") + 1 : lines.index("Stale or open") + 4]
    assert [line.split()[:3] for line in listed] == [
        ["R-02", "stale", "a-clause:"],
        ["R-02", "open", "none:"],
        ["R-03", "open", "a-clause:"],
    ]


def test_page_lists_state_and_tests_of_rows_and_clauses() -> None:
    lines = page.render_page(SECTIONS, STANDINGS).splitlines()
    assert "| R-01 | done | `x.py::a` |" in lines
    assert "| R-02 | open | `x.py::b` |" in lines
    assert "| a-clause | stale | It holds. | `x.py::b` (stale) |" in lines
    assert "| a-clause | open | It holds. | `x.py::c` (failed) |" in lines
    assert "| none | open | No test. |  |" in lines
