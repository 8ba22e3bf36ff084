"""Properties files that say whether they are whole (`java_properties` has the text itself).

Files that we write begin with a comment and end with another one, the CRC-32C of all that stands before it. Java
reads over both. A file that never had them is taken as it is.

Pure text handling: no files, no meaning of keys.
"""

from quorum_node.java_properties import format_properties, parse_properties
from quorum_node.storage.checked_text import CheckedText

_CHECKED = CheckedText(b"#quorum-node: the last line is a checksum\n", b"#crc32c=", b"\n")


def format_checked_properties(pairs: dict[str, str]) -> bytes:
    """The content of a properties file that says whether it is whole."""
    return _CHECKED.seal(_CHECKED.beginning + format_properties(pairs).encode())


def parse_checked_properties(content: bytes) -> dict[str, str]:
    """Key → value. Raises ValueError when the text is malformed or its checksum is wrong or gone."""
    pairs = parse_properties(content.decode())
    _CHECKED.check(content)
    return pairs


def has_checksum(content: bytes) -> bool:
    """Whether there is one, and it is right. Raises ValueError when it is wrong or gone."""
    return _CHECKED.check(content)
