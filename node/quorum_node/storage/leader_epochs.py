"""`leader-epoch-checkpoint`: the start offset of each epoch, in Kafka's text format.

    0                 version
    2                 number of entries
    1 0               epoch, start offset
    4 17

The log writes it durably *before* the first batch of an epoch, and after a truncation is durable.
So the epochs of an intact log equal the checkpoint's entries below the log's end, and any difference
is damage. This detects flipped bits in the epoch of a batch header, which no CRC covers.
"""

from itertools import pairwise
from pathlib import Path

from quorum_node.records.snapshot_id import MAX_EPOCH, MAX_OFFSET
from quorum_node.storage.atomic_file import read_file, replace_file
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.file_system import POSIX, FileSystem

FILE_NAME = "leader-epoch-checkpoint"
EpochStarts = list[tuple[int, int]]
"""(epoch, start offset), both ascending."""


class DamagedCheckpoint(StorageFailure):
    """The file is readable, but not a valid checkpoint."""


def write_checkpoint(directory: Path, starts: EpochStarts, files: FileSystem = POSIX) -> None:
    """Replace the file durably. Raises StorageFailure or DiskFull."""
    lines = ["0", str(len(starts)), *(f"{epoch} {offset}" for epoch, offset in starts)]
    replace_file(directory / FILE_NAME, ("\n".join(lines) + "\n").encode(), files)


def read_checkpoint(directory: Path, files: FileSystem = POSIX) -> EpochStarts:
    """The entries; empty when there is no file. Raises StorageFailure, DamagedCheckpoint when it is damaged."""
    content = read_file(directory / FILE_NAME, files)
    if content is None:
        return []
    try:
        version, count, *rest, left = content.decode("ascii").split("\n")
        starts = [(int(epoch), int(offset)) for epoch, offset in (line.split() for line in rest)]
        whole = version == "0" and int(count) == len(starts) and not left and _ascend(starts)
    except ValueError:
        whole = False
    if not whole:
        raise DamagedCheckpoint(f"{directory / FILE_NAME} is damaged: {content[:200]!r}")
    return starts


def _ascend(starts: EpochStarts) -> bool:
    """Whether the epochs ascend, their offsets never descend, and each fits into its field of a batch."""
    are_valid = all(
        0 <= epoch <= MAX_EPOCH and 0 <= offset <= MAX_OFFSET for epoch, offset in starts
    )
    pairs = list(pairwise(starts))
    return are_valid and all(a[0] < b[0] and a[1] <= b[1] for a, b in pairs)


def from_offset(starts: EpochStarts, start_offset: int) -> EpochStarts:
    """The entries of a log that starts at `start_offset`: an epoch that began before it starts there."""
    covering = [epoch for epoch, offset in starts if offset <= start_offset]
    later = [start for start in starts if start[1] > start_offset]
    return [(covering[-1], start_offset), *later] if covering else later


def check_against_log(checkpoint: EpochStarts, found: EpochStarts, end_offset: int) -> None:
    """Raise StorageFailure unless the epochs found in the log are the checkpoint's."""
    expected = [start for start in checkpoint if start[1] < end_offset]
    if expected != found:
        raise StorageFailure(
            f"the log's epochs {_tail(found)} differ from {FILE_NAME} {_tail(expected)}:"
            " a batch header or the checkpoint is damaged"
        )


def _tail(starts: EpochStarts) -> str:
    return str(starts[-5:]) if len(starts) <= 5 else f"...{starts[-5:]}"
