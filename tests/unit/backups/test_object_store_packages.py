"""What a command says where the packages for an object store are missing, or do not fit each other."""

import sys
from pathlib import Path

import pytest

from quorum_node.archiver import main as command


def test_missing_boto3_is_reported_with_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "boto3.session", None)
    monkeypatch.setitem(sys.modules, "boto3", None)
    assert command.main(["list", "s3://bucket/x"]) == 1
    assert "pip install '.[object-store]'" in capsys.readouterr().err


def test_boto3_that_does_not_fit_its_own_packages_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An environment may have, for example, a urllib3 that botocore can't use."""
    (tmp_path / "boto3").mkdir()
    (tmp_path / "boto3/__init__.py").touch()
    (tmp_path / "boto3/session.py").write_text("from urllib3 import NO_SUCH_NAME\n")
    monkeypatch.delitem(sys.modules, "boto3", raising=False)
    monkeypatch.delitem(sys.modules, "boto3.session", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert command.main(["list", "s3://bucket/p"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot import name 'NO_SUCH_NAME' from 'urllib3'" in line
    assert "object-store" in line
