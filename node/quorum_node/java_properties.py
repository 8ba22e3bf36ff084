"""Java properties text, as far as Kafka's files use it: key=value lines, comments, escapes.

Pure text handling: no files, no meaning of keys.
"""

import re

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str, *, unique: bool = False) -> dict[str, str]:
    """Key → value; a later line wins, as in Java. Raises ValueError with the number of a line without a separator, and
    with `unique` also with the numbers of two lines that set the same key.

    Such lines are not shown: they may be parts of a private key whose line ends were not escaped.
    """
    pairs: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(_logical_lines(text), start=1):
        if not line or line[0] in "#!":
            continue
        key, found, value = _split(line)
        if not found:
            raise ValueError(f"line {number} is not in the form key=value")
        name = _unescape(key)
        if unique and name in pairs:
            raise ValueError(f"lines {lines[name]} and {number} set the same key: remove one")
        pairs[name], lines[name] = _unescape(value), number
    return pairs


def format_properties(pairs: dict[str, str]) -> str:
    """The text of a properties file, sorted by key."""
    return "".join(f"{key}={_escape(value)}\n" for key, value in sorted(pairs.items()))


_LINE_END = re.compile("\r\n|\n|\r")
"""Line ends of Java. Python's `splitlines` splits at further characters, which may be part of a value."""


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    carried = ""
    for raw in _LINE_END.split(text):
        line = carried + raw.strip()
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            carried = line[:-1]
            continue
        lines.append(line)
        carried = ""
    return [*lines, carried] if carried else lines


def _split(line: str) -> tuple[str, bool, str]:
    escaped = False
    for index, char in enumerate(line):
        if not escaped and char in "=:":
            return line[:index].strip(), True, line[index + 1 :].strip()
        escaped = char == "\\" and not escaped
    return line, False, ""


def _unescape(text: str) -> str:
    out: list[str] = []
    chars = iter(text)
    for char in chars:
        if char != "\\":
            out.append(char)
            continue
        following = next(chars, "")
        out.append(_ESCAPES.get(following, following))
    return "".join(out)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
