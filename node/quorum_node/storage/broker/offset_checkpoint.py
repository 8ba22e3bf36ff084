"""Offsets of the partitions of a log directory, in Kafka's text files.

    0                 version
    2                 number of entries
    topic 0 17        topic, partition, offset

Owns the format. Source: a stock broker's `OffsetCheckpointFile`.
"""

from collections.abc import Mapping
from pathlib import Path

from quorum_node.records.snapshot_id import MAX_OFFSET
from quorum_node.storage.atomic_file import read_file, replace_file
from quorum_node.storage.file_system import FileSystem

HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"

TopicPartition = tuple[str, int]


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int], files: FileSystem) -> None:
    """Replace the file durably. Raises StorageFailure or DiskFull."""
    lines = ["0", str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    replace_file(path, ("\n".join(lines) + "\n").encode(), files)


def read_offsets(path: Path, files: FileSystem) -> dict[TopicPartition, int] | None:
    """The entries; empty if there is no file. None if it is damaged: recovery then takes longer,
    but loses no records.

    Raises StorageFailure if it can't be read.
    """
    content = read_file(path, files)
    if content is None:
        return {}
    try:
        version, count, *lines = content.decode().splitlines()
        offsets, counted = {}, int(count)
        for line in lines:
            topic, partition, offset = line.split()
            offsets[topic, int(partition)] = int(offset)
    except ValueError:
        return None
    are_valid = all(0 <= each <= MAX_OFFSET for each in offsets.values())
    is_whole = version == "0" and counted == len(offsets)
    return offsets if is_whole and are_valid else None
