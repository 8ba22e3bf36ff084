"""What a command says where the packages for an object store are missing, or do not fit each other."""

import os
import subprocess
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


def test_boto3_that_does_not_fit_its_own_packages_is_reported_in_one_line(tmp_path: Path) -> None:
    """An environment may have, for example, a urllib3 that botocore can't use."""
    (tmp_path / "boto3").mkdir()
    (tmp_path / "boto3/__init__.py").touch()
    (tmp_path / "boto3/session.py").write_text("from urllib3 import NO_SUCH_NAME\n")
    # A process of its own: in this one, other tests would find the module that was imported.
    ended = subprocess.run(
        [sys.executable, "-m", "quorum_node.archiver", "list", "s3://bucket/p"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "cannot import name 'NO_SUCH_NAME' from 'urllib3'" in line
    assert "object-store" in line
