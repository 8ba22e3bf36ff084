"""`quorum-operator` on the command line: help and usage errors, which start nothing."""

import re
import sys
from collections.abc import Iterator, Mapping

import pytest

from quorum_operator import __main__ as program
from quorum_operator.settings import from_environment
from quorum_operator.usage import EXIT_CODES, VARIABLES
from support.source_tree import ROOT

_PAGE = ROOT / "docs" / "reference" / "configuration.md"


class RecordedEnvironment(Mapping[str, str]):
    """An environment without settings except those that cause further ones to be read; records what is read."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._set = {
            "METADATAQUORUM_OPERATOR_PAGE": "127.0.0.1:1",
            "METADATAQUORUM_OPERATOR_LEASE": "a/b",
        }

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return self._set[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._set)

    def __len__(self) -> int:
        return len(self._set)


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["start"], 2)])
def test_operator_rejects_arguments(
    arguments: list[str],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["quorum-operator", *arguments])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == code
    printed = capsys.readouterr()
    if code == 0:
        assert all(name in printed.out for name in VARIABLES)


def test_invalid_setting_ends_with_the_documented_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["quorum-operator"])
    monkeypatch.setenv("METADATAQUORUM_OPERATOR_RESYNC_SECONDS", "soon")
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert EXIT_CODES[int(ended.value.code or 0)].startswith("an environment variable")
    assert "METADATAQUORUM_OPERATOR_RESYNC_SECONDS" in capsys.readouterr().err


def test_help_lists_every_setting() -> None:
    environment = RecordedEnvironment()
    from_environment(environment)
    assert environment.names == set(VARIABLES)


def test_reference_lists_every_setting() -> None:
    text = _PAGE.read_text().partition("## The operator's own settings\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", text, re.MULTILINE)) == set(VARIABLES)
