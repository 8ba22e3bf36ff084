"""The admin token while its file is rewritten: the new one is accepted, the old one no longer."""

import os
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from quorum_node.server.admin.authorization import is_authorized
from quorum_node.server.admin.token_file import CHECK_PERIOD_S, TokenFile


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def as_kubelet_does(folder: Path, version: str, token: str) -> Path:
    """Files of a Secret are links into a folder that is exchanged as a whole."""
    made = folder / f"..{version}"
    made.mkdir()
    (made / "token").write_text(token)
    new = folder / "..data_tmp"
    new.symlink_to(made.name)
    os.replace(new, folder / "..data")
    link = folder / "token"
    if not link.is_symlink():
        link.symlink_to("..data/token")
    return link


def test_rotated_token_is_accepted_within_a_second(tmp_path: Path, clock: Clock) -> None:
    path = as_kubelet_does(tmp_path, "1", "old\n")
    file = TokenFile(path, "old", clock)
    assert file.current() == ("old",)
    as_kubelet_does(tmp_path, "2", "new\n")
    assert file.current() == ("old",), "not looked at with every call"
    clock.now += CHECK_PERIOD_S
    assert file.current() == ("new",)


def test_token_rotated_before_the_first_call_is_accepted(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "token"
    path.write_text("new")
    assert TokenFile(path, "old", clock).current() == ("new",)


@pytest.mark.parametrize("spoil", ["gone", "empty", "blank", "no text"])
def test_empty_token_file_changes_nothing(tmp_path: Path, clock: Clock, spoil: str) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    file = TokenFile(path, "old", clock)
    assert file.current() == ("old",)
    if spoil == "gone":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "blank": b" \n", "no text": b"\xff\xfe"}[spoil])
    clock.now += CHECK_PERIOD_S
    assert file.current() == ("old",)
    path.write_text("newer")
    clock.now += CHECK_PERIOD_S
    assert file.current() == ("newer",)


def test_every_line_of_the_file_is_a_valid_token(
    tmp_path: Path,
) -> None:
    path, now = tmp_path / "token", [0.0]
    path.write_text("old\n")
    file = TokenFile(path, "old\n", lambda: now[0])
    for text, wanted in (
        ("old\nnew\n", ("old", "new")),
        ("\n  new  \n\n", ("new",)),
        ("\n", ("new",)),
    ):
        path.write_text(text)
        now[0] += CHECK_PERIOD_S
        assert file.current() == wanted
        shown = [Headers({"authorization": f"Bearer {each}"}) for each in ("old", "new", "")]
        found = [is_authorized(each, file.current()) for each in shown]
        assert found == ["old" in wanted, "new" in wanted, False]


def test_file_of_an_editor_of_windows_holds_the_same_tokens(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"\xef\xbb\xbf one \r\n\r\ntwo\r\n")
    assert TokenFile(path, path.read_text().strip(), clock).current() == ("one", "two")
