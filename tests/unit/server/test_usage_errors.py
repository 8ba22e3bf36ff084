"""Wrong input to a command-line program is reported in one line with a remedy."""

from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.archiver import main as backup
from quorum_node.backups.manifest import BackupError
from quorum_node.backups.object_address import parse_place
from quorum_node.configuration.node_config import check_config
from quorum_node.configuration.properties import ConfigError, read_pairs
from quorum_node.quorumctl import main as quorumctl
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
