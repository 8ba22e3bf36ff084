"""What a new checkout compiles once, before workers of a parallel run need it."""

import os
import re
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from support import compiled_checkout
from support.compiled_checkout import LOOPS, compile_loops, rewrite_assertions
from support.source_tree import ROOT


def test_pytest_takes_the_rewritten_assertions_and_changed_files_are_rewritten_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "unit").mkdir()
    (tmp_path / "support").mkdir()
    files = [tmp_path / name for name in ("unit/test_a.py", "conftest.py", "support/b.py")]
    (tmp_path / "unit" / "data.py").write_text("")
    for each in files:
        each.write_text("def check():\n    a, b = 1, 2\n    assert a == b\n")
    assert rewrite_assertions(tmp_path) == len(files)
    assert rewrite_assertions(tmp_path) == 0
    for each in files:
        kept = rewrite.get_cache_dir(each) / f"{each.stem}{rewrite.PYC_TAIL}"
        code = rewrite._read_pyc(each, kept)
        assert code is not None, "pytest would write it again"
        found: dict[str, object] = {"__name__": "x"}
        exec(code, found)
        check = found["check"]
        assert callable(check)
        with pytest.raises(AssertionError, match="assert 1 == 2"):
            check()
    files[0].write_text("x = 1\n")
    assert rewrite_assertions(tmp_path) == 1


def test_every_module_with_compiled_loops_is_named() -> None:
    marked = re.compile(r"^@(compiled|inner|compiled_when_called)$", re.MULTILINE)
    found = {
        ".".join(path.relative_to(ROOT / "pipeline").with_suffix("").parts)
        for path in (ROOT / "pipeline" / "quorum_pipeline").rglob("*.py")
        if marked.search(path.read_text())
    }
    assert found == set(LOOPS)


def test_loops_are_compiled_again_only_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "pipeline" / "quorum_pipeline" / "compaction" / "values.py"
    source.parent.mkdir(parents=True)
    source.touch()
    imported: list[str] = []
    monkeypatch.setattr(compiled_checkout, "import_module", imported.append)
    assert compile_loops(tmp_path)
    assert imported == list(LOOPS)
    os.utime(source, ns=(0, 0))
    assert not compile_loops(tmp_path)
    os.utime(source, (2**33, 2**33))
    assert compile_loops(tmp_path)
