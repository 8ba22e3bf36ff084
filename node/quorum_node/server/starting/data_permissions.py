"""Checks at the start that this user may use the data directory.

Wrong owners or modes come from the configuration of the pod or the host. They are no sign of a
failed disk: the start must not be latched as a storage failure, and the operator must not replace
the replica. Every other error of the file system is left to the code that opens the files. Nothing
is written.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from quorum_node.configuration.keys import node
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.configuration.properties import ConfigError
from quorum_node.storage import (
    leader_epochs,
    partition_metadata,
    quorum_state,
    replica_identity,
    synced_end,
)
from quorum_node.storage.meta_properties import FILE_NAME as META_PROPERTIES
from quorum_node.storage.partition_directory import is_partition_directory

_SEGMENT_OR_SNAPSHOT = re.compile(r"[0-9]{20}(\.log|\.seal|-[0-9]{10}\.checkpoint)")
_NAMES = frozenset(
    each.FILE_NAME
    for each in (leader_epochs, partition_metadata, quorum_state, replica_identity, synced_end)
)


class NoPermission(ConfigError):
    """This user may not use the data directory, or something in it."""


def check_permissions(config: NodeConfig) -> None:
    """Raises NoPermission if a permission is missing, and ConfigError if the path is not a directory."""
    path = config.data_dir
    key = f"{node.DATA_DIR.name}={path}"
    try:
        existing = next(each for each in (path, *path.parents) if _exists(each))
        if not existing.is_dir():
            raise ConfigError(f"{key}: {existing} is not a directory")
        if existing != path:
            _check_writable(existing)
            return
        for each in _content(path):
            _check(each)
    except PermissionError as error:
        raise NoPermission(
            f"{key}: the user {os.geteuid()} may not use {error.filename}: {error.strerror}. Nothing"
            " was changed. Correct the owner or the mode, in a pod by runAsUser or fsGroup"
        ) from None
    except OSError:
        return


def _exists(path: Path) -> bool:
    """Whether the path exists; a dangling symbolic link does. Raises OSError, so that an I/O error is not taken for a missing file."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _content(path: Path) -> Iterator[Path]:
    """The directory, and the node's own files and directories in it.

    Others are ignored: a volume may contain lost+found or quota files of root.
    """
    yield path
    for each in sorted(path.iterdir()):
        if each.name == META_PROPERTIES:
            yield each
        elif is_partition_directory(each.name):
            yield each
            yield from (file for file in sorted(each.iterdir()) if _is_read(file.name))


def _is_read(name: str) -> bool:
    """Whether a start reads the file of a partition with this name."""
    return name in _NAMES or _SEGMENT_OR_SNAPSHOT.fullmatch(name) is not None


def _check(path: Path) -> None:
    if path.is_dir():
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
        _check_writable(path)
    elif path.is_file():
        os.close(os.open(path, os.O_RDONLY))


def _check_writable(path: Path) -> None:
    """Raises PermissionError. A read-only file system is not reported: that is a sign of a failed disk."""
    read_only = os.statvfs(path).f_flag & os.ST_RDONLY
    if not read_only and not os.access(path, os.W_OK | os.X_OK, effective_ids=True):
        raise PermissionError(1, "no permission to write", str(path))
