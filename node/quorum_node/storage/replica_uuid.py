"""Assigns a replica UUID to a directory that has none, once (K853-01).

Source: KIP-853, "Replica UUID": a replica whose quorum-state has version 0 generates its UUID when
it is upgraded. Kafka's static quorums can leave such directories: meta.properties without
directory.id.
The UUID is durable in meta.properties before quorum-state becomes version 1. After a crash between
the two the next start completes the upgrade with the same UUID. A quorum-state of version 1 belongs
to a UUID already: without directory.id the identity is lost, and no new one is generated.
"""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from quorum_node.json_text import read_json
from quorum_node.storage.atomic_file import read_file
from quorum_node.storage.meta_properties import FILE_NAME as META_PROPERTIES
from quorum_node.storage.meta_properties import MetaProperties, write_meta_properties
from quorum_node.storage.properties_text import parse_checked_properties
from quorum_node.storage.quorum_state import FILE_NAME as QUORUM_STATE


def give_replica_uuid(directory: Path, partition: Path, fresh: Callable[[], UUID]) -> UUID | None:
    """The new UUID, or None if this directory needs none (or can't be upgraded)."""
    content = read_file(directory / META_PROPERTIES)
    if content is None:
        return None
    try:
        pairs = parse_checked_properties(content)
        if pairs.get("version") != "1" or "directory.id" in pairs:
            return None
        node_id = int(pairs["node.id"])
    except (ValueError, KeyError):
        return None  # damaged: reported by the code that reads it next
    if _version_of(read_file(partition / QUORUM_STATE)) != 0:
        return None
    uuid = fresh()
    write_meta_properties(directory, MetaProperties(node_id, uuid, pairs.get("cluster.id")))
    return uuid


def _version_of(content: bytes | None) -> int | None:
    try:
        return int(read_json(content or b"")["data_version"])
    except (ValueError, KeyError, TypeError):
        return None
