"""The checksum of a `quorum-state` file. Owns where it is in the text; `quorum_state.py` describes the file.

Programs that only read the log of a directory import this module. They need nothing of the Raft core, whose import takes
half a second of CPU.
"""

from pathlib import Path

from quorum_node.storage.atomic_file import read_file
from quorum_node.storage.checked_text import CheckedText
from quorum_node.storage.file_system import POSIX, FileSystem

FILE_NAME = "quorum-state"
CHECKED = CheckedText(b'{"privateVersion":1,', b',"crc32c":"', b'"}')


def has_checksum(directory: Path, files: FileSystem = POSIX) -> bool:
    """Whether a partition's quorum-state has a correct checksum: then this software wrote the directory last.

    Raises OSError.
    """
    content = read_file(directory / FILE_NAME, files)
    try:
        return content is not None and CHECKED.check(content)
    except ValueError:
        return False
