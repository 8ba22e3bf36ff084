"""The URL of a Spark Connect server may contain a token, which is reported nowhere."""

from pathlib import Path

import pytest

from quorum_pipeline.__main__ import main
from support.ports import free_ports
from support.written_log import LogWriter, write_history

TOKEN = "s3cr%20et"
AFTER = f"use_ssl=true;token={TOKEN};user_id=me"


@pytest.mark.parametrize(
    "form",
    [
        "sc://127.0.0.1:{port}/;{after}",
        "sc://127.0.0.1:{port};{after}",
        "http://127.0.0.1/;{after}",
    ],
    ids=["no server", "no slash before parameters", "other scheme"],
)
def test_token_is_not_in_what_the_command_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    writer.close()
    url = form.format(port=free_ports(1)[0], after=AFTER)
    assert main(["state", "--log", str(tmp_path / "node"), "--remote", url]) == 2
    written = "".join(capsys.readouterr())
    assert "127.0.0.1" in written
    assert "can't be used" in written
    for secret in (TOKEN, "s3cr et", "user_id=me"):
        assert secret not in written, written
