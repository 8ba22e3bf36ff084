"""Named tests that are missing, and names and marks that disagree, as the files show them."""

from pathlib import Path

import pytest

from support import requirement_marks as marks
from support import requirement_rows as rows

ROWS = """
[[section]]
title = "S"
[[section.row]]
id = "R-01"
text = "Text."
[[section.row.clause]]
id = "one"
text = "Must hold."
tests = ["{named}"]
"""


def sections(folder: Path, named: str) -> tuple[rows.Section, ...]:
    path = folder / "requirements.toml"
    path.write_text(ROWS.format(named=named))
    return rows.load_sections(path)


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
def test_missing_test_is_named(tmp_path: Path, named: str, missing: bool) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text(
        "def test_here(): ...\nclass TestClass:\n    async def test_inside(self): ...\n"
    )
    listed = sections(tmp_path, named)
    assert marks.missing_tests(tmp_path, listed) == ([f"{named} (R-01)"] if missing else [])


@pytest.mark.parametrize(
    ("written", "unnamed"),
    [
        ("", []),
        ('@pytest.mark.requirement("R-01")', []),
        ('@pytest.mark.requirement("R-01", "R-02")', ["R-02"]),
        ('@pytest.mark.slow\n@pytest.mark.requirement("R-02")', ["R-02"]),
    ],
)
@pytest.mark.parametrize("named", ["test_here", "test_here[one]"])
def test_mark_without_a_clause_is_detected(
    tmp_path: Path, written: str, unnamed: list[str], named: str
) -> None:
    path = tmp_path / "test_a.py"
    path.write_text(f"{written}\ndef test_here(): ...\n")
    listed = sections(tmp_path, f"test_a.py::{named}")
    found = marks.unnamed_marks(tmp_path, [path], listed)
    assert found == [f"test_a.py::test_here ({row})" for row in unnamed]


@pytest.mark.parametrize(
    ("text", "unmarked"),
    [
        ("def test_here(): ...", True),
        ('@pytest.mark.requirement("R-01")\ndef test_here(): ...', False),
        ('@pytest.mark.requirement("R-02")\ndef test_here(): ...', True),
        ('@pytest.mark.requirement("R-01")\ndef test_else(): ...\ndef test_here(): ...', True),
        ('pytestmark = [mark.slow, mark.requirement("R-01")]\ndef test_here(): ...', False),
        ('R = mark.requirement("R-01")\n@R\ndef test_here(): ...', False),
        ("@mark.requirement(*ROWS)\ndef test_here(): ...", False),
        ('class TestIt:\n    @mark.requirement("R-01")\n    def test_here(self): ...', True),
    ],
)
def test_named_test_without_a_mark_is_detected(tmp_path: Path, text: str, unmarked: bool) -> None:
    (tmp_path / "test_a.py").write_text(text)
    listed = sections(tmp_path, "test_a.py::test_here")
    expected = ["test_a.py::test_here (R-01)"] if unmarked else []
    assert marks.unmarked_tests(tmp_path, listed) == expected
