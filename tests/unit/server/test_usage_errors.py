"""Wrong input to a command-line program is reported in one line that says what to do."""

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
from quorum_pipeline import __main__ as pipeline

Program = Callable[[list[str]], int]


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
            pipeline.main,
            [],
            "quorum-pipeline: the following arguments are required: COMMAND; see quorum-pipeline --help",
        ),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(
    program: Program, arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        program(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err == line + "\n"


def test_an_address_with_another_scheme_is_no_directory() -> None:
    with pytest.raises(BackupError, match="write a directory, or s3://BUCKET/PREFIX"):
        parse_place("ftp://bucket/folder")


def test_a_default_that_can_not_be_used_is_not_shown_as_a_value() -> None:
    with pytest.raises(ConfigError) as caught:
        check_config({"node.id": "1"})
    assert str(caught.value).startswith("listeners is not set, and its default can't be used: ")
    assert "set advertised.listeners" in str(caught.value)


def test_a_configuration_file_that_is_missing_is_named_once(tmp_path: Path) -> None:
    missing = tmp_path / "node.properties"
    with pytest.raises(ConfigError) as caught:
        read_pairs(missing)
    assert (
        str(caught.value)
        == f"the configuration file {missing} can't be read: No such file or directory"
    )
