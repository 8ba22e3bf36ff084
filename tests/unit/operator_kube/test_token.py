"""The admin token in a Secret, also while it is rotated: members accept the token of every line."""

import base64
from typing import Any

import pytest

from quorum_operator.kube.token import token_of


def secret(content: bytes) -> dict[str, Any]:
    return {"data": {"token": base64.b64encode(content).decode()}}


@pytest.mark.parametrize(
    ("content", "token"),
    [
        (b"one", "one"),
        (b" one\n", "one"),
        (b"one\ntwo\n", "one"),
        (b"\r\n\r\none\r\ntwo", "one"),
        ("\u00e4\ntwo".encode(), "two"),
        (b"\xff\ntwo", "two"),
        (b"o\x00ne\ntwo", "two"),
        (b"", None),
        (b"\n \n", None),
        (b"\xff", None),
        (b"o\tne", None),
    ],
)
def test_first_usable_token_is_used(content: bytes, token: str | None) -> None:
    assert token_of(secret(content)) == token


@pytest.mark.parametrize("made", [{}, {"data": None}, {"data": {}}, {"data": {"token": "%"}}])
def test_secret_without_a_token_has_none(made: dict[str, Any]) -> None:
    assert token_of(made) is None
