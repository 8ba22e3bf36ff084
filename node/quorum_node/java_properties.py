"""Java properties text as `java.util.Properties.load` reads it: pairs, comments, continued lines, escapes.

Two differences, so that a mistake is not accepted silently: a line that is only a key is refused, and unescaped blanks at
the end of a value are not part of it. Source: `java/util/Properties.java` of the JDK.
Pure text handling: no files, no meaning of keys.
"""

import re
from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
"""White space within a line, as Java defines it. Python's `strip` removes further characters, which may be part of a value."""


def parse_properties(text: str, *, unique: bool = False) -> dict[str, str]:
    """Key → value; a later line wins, as in Java. Raises ValueError with the number of a line without a separator or with
    a malformed escape, and with `unique` also with the numbers of two lines that set the same key.

    Such lines are not shown: they may be parts of a private key whose line ends were not escaped.
    """
    pairs: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in _logical_lines(text):
        key, found, value = _split(line)
        if not found:
            raise ValueError(f"line {number} is not in the form key=value")
        try:
            name, meaning = _unescape(key), _unescape(value)
        except ValueError as error:
            raise ValueError(f"line {number} {error}") from None
        if unique and name in pairs:
            raise ValueError(f"lines {lines[name]} and {number} set the same key: remove one")
        pairs[name], lines[name] = meaning, number
    return pairs


def format_properties(pairs: dict[str, str]) -> str:
    """The text of a properties file, sorted by key."""
    return "".join(f"{key}={_escape(value)}\n" for key, value in sorted(pairs.items()))


_LINE_END = re.compile("\r\n|\n|\r")
"""Line ends of Java. Python's `splitlines` splits at further characters, which may be part of a value."""


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The number of the first line (from 1) and the text of each pair, with its escapes. Comments and blank lines are omitted.

    A comment is never continued, also if it ends with a backslash: the next line is in effect.
    """
    carried, begin = "", 0
    for number, raw in enumerate(_LINE_END.split(text), start=1):
        part = raw.lstrip(_BLANKS)
        if not carried and part[:1] in ("#", "!"):
            continue
        begin, line = begin if carried else number, carried + part
        carried = line[:-1] if _ends_with_escape(part) else ""
        if line and not _ends_with_escape(part):
            yield begin, line
    if carried:
        yield begin, carried


def _ends_with_escape(text: str) -> bool:
    """Whether the last character is a backslash that is not escaped itself."""
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, bool, str]:
    """Key, whether there is a separator, and value. The separator is `=`, `:` or blanks, whichever comes first."""
    end = _end_of_key(line)
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        return line[:end], True, _without_trailing_blanks(rest[1:].lstrip(_BLANKS))
    return line[:end], bool(rest), _without_trailing_blanks(rest)


def _end_of_key(line: str) -> int:
    escaped = False
    for index, char in enumerate(line):
        if not escaped and char in "=:" + _BLANKS:
            return index
        escaped = char == "\\" and not escaped
    return len(line)


def _without_trailing_blanks(value: str) -> str:
    """The value without blanks at its end; an escaped one is kept."""
    kept = value.rstrip(_BLANKS)
    return value[: len(kept) + 1] if _ends_with_escape(kept) else kept


_HEX = re.compile("[0-9a-fA-F]{4}")


def _unescape(text: str) -> str:
    """The characters that are meant. Raises ValueError with an end of a sentence."""
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\":
            char = text[position : position + 1]
            position += 1
            if char == "u":
                char = _unit(text[position : position + 4])
                position += 4
            else:
                char = _ESCAPES.get(char, char)
        out.append(char)
    return _joined("".join(out))


def _unit(digits: str) -> str:
    """The UTF-16 unit of the four digits after a backslash and u."""
    if not _HEX.fullmatch(digits):
        raise ValueError("has a malformed \\uXXXX escape: write four hexadecimal digits")
    return chr(int(digits, 16))


def _joined(text: str) -> str:
    """The text with pairs of surrogates joined: Java writes a character above U+FFFF as two escapes."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("has a \\uXXXX escape that is half of a character") from None


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
