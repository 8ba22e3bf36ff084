"""Properties files with a checksum (`java_properties` has the text format).

Our files begin with a comment and end with another one, the CRC-32C of everything before it. Java
ignores both. Files without these comments are accepted.
Pure text handling: no files, no meaning of keys.
"""

from quorum_node.java_properties import format_properties, parse_properties
from quorum_node.storage.checked_text import CheckedText

_CHECKED = CheckedText(b"#quorum-node: the last line is a checksum\n", b"#crc32c=", b"\n")


def format_checked_properties(pairs: dict[str, str]) -> bytes:
    """The content of a properties file with a checksum."""
    return _CHECKED.seal(_CHECKED.beginning + format_properties(pairs).encode())


def parse_checked_properties(content: bytes) -> dict[str, str]:
    """Key → value. Raises ValueError if the text is malformed, or its checksum is wrong or missing."""
    pairs = parse_properties(content.decode())
    _CHECKED.check(content)
    return pairs


def has_checksum(content: bytes) -> bool:
    """Whether there is a valid checksum. Raises ValueError if it is wrong or missing."""
    return _CHECKED.check(content)
