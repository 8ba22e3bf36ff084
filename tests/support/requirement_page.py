"""What `make requirements` prints, and docs/evidence/requirements.md: rows, clauses, their states and tests."""

from collections.abc import Iterator, Mapping, Sequence

from support.requirement_results import (
    FAILED,
    NEVER_RAN,
    ResultState,
    State,
    counts,
    is_done,
    state_of_clause,
)
from support.requirement_rows import Clause, Row, Section, rows_of

_HEAD = """\
# Requirements and their tests

Written by `make requirements`; the texts are in `docs/requirements.toml`, terms in the [glossary](../reference/glossary.md). A row consists of clauses, and a
clause names the tests that would fail without it. A clause is

* **shown** when each of its tests passed, with all its parameters, on the inputs that it has now,
* **stale** when they passed, but at least one of them on older inputs,
* **open** when it names no test, or one failed or never ran.

A row is `done` when all its clauses are shown, and `open` otherwise. The inputs of a test are its file, the
`conftest.py` files above it, every module of the repository that these import, directly or through others,
and for tests that start processes or read other files, what `tests/support/requirement_inputs.py` adds:
whole packages, and images, chart and custom resource definitions for tests on kind. A hash over their names
and contents is kept with each result in `docs/evidence/requirements-results.json`.
"""


def render_page(sections: Sequence[Section], standings: Mapping[str, ResultState]) -> str:
    """docs/evidence/requirements.md: per section a line per row, then the clauses of each row."""
    rows = list(rows_of(sections))
    done = sum(is_done(row, standings) for row in rows)
    lines = [_HEAD, f"Done: {done} of {len(rows)} rows. {counts(rows, standings)}."]
    for section in sections:
        lines += ["", f"## {section.title}", "", f"{counts(section.rows, standings)}.", ""]
        lines += ["| id | state | tests |", "|---|---|---|"]
        for row in section.rows:
            tests = ", ".join(f"`{test}`" for test in row.tests())
            lines.append(f"| {row.id} | {_word(row, standings)} | {tests} |")
        for row in section.rows:
            lines += ["", f"### {row.id}", "", row.text, ""]
            lines += ["| clause | state | what | shown by |", "|---|---|---|---|"]
            lines += [_clause_line(clause, standings) for clause in row.clauses]
    return "\n".join(lines) + "\n"


def _word(row: Row, standings: Mapping[str, ResultState]) -> str:
    return "done" if is_done(row, standings) else "open"


def _clause_line(clause: Clause, standings: Mapping[str, ResultState]) -> str:
    state = state_of_clause(clause, standings)
    tests = ", ".join(f"`{test}`{_remark(test, state, standings)}" for test in clause.tests)
    return f"| {clause.id} | {state} | {_in_a_cell(clause.text)} | {tests} |"


def _in_a_cell(text: str) -> str:
    return text.replace("|", "\\|")


def _remark(test: str, clause: State, standings: Mapping[str, ResultState]) -> str:
    standing = standings.get(test, NEVER_RAN)
    if standing.state is State.SHOWN or clause is State.SHOWN:
        return ""
    return f" ({_word_of_result(standing)})"


def _word_of_result(standing: ResultState) -> str:
    if standing.result is None:
        return "not run"
    if standing.result.outcome == FAILED:
        return "failed"
    return "passed" if standing.present else "stale"


def render_listing(sections: Sequence[Section], standings: Mapping[str, ResultState]) -> str:
    """For the terminal: everything, then what is stale or open again, and the counts as the last line."""
    lines: list[str] = []
    for section in sections:
        lines += ["", section.title]
        for row in section.rows:
            lines += ["", f"{row.id}  {_word(row, standings)}  {row.text}"]
            for clause in row.clauses:
                lines += _clause_lines(clause, standings)
    lines += ["", "Stale or open", *(_unshown(sections, standings) or ["  nothing"]), ""]
    lines += [f"{section.title}: {counts(section.rows, standings)}" for section in sections]
    return "\n".join([*lines, "", str(counts(rows_of(sections), standings))])


def _clause_lines(clause: Clause, standings: Mapping[str, ResultState]) -> Iterator[str]:
    yield f"  {state_of_clause(clause, standings):<5}  {clause.id}: {clause.text}"
    for test in clause.tests:
        standing = standings.get(test, NEVER_RAN)
        at = standing.result.at[:16].replace("T", " ") if standing.result else ""
        yield f"         {_word_of_result(standing):<7} {at:<16}  {test}"


def _unshown(sections: Sequence[Section], standings: Mapping[str, ResultState]) -> list[str]:
    return [
        f"  {row.id}  {state_of_clause(clause, standings):<5}  {clause.id}: {_why(clause, standings)}"
        for row in rows_of(sections)
        for clause in row.clauses
        if state_of_clause(clause, standings) is not State.SHOWN
    ]


def _why(clause: Clause, standings: Mapping[str, ResultState]) -> str:
    if not clause.tests:
        return "no test"
    missing = [test for test in clause.tests if standings.get(test, NEVER_RAN).state is State.OPEN]
    lacking = missing or [test for test in clause.tests if not standings[test].present]
    word = _word_of_result(standings.get(lacking[0], NEVER_RAN))
    others = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    return f"{word}: {lacking[0]}{others}"
