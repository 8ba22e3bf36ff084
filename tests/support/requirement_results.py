"""Results of tests, and the states of clauses that follow.

A result belongs to the inputs of its test (requirement_inputs.py). Two files hold results: `.requirements/results.json` has the last few
of every node id, written by every run; docs/evidence/requirements-results.json has one per test that a clause names, so that a fresh
clone shows the same table.
"""

import enum
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from support.requirement_rows import Clause, Row

PASSED, FAILED = "passed", "failed"
# Results are kept for this number of different inputs: code that was broken on purpose and restored has its earlier inputs again.
# as it was before.
KEPT_INPUTS = 4


class State(enum.StrEnum):
    SHOWN = "shown"
    STALE = "stale"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a run: `passed` or `failed`. A skipped test has none."""

    outcome: str
    at: str  # ISO 8601, UTC: compares as text
    inputs: str  # hash of what the test covered; empty: not known


History = Mapping[str, Sequence[Result]]
"""Node id → results of different inputs, the last one at the end."""


@dataclass(frozen=True, slots=True)
class ResultState:
    """The state of a test: its last result, if any, and whether that is for the present inputs."""

    result: Result | None
    present: bool

    @property
    def state(self) -> State:
        if self.result is None or self.result.outcome != PASSED:
            return State.OPEN
        return State.SHOWN if self.present else State.STALE


NEVER_RAN = ResultState(None, present=False)


def state_of_clause(clause: Clause, standings: Mapping[str, ResultState]) -> State:
    """Shown: every test passed on the present inputs. Stale: passed, some on older ones. Else open."""
    states = {standings.get(test, NEVER_RAN).state for test in clause.tests}
    if not states or State.OPEN in states:
        return State.OPEN
    return State.STALE if State.STALE in states else State.SHOWN


def is_done(row: Row, standings: Mapping[str, ResultState]) -> bool:
    return all(state_of_clause(clause, standings) is State.SHOWN for clause in row.clauses)


def of_all_parameters(nodes: Sequence[str], history: History, present: str) -> Result | None:
    """One result for a test from those of its node ids; None while a parameter never ran.

    A failure of any parameter is the test's. A pass is for the present inputs only if every parameter passed with them.
    """
    every = [result for node in nodes if (result := _of_node(history.get(node, ()), present))]
    newly = [result for result in every if result.inputs == present]
    for among in (newly, every):
        failed = [result for result in among if result.outcome == FAILED]
        if failed:
            return max(failed, key=lambda result: result.at)
        if among and len(among) == len(nodes):
            older = [result for result in among if result.inputs != present]
            return min(older or among, key=lambda result: result.at)
    return None


def _of_node(results: Sequence[Result], present: str) -> Result | None:
    """The result for the present inputs if there is one, else the last one."""
    return max(results, key=lambda each: (each.inputs == present, each.at), default=None)


def better(first: Result | None, second: Result | None, present: str) -> Result | None:
    """Of two results of one test: the one for the present inputs, else the later one, else the second."""
    known = [result for result in (second, first) if result is not None]
    return max(known, key=lambda each: (each.inputs == present, each.at), default=None)


def load_results(path: Path) -> dict[str, Result]:
    if not path.exists():
        return {}
    return {test: _result(entry) for test, entry in json.loads(path.read_text()).items()}


def _result(entry: Mapping[str, str]) -> Result:
    """An entry of an older form has no inputs, so a pass in it is stale."""
    return Result(entry["outcome"], entry["at"], entry.get("inputs", ""))


def save_results(path: Path, results: Mapping[str, Result]) -> None:
    _write(path, {test: asdict(result) for test, result in results.items()})


def _write(path: Path, entries: Mapping[str, object]) -> None:
    """One line per test. Replaces the file whole, so that an interrupted run leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f" {json.dumps(test)}: {json.dumps(entries[test])}" for test in sorted(entries)]
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    scratch.replace(path)


def load_history(path: Path) -> History:
    if not path.exists():
        return {}
    return {
        node: tuple(map(_result, entries if isinstance(entries, list) else [entries]))
        for node, entries in json.loads(path.read_text()).items()
    }


def add_results(path: Path, seen: Mapping[str, Result]) -> None:
    """Add the results of a run to the file; for the same inputs the last one is kept."""
    with _locked(path):
        history = dict(load_history(path))
        for node, result in seen.items():
            others = [each for each in history.get(node, ()) if each.inputs != result.inputs]
            history[node] = (*others, result)[-KEPT_INPUTS:]
        _write(path, {node: [asdict(each) for each in kept] for node, kept in history.items()})


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two runs that end at the same time write one after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True, slots=True)
class Counts:
    shown: int
    stale: int
    open: int

    def __str__(self) -> str:
        noun = "clause" if self.shown == 1 else "clauses"
        return f"{self.shown} {noun} shown, {self.stale} stale, {self.open} open"


def counts(rows: Iterable[Row], standings: Mapping[str, ResultState]) -> Counts:
    states = [state_of_clause(clause, standings) for row in rows for clause in row.clauses]
    return Counts(*(states.count(state) for state in (State.SHOWN, State.STALE, State.OPEN)))
