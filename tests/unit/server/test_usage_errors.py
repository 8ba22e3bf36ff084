"""Wrong input to a command-line program is reported in one line with a remedy."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.archiver import main as backup
from quorum_node.backups.manifest import BackupError
from quorum_node.backups.object_address import parse_place
from quorum_node.configuration.node_config import check_config
from quorum_node.configuration.properties import ConfigError, read_pairs
from quorum_node.quorumctl import main as quorumctl
from quorum_node.quorumctl.client import AdminClient
from quorum_node.server.process import main as node
from quorum_operator import usage as operator
from quorum_pipeline import __main__ as pipeline

Program = Callable[[list[str]], int | None]


@pytest.mark.parametrize(
    ("program", "arguments", "line"),
    [
        (
            quorumctl.main,
            ["log", "--max-records", "x"],
            "quorumctl log: argument --max-records: 'x' is not a whole number; see quorumctl log --help",
        ),
        (
            backup.main,
            ["take", "--timeout", "x"],
            "quorum-backup take: argument --timeout: 'x' is not a number; see quorum-backup take --help",
        ),
        (
            backup.main,
            ["take", "--timeout", "nan"],
            "quorum-backup take: argument --timeout: 'nan' is not a number of seconds from 0 to 86400; see quorum-backup take --help",
        ),
        (
            backup.main,
            ["take", "--keep", "9999999999"],
            "quorum-backup take: argument --keep: '9999999999' is not a number of backups: write 1 or more; see quorum-backup take --help",
        ),
        (
            backup.main,
            [],
            "quorum-backup: the following arguments are required: COMMAND; see quorum-backup --help",
        ),
        (
            node.main,
            [],
            "quorum-node: the following arguments are required: --config; see quorum-node --help",
        ),
        (
            operator.parse,
            ["start"],
            "quorum-operator: unrecognized arguments: start; see quorum-operator --help",
        ),
        (
            pipeline.main,
            [],
            "quorum-pipeline: the following arguments are required: COMMAND; see quorum-pipeline --help",
        ),
    ],
)
def test_usage_error_is_one_line_and_exit_code_2(
    program: Program, arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        program(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err == line + "\n"


NEWCOMER = ["add-voter", "--id", "9", "--uuid", "A" * 22, "--controller", "h:1"]


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["get", "orders"], "'orders' is not a key: write type/resource/name"),
        (["get", "topic//retention.ms"], "write type/resource/name"),
        (["put", "topic/orders/retention.ms/x", "1"], "write type/resource/name"),
        (["put", "topic/orders/retention.ms"], "the value is missing"),
        (["put", "topic/orders/retention.ms", "1", "--delete"], "give one of them"),
        (["alter", "--voters", "1,b"], "write ids as 0,3,4"),
        (["alter", "--voters", "1,2,1:AAAAAAAAAAAAAAAAAAAAAQ"], "names voter 1 twice"),
        (["add-voter"], "--node"),
        (["add-voter", "--id", "9", "--uuid", "x", "--controller", "y"], "'y' is not host:port"),
        (["list", "--admin", "127.0.0.1:1"], "http://host:8080"),
        (["list", "--admin", ","], "--admin names no URL"),
        (["list", "--admin", f"http://{'a' * 64}:1"], "http://host:8080"),
        (["list", "--admin", "http://a..b:1"], "http://host:8080"),
        (["put", "topic/../n", "1"], "no part of it can be '.' or '..'"),
        (["get", "topic/./n"], "no part of it can be '.' or '..'"),
        (["put", f"topic/{'k' * 32_000}/n", "1"], "the key is too long: encoded for a URL"),
        (["get", f"topic/{'ü' * 2_500}/n"], "the key is too long: encoded for a URL"),
        (["list", f"topic/{'k' * 70_000}"], "the prefix is too long: encoded for a URL"),
        (["put", "topic/\udcff/n", "1"], "is not a text in UTF-8"),
        (["put", "topic/t/n", "\udcff"], "is not a text in UTF-8"),
        (["list", "\udcff"], "is not a text in UTF-8"),
        (["remove-voter", "1", "../../alter-quorum"], "is not a UUID"),
        (["remove-voter", "1", ""], "is not a UUID"),
        (["remove-voter", "1", "A" * 22, "--expected-epoch", "5"], "belong together"),
        ([*NEWCOMER, "--expected-epoch", "5"], "belong together"),
        ([*NEWCOMER, "--expected-offset", "5"], "belong together"),
        ([*NEWCOMER, "--expected-offset", "-5", "--expected-epoch", "1"], "--expected-offset: -5"),
        (["log", "--max-records", "-1"], "--max-records: -1 is not a number from 1"),
        (["log", "--from-offset", "-1"], "--from-offset: -1 is not a number from 0"),
        (["list", "--partition", "-1"], "--partition: -1 is not a number from 0"),
        (["list", "--timeout-ms", "9" * 30], "is not a number from 1 to 600000"),
        (["watch", "--interval", "-1"], "--interval: -1.0 is not a number"),
        (["watch", "--interval", "nan"], "--interval: nan is not a number"),
        (["watch", "--interval", "1e300"], "--interval: 1e+300 is not a number"),
        (["watch", "--count", "-1"], "--count: -1 is not a number from 1"),
        (
            ["put", "topic/orders/retention.ms", "1", "--timeout-ms", "0"],
            "quorumctl: --timeout-ms: ",
        ),
    ],
)
def test_quorumctl_usage_error_is_one_line_and_exit_code_2(
    arguments: list[str], advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing listens at the address: the arguments are checked first."""
    common = [] if "--admin" in arguments else ["--admin", "http://127.0.0.1:1"]
    assert quorumctl.main([*common, *arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("quorumctl: ")
    assert printed.count("\n") == 1
    assert advice in printed


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("security.protocol=SSL\nnonsense\n", "line 2 is not in the form key=value"),
        ("ssl.truststore.location=a\n# b\nssl.truststore.location=c\n", "lines 1 and 3 set the"),
        ("security.protocol=SLL\n", "write PLAINTEXT or SSL"),
        ("ssl.keystore.password=x\n", "ssl.keystore.password is not supported"),
    ],
)
def test_invalid_command_config_property_is_one_line_and_exit_code_2(
    text: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    assert quorumctl.main(["--command-config", str(path), "list"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"quorumctl: {path}: ")
    assert printed.count("\n") == 1
    assert fault in printed


def test_unreadable_command_config_is_a_failure_and_no_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "client.properties"
    assert quorumctl.main(["--command-config", str(missing), "list"]) == 1
    line = f"quorumctl: {missing}: can't be read: No such file or directory\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    "content", [b"two words\nsecret", b"t\xc3\xb6ken", b"\xff\xfetoken", b"a\x01b"]
)
def test_malformed_token_is_reported_without_any_part_of_it(
    content: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    put = ["put", "topic/t/n", "1", "--admin", "http://127.0.0.1:1", "--timeout-ms", "1"]
    assert quorumctl.main([*put, "--token-file", str(path)]) == 1
    wanted = "holds no token: a token is one word of ASCII characters, on one line\n"
    assert capsys.readouterr().err == f"quorumctl: the token file (--token-file) {wanted}"
    monkeypatch.setenv("QUORUMCTL_TOKEN_FILE", "")
    monkeypatch.setenv("QUORUMCTL_TOKEN", content.decode(errors="surrogateescape"))
    assert quorumctl.main(put) == 1
    assert capsys.readouterr().err == f"quorumctl: QUORUMCTL_TOKEN {wanted}"


def test_empty_token_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "token"
    path.touch()
    assert quorumctl.main(["list", "--token-file", str(path)]) == 1
    assert "the token file (--token-file) holds no token" in capsys.readouterr().err


def test_token_file_without_an_end_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert quorumctl.main(["list", "--token-file", "/dev/zero"]) == 1
    assert "the token file (--token-file) holds no token" in capsys.readouterr().err


def test_interrupted_command_is_not_reported_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(AdminClient, "call_one", interrupted)
    common = ["--admin", "http://127.0.0.1:1"]
    assert quorumctl.main([*common, "put", "topic/t/n", "1"]) == 130
    assert quorumctl.main([*common, "watch"]) == 0
    monkeypatch.setattr(backup, "tls_of_options", interrupted)
    assert backup.main(["take", "--bootstrap", "h:1", "--target", "t"]) == 130


_PRINTING = "from quorum_node.command_line import print_result; raise SystemExit(print_result('tool', 'x' * 1_000_000))"


def test_reader_that_stops_early_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PRINTING], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.read(1)
        program.stdout.close()
        assert (program.stderr.read(), program.wait()) == (b"", 0)


def test_output_that_can_not_be_written_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", _PRINTING], stdout=full, stderr=subprocess.PIPE, check=False
        )
    line = b"tool: the output can't be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, line)


def test_closed_output_is_one_line() -> None:
    command = ["sh", "-c", f'exec {sys.executable} -c "$0" >&-', _PRINTING]
    done = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    line = b"tool: the output can't be written: Bad file descriptor\n"
    assert (done.returncode, done.stderr) == (1, line)


def test_summary_that_can_not_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    take = ["take", "--bootstrap", "x", "--target", str(tmp_path), "--summary", str(tmp_path)]
    assert backup.main(take) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "quorum-backup: --bootstrap: 'x' is not host:port",
        f"quorum-backup: --summary {tmp_path} can't be written: Is a directory",
    ]


def test_empty_address_is_not_the_working_directory() -> None:
    with pytest.raises(BackupError, match="the address is empty"):
        parse_place("")


@pytest.mark.parametrize(
    "name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]
)
def test_malformed_credentials_are_reported_without_any_part_of_them(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line break is the one at the end of a file that a Secret was made from."""
    for each in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(each, "hidden")
    monkeypatch.setenv(name, "hidden\n")
    assert backup.main(["list", "s3://bucket/p", "--endpoint", "http://127.0.0.1:1"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"quorum-backup: {name} contains a space, a line break")
    assert "hidden" not in printed


def test_address_with_another_scheme_is_no_directory() -> None:
    with pytest.raises(BackupError, match="write a directory, or s3://BUCKET/PREFIX"):
        parse_place("ftp://bucket/folder")


def test_unusable_default_is_not_shown_as_a_value() -> None:
    with pytest.raises(ConfigError) as caught:
        check_config({"node.id": "1"})
    assert str(caught.value).startswith("listeners is not set, and its default can't be used: ")
    assert "set advertised.listeners" in str(caught.value)


def test_missing_configuration_file_is_named_once(tmp_path: Path) -> None:
    missing = tmp_path / "node.properties"
    with pytest.raises(ConfigError) as caught:
        read_pairs(missing)
    assert (
        str(caught.value)
        == f"the configuration file {missing} can't be read: No such file or directory"
    )
