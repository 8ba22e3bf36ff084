"""Credentials in URIs are reported nowhere: not in messages, progress and results of any command, nor in descriptions of jobs."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_pipeline import redaction
from quorum_pipeline.__main__ import main
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.live.quorum import QuorumUnread
from quorum_pipeline.redaction import redacted, remember_secrets
from quorum_pipeline.spark.options import archive_options, state_options
from quorum_pipeline.spark.stages import StagesHere
from support.ports import free_ports
from support.written_log import LogWriter, write_history

KEY, SECRET = "AKIA7EXAMPLE", "wJalr/XUtn+K7MDENG"
URI = f"s3a://{KEY}:{SECRET}@bucket/path?user={KEY};token={SECRET}"
SHOWN_URI = "s3a://...@bucket/path?user=...;token=..."


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_remembered", set())


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    writer = LogWriter(tmp_path_factory.mktemp("log") / "node")
    write_history(writer)
    writer.close()
    return writer.directory


def check_hidden(text: str) -> None:
    for secret in (KEY, SECRET):
        assert secret not in text, text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3a://KEY:SEC/RET@bucket/path is empty", "s3a://...@bucket/path is empty"),
        ("/here/s3a:/KEY:SECRET@bucket/path", "/here/s3a:/...@bucket/path"),
        ("hdfs://user:p@ss@nn:8020/a@b: no", "hdfs://...@nn:8020/a@b: no"),
        ("k8s://https://token@host:6443", "k8s://...@host:6443"),
        ("'abfs://box@account/x?sig=a%2Fb', then", "'abfs://...@account/x?sig=...', then"),
        ("sc://h:1/;use_ssl=true;token=T;user_id=me: no", "sc://h:1/;use_ssl=...;token=...;user_id=...: no"),
        ("hdfs://nn:8020/dir@1, s3a://bucket/a@b", "hdfs://nn:8020/dir@1, s3a://bucket/a@b"),
        ("s3a://bucket: offset 3; x@y; rows=3", "s3a://bucket: offset 3; x@y; rows=3"),
        ("file:///mnt/a:b@c/part=1/x", "file:///mnt/a:b@c/part=1/x"),
    ],
)  # fmt: skip
def test_credentials_of_uris_are_removed_and_nothing_else(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert redacted(shown) == shown


def test_secrets_of_arguments_are_removed_without_their_uri() -> None:
    remember_secrets(
        ["sc://h/;token=s3cr%20et;user_id=me", "hdfs://spark:pw@nn/", "hdfs://hdfs@nn/"]
    )
    assert redacted("parameter 's3cr et', s3cr%20et of spark: pw, not pwd; hdfs, me") == (
        "parameter '...', ... of spark: ..., not pwd; hdfs, me"
    )


@pytest.mark.parametrize("kind", [PipelineError, QuorumUnread])
def test_errors_have_no_credentials_after_any_transport(kind: type[PipelineError]) -> None:
    error = kind(f"{URI} is empty")
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == f"{SHOWN_URI} is empty"


def test_progress_and_descriptions_have_no_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    Progress("reading", "offsets").report(f"reading {URI}")
    stages = StagesHere()
    stages.describe(f"reduce spans of {URI}")
    stages.parallelize([1, 2]).flatMap(lambda _: [check_hidden(stages.progress() or "")])
    written = "".join(capsys.readouterr())
    assert SHOWN_URI in written
    check_hidden(written)


@pytest.mark.parametrize("parse", [archive_options, state_options])
def test_options_of_data_sources_are_not_repeated_in_errors(
    parse: Callable[[dict[str, str]], object],
) -> None:
    options = {"path": URI} | ({"table": "topics"} if parse is state_options else {})
    with pytest.raises(PipelineError, match="not in a mounted file system") as raised:
        parse(options)
    check_hidden(str(raised.value))


COMMANDS = {
    "archive": ["--log", "LOG", "--to", "URI", "--remote", "sc://h"],
    "archive of nothing": ["--to", "URI"],
    "archive of no log": ["--log", "URI", "--to", "OUT"],
    "archive by an unknown master": ["--log", "LOG", "--to", "OUT", "--unknown", "URI"],
    "history": ["--archive", "URI", "--master", "none"],
    "state": ["--archive", "URI", "--remote", "sc://h"],
    "state here": ["--archive", "URI", "--master", "none"],
    "state of no log": ["--log", "URI"],
    "state of no quorum": ["--bootstrap", "URI"],
    "state into a file": ["--log", "LOG", "--output", "LOG/quorum-state/URI"],
    "state on a server": ["--log", "LOG", "--remote", "URI"],
    "state on no server": ["--log", "LOG", "--remote", "CONNECT"],
    "state at a time": ["--log", "LOG", "--at-time", "URI"],
    "state of a table": ["--log", "LOG", "--show", "URI"],
    "audit": ["--archive", "URI", "--remote", "sc://h"],
    "audit of no log": ["LOG", "URI"],
    "diff": ["--archive", "URI", "--from", "0", "--to", "1", "--master", "none"],
    "diff at no offset": ["--log", "LOG", "--from", "0", "--to", "URI"],
    "versions": ["--log", "LOG", "--to", "URI", "--master", "none"],
    "versions as Delta": ["--log", "LOG", "--to", "OUT", "--to-delta", "URI", "--master", "none"],
    "timeline": ["--archive", "URI", "--master", "none"],
    "timeline into a file": ["--log", "LOG", "--html", "URI/x"],
    "restore": ["--archive", "URI", "--output", "OUT", "--voter", "1@h:1", "--master", "none"],
    "restore of no voter": ["--log", "LOG", "--output", "OUT", "--voter", "URI"],
    "plan": ["--archive", "URI", "--output", "OUT", "--master", "none"],
    "plan with sizes": ["--log", "LOG", "--output", "OUT", "--sizes", "URI"],
    "plan as a resource": ["--log", "LOG", "--output", "OUT", "--resource", "URI", "--quorum", "q"],
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_reports_the_credentials_of_its_arguments(
    command: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connect = f"sc://127.0.0.1:{free_ports(1)[0]}/;user_id={KEY};token={SECRET}"
    places = {"LOG": str(log), "OUT": str(tmp_path / "out"), "URI": URI, "CONNECT": connect}
    given = [_with(places, each) for each in COMMANDS[command]]
    try:
        code = main([command.split()[0], *given])
    except SystemExit as ended:
        code = int(str(ended.code))
    written = "".join(capsys.readouterr())
    assert code == 2, written
    assert "Traceback" not in written
    check_hidden(written)


def _with(places: dict[str, str], text: str) -> str:
    for name, place in places.items():
        text = text.replace(name, place)
    return text
