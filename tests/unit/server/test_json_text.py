"""What may be any JSON is read in one way: whatever can't be used later is a ValueError."""

import json

import pytest

from quorum_node.json_text import MOST_DEPTH, read_json

HALF = json.dumps({"reason": "\ud800", "message": "\udfff", "at": 1})
"""Half of a surrogate pair."""
TOO_DEEP = "[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5000,
        '{"a":' * 5000,
        TOO_DEEP,
        HALF,
        "",
        "{",
        '{"a": Infinity}',
        "[-Infinity]",
        "NaN",
        "1e999",
        '{"a": [-1e999]}',
        '"\ud800"'.encode("utf-8", "surrogatepass"),
        b"\xff",
    ],
)
def test_unusable_document_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        read_json(text)


@pytest.mark.parametrize(
    "text",
    ["[" * MOST_DEPTH + "]" * MOST_DEPTH, '{"a": "\\ud83d\\ude00"}', "[1e300, -0.5]", '{"a": "ü"}'],
)
def test_usable_document_is_read(text: str) -> None:
    assert read_json(text) == read_json(text.encode()) == json.loads(text)
