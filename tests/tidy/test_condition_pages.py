"""Each condition has a page that says what it means, what is affected, what to do and when it ends, with a row for each reason."""

import ast
import re
from collections.abc import Iterator

import pytest

from quorum_operator.planner import conditions, reassignment, reassignment_status
from quorum_operator.planner.condition_reasons import REASONS, REASSIGNMENT_REASONS
from quorum_operator.planner.step import Nothing, Step
from quorum_operator.reassignment_crd import ReassignmentPhase
from quorum_operator.status_crd import Phase
from support import source_tree as tree

PAGES = tree.ROOT / "docs" / "how-to" / "conditions"
INDEX = PAGES / "README.md"
TYPES = sorted(REASONS.keys() | REASSIGNMENT_REASONS.keys())
ROW = re.compile(r"^\| `(\w+)` \| (?:True|False) \| \S.*\|$", re.MULTILINE)
SECTIONS = (
    "What it means",
    "What is affected",
    "How to see more",
    "What to do",
    "When it ends",
    "Reasons",
)
SOURCES = [path for path in tree.modules("operator") if path.name != "condition_reasons.py"]


def words() -> set[str]:
    """Every text in the operator's code, and the names that are used as reasons: phases and steps."""
    literals = {
        node.value
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    phases = {each.value for each in (*Phase, *ReassignmentPhase)}
    moves = {each.__name__ for each in reassignment.Step.__args__}
    return literals | phases | moves | {each.__name__ for each in Step.__args__}


def found_reasons() -> Iterator[tuple[str, str]]:
    """Type and reason of each `Finding(TYPE, …, "Reason" if … else "Other", …)` in the code."""
    for path in SOURCES:
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "Finding(" in text else ():
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id != "Finding" or not isinstance(node.args[0], ast.Name):
                continue
            module = reassignment_status if "reassignment" in path.name else conditions
            kind = getattr(module, node.args[0].id)
            for each in ast.walk(node.args[2]):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield kind, each.value


def test_each_condition_has_a_page_and_the_index_lists_them_all() -> None:
    pages = {path.stem for path in PAGES.glob("*.md")} - {INDEX.stem}
    assert pages == set(TYPES)
    linked = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\)", INDEX.read_text(), re.MULTILINE)
    assert all(text == page for text, page in linked)
    assert sorted(page for _, page in linked) == sorted([*REASONS, *REASSIGNMENT_REASONS])


@pytest.mark.parametrize("kind", TYPES)
def test_page_has_meaning_remedy_and_end_of_its_condition(kind: str) -> None:
    text = (PAGES / f"{kind}.md").read_text()
    assert text.startswith(f"# {kind}\n")
    assert tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)) == SECTIONS
    for section in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]:
        assert section.strip()


@pytest.mark.parametrize("kind", TYPES)
def test_page_has_exactly_one_row_per_reason(kind: str) -> None:
    rows = ROW.findall((PAGES / f"{kind}.md").read_text())
    expected = [*REASONS.get(kind, ()), *REASSIGNMENT_REASONS.get(kind, ())]
    assert sorted(rows) == sorted(expected)


def test_code_uses_exactly_the_reasons_of_the_table() -> None:
    found = set(found_reasons())
    assert {kind for kind, _ in found} >= set(TYPES) - {"Refused"}
    for kind, reason in found:
        assert reason in {*REASONS.get(kind, ()), *REASSIGNMENT_REASONS.get(kind, ())}, (
            kind,
            reason,
        )
    listed = {
        reason
        for table in (REASONS, REASSIGNMENT_REASONS)
        for reasons in table.values()
        for reason in reasons
    }
    # A node's error code comes from its answer, and is put into CamelCase.
    assert listed - words() <= {"NoAnswer", "NotLeader"}


def test_ready_message_names_conditions_for_each_abnormal_phase() -> None:
    assert set(Phase) - conditions._SEE.keys() == {Phase.READY, Phase.DELETING}
    named = {
        each
        for text in conditions._SEE.values()
        for each in re.findall(r"\b[A-Z][A-Za-z]+\b", text)
    }
    assert named
    assert named <= set(TYPES)


def test_each_step_is_a_reason_of_progressing() -> None:
    steps = {each.__name__ for each in Step.__args__} - {Nothing.__name__}
    assert set(REASONS["Progressing"]) - {"Settled"} == steps


def test_links_of_the_pages_resolve() -> None:
    for path in PAGES.glob("*.md"):
        for link in re.findall(r"\]\(([^)#]+)", path.read_text()):
            assert (path.parent / link).is_file(), (path.name, link)
