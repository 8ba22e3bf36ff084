"""Makes a complete copy of a data directory, for inspection and as a way back.

Owns which files are copied. A copy with its final name is complete and durable. Files are copied,
not linked: the log truncates its files in place, which would change hard links as well.
"""

import os
import shutil
from pathlib import Path

from quorum_node.storage.atomic_file import TEMP_SUFFIX, sync_directory, sync_file
from quorum_node.storage.errors import DiskFull, storage_errors
from quorum_node.storage.meta_properties import FILE_NAME
from quorum_node.storage.partition_directory import is_partition_directory


def keep_copy(directory: Path, name: str) -> Path:
    """Copy meta.properties and all partitions into `directory/name`, unless that exists already.

    Raises DiskFull (before anything is written, if that can be determined) or StorageFailure.
    """
    target = directory / name
    if target.exists():
        return target
    temp = directory / (name + TEMP_SUFFIX)
    with storage_errors(f"copy {directory}"):
        shutil.rmtree(temp, ignore_errors=True)
        parts = [each for each in directory.iterdir() if is_partition_directory(each.name)]
        files = [directory / FILE_NAME, *(file for part in parts for file in part.iterdir())]
        needed = sum(file.stat().st_size for file in files)
        free = shutil.disk_usage(directory).free
        if needed > free:
            raise DiskFull(f"a copy of {directory} needs {needed} bytes, {free} are free")
        for file in files:
            _copy(file, temp / file.relative_to(directory))
        for part in parts:
            sync_directory(temp / part.name)
        sync_directory(temp)
        os.rename(temp, target)
        sync_directory(directory)
    return target


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as reader, target.open("wb") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
        writer.flush()
        sync_file(writer.fileno())
