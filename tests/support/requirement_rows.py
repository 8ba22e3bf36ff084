"""The rows of docs/requirements.toml, the results of the tests that show them, and the table of both.

Owns what makes a row `done`; knows nothing of pytest. A row is done when at least one of its tests
passed and none failed, each by its own last result.
"""

import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """The last result of one test: `passed`, `failed` or `skipped`."""

    outcome: str
    at: str  # ISO 8601, UTC: compares as text
    commit: str


def load_sections(path: Path) -> tuple[Section, ...]:
    data = tomllib.loads(path.read_text())
    sections = tuple(
        Section(part["title"], tuple(Row(row["id"], row["text"]) for row in part["row"]))
        for part in data["section"]
    )
    ids = [row.id for section in sections for row in section.rows]
    doubled = {identifier for identifier in ids if ids.count(identifier) > 1}
    if doubled:
        raise ValueError(f"{path}: ids that stand twice: {', '.join(sorted(doubled))}")
    return sections


def load_results(path: Path) -> dict[str, Result]:
    if not path.exists():
        return {}
    return {test: Result(**entry) for test, entry in json.loads(path.read_text()).items()}


def save_results(path: Path, results: Mapping[str, Result]) -> None:
    """Replaces the file whole, so that an interrupted run leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = {test: asdict(results[test]) for test in sorted(results)}
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps(entries, indent=1) + "\n")
    scratch.replace(path)


def newest(*sources: Mapping[str, Result]) -> dict[str, Result]:
    """One result per test, the latest; equal times favour the later source."""
    merged: dict[str, Result] = {}
    for source in sources:
        for test, result in source.items():
            known = merged.get(test)
            if known is None or result.at >= known.at:
                merged[test] = result
    return merged


def is_done(tests: Iterable[str], results: Mapping[str, Result]) -> bool:
    outcomes = [results[test].outcome for test in tests if test in results]
    return "passed" in outcomes and "failed" not in outcomes


def render_table(
    sections: Sequence[Section],
    shown_by: Mapping[str, Sequence[str]],
    results: Mapping[str, Result],
) -> str:
    """docs/requirements.md: one line per row with its id, `done` or `open`, and its tests."""
    total = [row.id for section in sections for row in section.rows]
    done = [identifier for identifier in total if is_done(shown_by.get(identifier, ()), results)]
    lines = [
        "# What is required, and what shows it",
        "",
        "Written by `make requirements`; the texts of the rows are in `docs/requirements.toml`. A row is",
        "`done` when a test of `make test` or `make test-long` shows it, and `open` otherwise.",
        f"Done: {len(done)} of {len(total)}.",
    ]
    for section in sections:
        lines += ["", f"## {section.title}", "", "| id | state | tests |", "|---|---|---|"]
        for row in section.rows:
            tests = ", ".join(f"`{test}`" for test in shown_by.get(row.id, ()))
            state = "done" if row.id in done else "open"
            lines.append(f"| {row.id} | {state} | {tests} |")
    return "\n".join(lines) + "\n"


def render_listing(
    sections: Sequence[Section],
    shown_by: Mapping[str, Sequence[str]],
    results: Mapping[str, Result],
) -> str:
    """For the terminal: every row with its text, its tests, and the last result of each."""
    lines: list[str] = []
    for section in sections:
        lines += ["", section.title]
        for row in section.rows:
            tests = shown_by.get(row.id, ())
            state = "done" if is_done(tests, results) else "open"
            lines += ["", f"{row.id}  {state}  {row.text}"]
            lines += [f"    {_last(results.get(test)):<40}  {test}" for test in tests]
    return "\n".join(lines)


def _last(result: Result | None) -> str:
    if result is None:
        return "not run"
    return f"{result.outcome} {result.at[:16].replace('T', ' ')} at {result.commit}"
