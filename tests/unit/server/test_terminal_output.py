"""What the command line tools print: no control characters to a terminal, everything to a file."""

import io
import sys

import pytest

from quorum_node.command_line import print_result
from quorum_node.quorumctl import main as quorumctl
from quorum_node.quorumctl import render
from quorum_node.quorumctl.client import AdminClient, CommandFailed

HOSTILE = "a\tb\n\x1b]0;title\x07\x9b2J"
SHOWN = "a\tb\n\ufffd]0;title\ufffd\ufffd2J"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_gets_no_control_characters_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for out, shown in ((Terminal(), SHOWN), (io.StringIO(), HOSTILE)):
        monkeypatch.setattr(sys, "stdout", out)
        assert print_result("tool", HOSTILE) == 0
        assert out.getvalue() == f"{shown}\n"


def test_row_of_a_table_is_one_line() -> None:
    """A value may contain line breaks, and even text that looks like another row."""
    rows = [("topic", "a\nbroker", "n", "\x1b[2J\u00fc\n"), ("topic", "b", "n", "1")]
    assert render.table(("Type", "Resource", "Name", "Value"), rows) == [
        "Type   Resource   Name  Value",
        "topic  a\\nbroker  n     \\x1b[2J\u00fc\\n",
        "topic  b          n     1",
    ]


def test_errors_of_a_server_contain_no_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CommandFailed(HOSTILE)

    monkeypatch.setattr(AdminClient, "call", fail)
    assert quorumctl.main(["describe"]) == 1
    assert capsys.readouterr().err == f"quorumctl: {SHOWN}\n"
