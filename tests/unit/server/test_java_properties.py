"""Properties files mean what they mean for `java.util.Properties.load`. The rules are those of JDK 17's `Properties.java`."""

from pathlib import Path

import pytest

from quorum_node.configuration.properties import read_pairs
from quorum_node.java_properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("# in C:\\keys\\\nsuper.users=User:a", {"super.users": "User:a"}),
        ("! in C:\\keys\\\nsuper.users=User:a", {"super.users": "User:a"}),
        ("  # indented \\\r\na=1\n", {"a": "1"}),
        ("a=1\n#a\\", {"a": "1"}),
        ("a=1\n#a\\\n", {"a": "1"}),
        ("\\\n#b\na=1", {"a": "1"}),
    ],
)
def test_a_comment_is_never_continued(text: str, pairs: dict[str, str]) -> None:
    assert parse_properties(text) == pairs


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1,\\\n   2\nb=3", {"a": "1,2", "b": "3"}),
        ("a=1,\\\r\n\t2", {"a": "1,2"}),
        ("a=1\\\n#2\\\n!3\nb=4", {"a": "1#2!3", "b": "4"}),  # no comments within a value
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("\\\n\na=1", {"a": "1"}),
        ("a=\\\\\\\n\\\nb\nc=1", {"a": "\\b", "c": "1"}),
        ("a=x\\\\\nb=1", {"a": "x\\", "b": "1"}),
        ("a=x\\", {"a": "x"}),
    ],
)
def test_a_pair_is_continued_after_an_unescaped_backslash(text: str, pairs: dict[str, str]) -> None:
    assert parse_properties(text) == pairs


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("password=secret\\ \nafter=1", {"password": "secret ", "after": "1"}),
        ("password=secret\\ \t \nafter=1", {"password": "secret ", "after": "1"}),
        ("password=\\ secret", {"password": " secret"}),
        ("a=1 \t\f\n", {"a": "1"}),
        ("a=x\\\\ \nb=1", {"a": "x\\", "b": "1"}),
        ("a=\u00a0x\u00a0", {"a": "\u00a0x\u00a0"}),  # not white space in Java
    ],
)
def test_a_blank_at_the_end_is_kept_if_it_is_escaped(text: str, pairs: dict[str, str]) -> None:
    assert parse_properties(text) == pairs


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        ("listeners PLAINTEXT://:9092", ("listeners", "PLAINTEXT://:9092")),
        ("security.protocol SSL", ("security.protocol", "SSL")),
        ("a \t= 1", ("a", "1")),
        ("a : = 1", ("a", "= 1")),
        ("a=", ("a", "")),
        ("a\\ b\\=c\\:d=1", ("a b=c:d", "1")),
    ],
)
def test_the_first_separator_ends_the_key(line: str, pair: tuple[str, str]) -> None:
    assert parse_properties(line) == dict([pair])


@pytest.mark.parametrize("line", ["nonsense", "nonsense  "])
def test_a_line_without_a_separator_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"^line 4 is not in the form key=value$"):
        parse_properties(f"# c\na=1\\\n2\n{line}\n")


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        ("\\u00e4\\u20AC", "ä€"),
        ("C\\u003d\\u005C", "C=\\"),
        ("\\uD83D\\uDE00", "\U0001f600"),
        ("\\\\u00e4", "\\u00e4"),
        ("\\u\\", None),
        ("\\users", None),
        ("\\u12", None),
        ("\\u+123", None),
        ("\\uD83D", None),
        ("\\uDE00\\uD83D", None),
    ],
)
def test_escapes_of_characters(value: str, meaning: str | None) -> None:
    if meaning is not None:
        assert parse_properties(f"a={value}") == {"a": meaning}
        return
    with pytest.raises(ValueError, match=r"^line 2 has a .*\\uXXXX escape") as caught:
        parse_properties(f"b=1\npassword={value}\n")
    assert value not in str(caught.value)  # may be a secret


def test_an_authorizer_below_a_comment_with_a_backslash_is_configured(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text("# certificates: C:\\certs\\\nauthorizer.class.name=Standard\nnode.id=1\n")
    assert read_pairs(path) == {"authorizer.class.name": "Standard", "node.id": "1"}


@pytest.mark.parametrize("value", ["", "a=b:c", "#a", "C:\\certs\\", "a\nb\r", "\\u00e4", "ä"])
def test_a_written_value_is_read_again(value: str) -> None:
    assert parse_properties(format_properties({"a": value, "b": "1"})) == {"a": value, "b": "1"}
