"""Lines of JSON in encodings that lack some of their characters."""

import io
import json
import sys
from pathlib import Path

import pytest

from quorum_node.records import metadata as md
from quorum_pipeline.__main__ import main
from support.written_log import LogWriter, write_history

TEXT = "\u00fc \u2192 \U0001f600"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_line_of_json_stays_one(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path / "replica")
    write_history(writer)
    value = md.ConfigRecord(resource_type=2, resource_name="orders", name="note", value=TEXT)
    writer.append(value)
    writer.close()
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding=encoding))
    assert main(["state", "--log", str(tmp_path / "replica"), "--show", "configs"]) == 0
    rows = [json.loads(line) for line in content.getvalue().decode(encoding).splitlines()]
    assert TEXT in [each["value"] for each in rows]
